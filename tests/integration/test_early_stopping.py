"""Early stopping: when it stops, that it says why, and that a resumed run decides the same."""

from dataclasses import replace

import numpy as np
import pytest

from t5x_like.gin_config.configuration import load
from t5x_like.io.files import read_jsonl
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.training.early_stopping import EarlyStopping
from t5x_like.training.hooks import RunProgress
from t5x_like.training.run_config import Intervals
from tests.integration import tiny_run

METRIC = "validation/words/loss"


def stop_reason(hook: EarlyStopping, values: list[float]) -> tuple[int, str | None]:
    """The step at which a run with these values, one each 10 steps, ends, and why."""
    run = RunProgress({}, step=0, total_steps=1000)
    hook.start(run)
    for number, value in enumerate(values, start=1):
        run.step = 10 * number
        run.log("train", {"loss": 0.0})
        hook.after_step(run)
        run.log("validation/words", {"loss": value})
        hook.after_step(run)
        if run.stop_reason:
            break
    return run.step, run.stop_reason


def test_it_stops_after_so_many_evaluations_without_an_improvement():
    hook = EarlyStopping(metric=METRIC, patience=2)
    assert stop_reason(hook, [3.0, 2.0, 2.5, 1.9, 1.9, 2.0, 1.0]) == (
        60,
        "stopped at step 60: validation/words/loss has not improved in 2 evaluations; it was best at step 40, 1.9",
    )
    assert stop_reason(hook, [3.0, 2.0, 2.5, 1.9, 1.95]) == (50, None)


def test_a_change_up_to_min_delta_is_no_improvement():
    hook = EarlyStopping(metric=METRIC, patience=2, min_delta=0.5)
    step, reason = stop_reason(hook, [3.0, 2.6, 2.55, 1.0])
    assert step == 30
    assert "has not improved by more than 0.5 in 2 evaluations; it was best at step 10, 3" in reason


def test_scores_improve_upwards_and_what_is_no_number_does_not():
    hook = EarlyStopping(metric="validation/words/loss", mode="max", patience=2)
    assert stop_reason(hook, [1.0, 2.0, 3.0, 4.0]) == (40, None)
    assert stop_reason(hook, [1.0, np.nan, np.nan, 4.0])[0] == 30


def test_a_metric_that_is_not_measured_is_refused_with_those_that_are():
    with pytest.raises(
        ValueError, match=r"needs 'validation/words/f1'.*choose metric among: validation/words/loss"
    ):
        stop_reason(EarlyStopping(metric="validation/words/f1"), [1.0])


def test_settings_that_cannot_be_meant_are_refused():
    with pytest.raises(ValueError, match="metric is 'loss'; name a number of held-out data"):
        EarlyStopping(metric="loss")
    with pytest.raises(ValueError, match="patience is 0"):
        EarlyStopping(metric=METRIC, patience=0)
    with pytest.raises(ValueError, match="min_delta is -1"):
        EarlyStopping(metric=METRIC, min_delta=-1)


def stopping_run(directory, name, total_steps, hook):
    """Losses fall all the time, but never by as much as the hook wants."""
    held_out = LoaderConfig(
        mixture="counting",
        split="validation",
        batch_size=8,
        inputs_length=64,
        targets_length=32,
        repeat=False,
    )
    return tiny_run.run(
        directory,
        model_dir=str(directory / name),
        total_steps=total_steps,
        validations=(held_out,),
        hooks=(hook,),
        intervals=Intervals(log_every_steps=100, evaluate_every_steps=2, save_every_steps=3),
    )


@pytest.mark.slow
def test_a_run_stops_saves_says_why_and_a_resumed_one_stops_at_the_same_step(directory, capsys):
    hook = EarlyStopping(metric="validation/counting/loss", patience=2, min_delta=100.0)
    finished = stopping_run(directory, "stopped", 20, hook)
    assert (finished.step, finished.completed) == (6, True)
    assert "stopped at step 6: validation/counting/loss has not improved" in finished.stop_reason
    assert finished.stop_reason in capsys.readouterr().err
    assert (directory / "stopped" / "6").is_dir()
    assert finished.last["train"]["step"] == 6, "the steps since the last log line are logged"

    stopping_run(directory, "stopped_in_halves", 4, replace(hook, patience=9))  # as if it had been killed
    again = stopping_run(directory, "stopped_in_halves", 20, hook)
    assert (again.step, again.last["validation/counting"]) == (6, finished.last["validation/counting"])

    before = list(read_jsonl(directory / "stopped" / "metrics.jsonl"))
    third = stopping_run(directory, "stopped", 20, hook)
    assert (third.step, third.completed, third.last) == (6, True, {})
    assert list(read_jsonl(directory / "stopped" / "metrics.jsonl")) == before
    patient = stopping_run(directory, "stopped", 8, replace(hook, patience=9))
    assert patient.step == 8, "with more patience it continues"


def test_gin_configures_it(tmp_path):
    file = tmp_path / "early.gin"
    file.write_text(
        "from __gin__ import dynamic_registration\n"
        "include 'gin/recipes/quickstart/pretrain.gin'\n"
        "from t5x_like.training import early_stopping\n"
        "from t5x_like.training import run_config\n"
        "MODEL_DIR = 'unused'\n"
        "run_config.RunConfig.hooks = (@early_stopping.EarlyStopping(),)\n"
        "early_stopping.EarlyStopping:\n"
        "    metric = 'validation/king_james/loss'\n"
        "    patience = 4\n"
    )
    loaded = load([str(file)], roots=["t5x_like.training.experiment.Experiment"])
    assert loaded.value.run.hooks == (EarlyStopping(metric="validation/king_james/loss", patience=4),)
