"""A sweep does each run once, goes on where it was stopped, and says what it found."""

import json
from pathlib import Path

import pytest

from t5x_like.cli.main import main

RECIPE = """
from __gin__ import dynamic_registration
from t5x_like.model.zoo import t5
from t5x_like.training import training_data

include 'gin/models/t5_1_1/tiny.gin'
include 'gin/hardware/cpu.gin'
include 'gin/recipes/quickstart/tasks.gin'
include 'gin/runs/finetune.gin'

INITIAL_CHECKPOINT = None
MIXTURE = 'wordnet_definitions'
INPUTS_LENGTH = 32
TARGETS_LENGTH = 4
BATCH_SIZE = 8
TRAIN_STEPS = 2
EVALUATE_EXAMPLES = 8
LOG_EVERY_STEPS = 1
training_data.TrainingData.validations = ()
t5.T5Config:
    model_dim = 16
    mlp_dim = 32
    num_heads = 2
    head_dim = 8
    num_encoder_layers = 1
    num_decoder_layers = 1
"""


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    (tmp_path / "small.gin").write_text(RECIPE)
    return str(tmp_path / "small.gin")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--over", "LEARNIG_RATE=1,2"], "LEARNING_RATE"),
        (["--over", "BATCH_SIZE=8,sixteen"], "sixteen"),
        (["--gin.training_data.TrainingData.evaluations=()"], "scores no task on held-out rows"),
        (["--first_run_only"], "--first_run_only: the recipe compares nothing"),
        (["--index", "1"], "--index 1: there are 1 runs to train, 0 to 0"),
        (["--jobs", "0"], "argument --jobs: 0 is too small; give a whole number of at least 1"),
        (["--jobs", "3", "--devices", "0,1"], "--jobs 3 need at least as many --devices, and there are 2"),
    ],
)
def test_mistakes_show_before_anything_has_begun(
    flags: list[str], message: str, recipe: str, tmp_path: Path, capsys
) -> None:
    assert main(["sweep", recipe, "--output", str(tmp_path / "out"), *flags]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_dry_run_names_the_runs(recipe: str, tmp_path: Path, capsys) -> None:
    out = tmp_path / "out"
    flags = ["--over", "LEARNING_RATE=1e-3,2e-3", "--seeds", "2", "--output", str(out), "--dry_run"]
    assert main(["sweep", recipe, *flags]) == 0
    shown = capsys.readouterr().out
    assert "4 runs, 0 finished before" in shown
    assert "  3  waiting   LEARNING_RATE=2e-3,SEED=1" in shown
    assert not out.exists()


SETTINGS = """
from t5x_like.sweep import comparison
COMPARISON = @comparison.Comparison()
comparison.Comparison.settings = {'slow': ('LEARNING_RATE = 1e-4',), 'fast': ('LEARNING_RATE = 0.1',)}
"""


def test_a_recipe_may_have_settings_of_its_own(recipe: str, tmp_path: Path, capsys) -> None:
    flags = ["--output", str(tmp_path / "out"), "--dry_run"]
    text = RECIPE.replace(
        "from t5x_like.training", SETTINGS.strip().splitlines()[0] + "\nfrom t5x_like.training", 1
    )
    Path(recipe).write_text(text + SETTINGS.strip().partition("\n")[2] + "\n")
    assert main(["sweep", recipe, *flags]) == 0
    shown = capsys.readouterr().out
    assert "2 runs, 0 finished before" in shown
    assert "waiting   fast" in shown
    assert main(["sweep", recipe, "--over", "BATCH_SIZE=8,16", "--only", "fast", *flags]) == 0
    assert "waiting   fast,BATCH_SIZE=16" in capsys.readouterr().out
    assert main(["sweep", recipe, "--only", "faster", *flags]) == 2
    assert (
        "--only 'faster': the recipe has no such setting; its settings are 'slow', 'fast'"
        in capsys.readouterr().err
    )
    Path(recipe).write_text(f"{RECIPE}COMPARISON = 3\n")
    assert main(["sweep", recipe, *flags]) == 2
    assert "COMPARISON is 3; it must be a comparison.Comparison()" in capsys.readouterr().err


def test_first_runs_alone_are_compared_by_a_loss(tmp_path: Path, capsys) -> None:
    recipe = "gin/recipes/comparisons/t5_denoising.gin"
    flags = [f"--output={tmp_path / 'out'}", "--dry_run", "--first_run_only"]
    assert main(["sweep", recipe, *flags]) == 2
    assert "--metric validation/TASK/loss --lowest" in capsys.readouterr().err
    loss = ["--metric=validation/king_james/loss", "--lowest"]
    assert main(["sweep", recipe, *flags, *loss]) == 0
    assert "4 runs, 0 finished before" in capsys.readouterr().out
    assert main(["sweep", recipe, *flags, *loss, "--then=gin/recipes/comparisons/toy_head.gin"]) == 2
    assert "--then names one; give one of them" in capsys.readouterr().err
    assert main(["sweep", "gin/recipes/comparisons/transfo_xl_memory.gin", *flags, *loss]) == 2
    assert "--first_run_only: this comparison has no second run" in capsys.readouterr().err


@pytest.mark.slow
def test_t5s_comparison_of_tuning_methods_is_one_command(tmp_path: Path, capsys) -> None:
    recipe = "gin/recipes/tuning/t5_table_10.gin"
    flags = ["--set", "INITIAL_CHECKPOINT=runs/pretrain", "--seeds=3", f"--output={tmp_path}", "--dry_run"]
    assert main(["sweep", recipe, *flags]) == 0
    assert "21 runs, 0 finished before" in capsys.readouterr().out


def test_values_for_macros_that_the_second_recipe_leaves_open_go_to_it(
    recipe: str, tmp_path: Path, capsys
) -> None:
    second = tmp_path / "second.gin"
    second.write_text(RECIPE.replace("BATCH_SIZE = 8", "BATCH_SIZE = %gin.REQUIRED"))
    flags = ["--then", str(second), "--output", str(tmp_path / "out"), "--dry_run"]
    assert main(["sweep", recipe, *flags]) == 2
    assert "BATCH_SIZE" in capsys.readouterr().err
    assert main(["sweep", recipe, "--set", "BATCH_SIZE=16", *flags]) == 0


def test_values_for_the_second_run_alone(recipe: str, tmp_path: Path, capsys) -> None:
    second = tmp_path / "second.gin"
    second.write_text(RECIPE)
    flags = ["--output", str(tmp_path / "out"), "--dry_run", "--set", "then:BATCH_SIZE=3"]
    assert main(["sweep", recipe, *flags]) == 2
    assert (
        "--set then:BATCH_SIZE=3: there is no second run; --then names its recipe" in capsys.readouterr().err
    )
    assert main(["sweep", recipe, "--then", str(second), *flags]) == 0
    assert main(["sweep", recipe, "--then", str(second), *flags, "--set", "then:NOTHING=3"]) == 2
    assert "there is no macro 'NOTHING'" in capsys.readouterr().err


@pytest.mark.slow
def test_a_sweep_over_real_runs_is_done_once_and_finds_the_best(recipe: str, tmp_path: Path, capsys) -> None:
    out = tmp_path / "out"
    command = [
        "sweep",
        recipe,
        "--over",
        "LEARNING_RATE=0.001,0.1",
        "--output",
        str(out),
        "--metric",
        "accuracy",
    ]
    assert main(command) == 0
    report = json.loads((out / "results.json").read_text())
    assert [one["status"] for one in report["runs"]] == ["finished", "finished"]
    assert [one["step"] for one in report["runs"]] == [2, 2]
    scores = [one["scores"]["wordnet_definitions/accuracy"] for one in report["runs"]]
    assert report["best"]["mean"] == max(scores)
    assert "the best: LEARNING_RATE=" in capsys.readouterr().out
    log = (out / "runs" / "LEARNING_RATE=0.1" / "metrics.jsonl").stat().st_mtime_ns
    assert main(command) == 0
    assert "2 runs, 2 finished before" in capsys.readouterr().out
    assert (out / "runs" / "LEARNING_RATE=0.1" / "metrics.jsonl").stat().st_mtime_ns == log
    assert main([*command, "--gin.BATCH_SIZE=16"]) == 2
    assert "finished run of another configuration" in capsys.readouterr().err


def test_one_run_of_a_sweep_can_be_trained_alone(recipe: str, tmp_path: Path, capsys) -> None:
    out = tmp_path / "out"
    command = ["sweep", recipe, "--over", "LEARNING_RATE=0.001,0.1", "--output", str(out)]
    assert main([*command, "--index", "1"]) == 0
    assert [path.name for path in out.iterdir()] == ["runs"]
    assert [path.name for path in (out / "runs").iterdir()] == ["LEARNING_RATE=0.1"]
    log = (out / "runs" / "LEARNING_RATE=0.1" / "metrics.jsonl").stat().st_mtime_ns
    assert main([*command, "--index", "1"]) == 0
    assert (out / "runs" / "LEARNING_RATE=0.1" / "metrics.jsonl").stat().st_mtime_ns == log
    assert main([*command, "--dry_run"]) == 0
    shown = capsys.readouterr().out
    assert "  0  waiting   LEARNING_RATE=0.001\n  1  finished  LEARNING_RATE=0.1" in shown


@pytest.mark.slow
def test_an_ensemble_of_settings_is_scored_by_their_averaged_predictions(
    recipe: str, tmp_path: Path, capsys
) -> None:
    text = RECIPE.replace(
        "from t5x_like.training", SETTINGS.strip().splitlines()[0] + "\nfrom t5x_like.training", 1
    )
    settings = SETTINGS.strip().partition("\n")[2]
    ensemble = "comparison.Comparison.ensembles = {'both': ('slow', 'fast')}"
    Path(recipe).write_text(f"{text}{settings}\n{ensemble}\n")
    out = tmp_path / "out"
    command = ["sweep", recipe, "--seeds", "2", "--output", str(out), "--metric", "accuracy"]
    assert main([*command, "--only", "slow", "--dry_run"]) == 0
    assert "both" not in capsys.readouterr().out
    assert main([*command, "--dry_run"]) == 0
    assert "waiting   both,SEED=1" in capsys.readouterr().out
    assert main(command) == 0
    assert "both" in capsys.readouterr().out
    scores = json.loads((out / "runs" / "both,SEED=1" / "scores.json").read_text())
    runs = [f"{out}/runs/{name},SEED=1" for name in ("slow", "fast")]
    assert scores["checkpoint"] == " + ".join(runs)
    assert scores["tasks"]["wordnet_definitions"]["limit"] == 8
    report = {one["name"]: one for one in json.loads((out / "results.json").read_text())["runs"]}
    measured = scores["tasks"]["wordnet_definitions"]["scores"]["accuracy"]
    assert report["both,SEED=1"]["score"] == measured
    assert main(command) == 0
    assert "6 runs, 6 finished before" in capsys.readouterr().out
