"""Figures of the real command come from its log, and every recipe of the script can run."""

import pytest

from benchmarks import real_step
from benchmarks.real_step import LARGE, TINY, comparison, run_figures
from t5x_like.cli.arguments import EXPERIMENT
from t5x_like.cli.main import split_overrides
from t5x_like.gin_config.configuration import load


def line(step, *, rate, tokens, **others):
    rates = {"steps_per_second": rate, "tokens_per_second": tokens, "data_wait_fraction": 0.1}
    return {"step": step, "split": "train", **rates, "row_share_filled": 0.75, **others}


# The first of the 10 steps of the first line compiles and is not in its rates.
LINES = [
    line(10, rate=3.0, tokens=300.0, compile_seconds=5.0, row_share_filled=0.5),
    line(20, rate=2.0, tokens=240.0),
    {"step": 20, "split": "validation/king_james", "loss": 4.0},
    line(30, rate=5.0, tokens=500.0, **{"pause_seconds/evaluating": 2.5}),
    line(40, rate=5.0, tokens=500.0, **{"pause_seconds/evaluating": 0.5, "pause_seconds/saving": 1.0}),
    line(
        50,
        rate=5.0,
        tokens=500.0,
        data_wait_fraction=0.6,
        **{"pause_seconds/evaluating": 1.5, "pause_seconds/saving": 0.25},
    ),
]
SPENT = {10: 1.0, 20: 2.0, 30: 3.0, 40: 4.0, 50: 5.0}
SECONDS = 9 / 3 + 10 / 2 + 10 / 5 + 10 / 5 + 10 / 5
TOKENS = 3 * 300 + 5 * 240 + 3 * 2 * 500


def test_rates_are_those_of_all_steps_but_the_first_and_pauses_come_on_top():
    figures = run_figures(LINES, SPENT)
    assert figures["steps"] == 49
    assert figures["compile_seconds"] == 5.0
    assert figures["steps_per_second"] == pytest.approx(49 / SECONDS)
    assert figures["tokens_per_second"] == pytest.approx(TOKENS / SECONDS)
    assert figures["tokens_per_second_with_pauses"] == pytest.approx(TOKENS / (SECONDS + 5.75))
    assert figures["data_wait_fraction"] == pytest.approx((0.1 * (SECONDS - 2) + 0.6 * 2) / SECONDS)
    assert figures["padding"] == 0.25
    assert figures["steps_per_second_of_lines"] == {"slowest": 2.0, "median": 5.0, "fastest": 5.0}
    assert "device_peak_gib" not in figures


def test_the_first_evaluation_and_the_first_save_are_told_apart_from_the_others():
    figures = run_figures(LINES, SPENT)
    assert figures["first_evaluation_seconds"] == 2.5
    assert figures["evaluation_seconds"] == 1.0
    assert (figures["first_save_seconds"], figures["save_seconds"]) == (1.0, 0.25)
    assert run_figures(LINES[:-1], SPENT)["save_seconds"] == 1.0


def test_the_newest_peak_of_a_device_is_kept():
    lines = [each | {"device_peak_gib": each["step"] / 10} for each in LINES]
    assert run_figures(lines, SPENT)["device_peak_gib"] == 5.0


def test_processor_time_is_that_of_lines_without_compilation_and_pauses():
    lines = [line(step, rate=1.0, tokens=1.0, **extra) for step, extra in (
        (10, {"compile_seconds": 5.0}), (20, {}), (30, {"pause_seconds/evaluating": 1.0, "pause_seconds/saving": 1.0}),
        (40, {}), (50, {"pause_seconds/evaluating": 1.0}), (60, {}),
    )]  # fmt: skip
    figures = run_figures(lines, {10: 30.0, 20: 32.0, 30: 132.0, 40: 136.0, 50: 236.0, 60: 237.0})
    assert figures["processor_seconds_per_step"] == pytest.approx(0.2)


def test_a_run_is_compared_with_the_synthetic_step_by_medians():
    real = {
        "steps_per_second_of_lines": {"median": 4.0},
        "processor_seconds_per_step": 0.33,
        "tokens_per_second_with_pauses": 300.0,
    }
    synthetic = {
        "seconds_per_step": {"median": 0.2},
        "processor_seconds_per_step": 0.3,
        "tokens_per_second": 500.0,
        "model_flops_utilization": None,
    }
    assert comparison(real, synthetic) == {
        "synthetic_steps_per_second": pytest.approx(5.0),
        "ratio_of_steps_per_second": pytest.approx(0.8),
        "ratio_of_processor_seconds": pytest.approx(1.1),
        "ratio_of_tokens_with_pauses": pytest.approx(0.6),
        "model_flops_utilization": None,
    }
    on_gpu = comparison(real, synthetic | {"model_flops_utilization": 0.5})
    assert on_gpu["model_flops_utilization"] == pytest.approx(0.4)


@pytest.mark.parametrize("name", [*TINY, *LARGE])
def test_every_recipe_configures_a_run(name):
    recipe = (TINY | LARGE)[name]
    overrides, files = split_overrides(recipe.flags(MODEL_DIR="unused", TRAIN_STEPS=40, WARMUP_STEPS=4))
    run = load([file.removeprefix("--gin_file=") for file in files], overrides, roots=[EXPERIMENT]).value
    assert run.run.total_steps == 40
    if name in LARGE:
        assert (run.model.compute_dtype, run.model.remat) == ("bfloat16", "minimal")
        assert (run.mesh.data, run.mesh.fsdp, run.mesh.model) == (-1, 1, 1)
        assert run.model.attention_implementation == run.model.scan_layers == "auto"


def test_steps_that_quarters_do_not_divide_into_log_lines_are_refused(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["real_step", "--runs", "unused", "--steps", "100"])
    with pytest.raises(SystemExit):
        real_step.main()
    assert "multiple of 40" in capsys.readouterr().err


def test_a_command_that_fails_ends_the_measurement_with_its_message():
    with pytest.raises(SystemExit, match="there is no verb"):
        real_step.run_command(real_step.command("nothing"))


@pytest.mark.slow
def test_a_tiny_recipe_is_measured(tmp_path):
    measured = real_step.measure(TINY["bert"], 80, tmp_path / "bert")
    assert measured["choices"]["attention_implementation"] == "plain"
    assert measured["real"]["steps"] == 79
    assert measured["real"]["first_save_seconds"] > measured["real"]["save_seconds"] > 0
    assert measured["real"]["seconds_to_first_step"] > measured["real"]["compile_seconds"]
    assert 0.5 < measured["ratio_of_processor_seconds"] < 2
    assert not list(tmp_path.iterdir())
