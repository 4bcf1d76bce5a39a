import shutil

import jax
import numpy as np
import pytest

from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.checkpoints.steps import find_checkpoints
from t5x_like.evaluation.every_checkpoint import evaluate_steps
from t5x_like.evaluation.suite_settings import SuiteEvaluation
from t5x_like.io.files import read_json, write_json
from t5x_like.pretrained.model_config import write_model_config
from t5x_like.pretrained.open_checkpoint import open_checkpoint


@pytest.fixture
def run(t5, data, tmp_path):
    """An evaluation of a run of ours in ``tmp_path/run``, and what saves its steps."""
    opened = open_checkpoint(t5)
    config, params = opened.config, opened.params
    write_model_config(tmp_path / "run", config)

    def save(step, factor=1.0):
        with Checkpoints(tmp_path / "run") as checkpoints:
            checkpoints.save(step, {"params": jax.tree.map(lambda leaf: leaf * factor, params)})

    suite = SuiteEvaluation(
        checkpoint=str(tmp_path / "run"),
        tasks=("glue_cola_v002",),
        output_dir=str(tmp_path / "out"),
        data_dir=data,
        vocabulary=f"{t5}/spiece.model",
        batch_size=8,
        limit=8,
        inputs_length=32,
        resamples=0,
    )
    return suite, save


def test_every_step_is_evaluated_into_a_folder_of_its_own(run, tmp_path):
    suite, save = run
    with pytest.raises(ValueError, match="no finished step to evaluate; watch=True waits"):
        list(evaluate_steps(suite, shown=False))
    for step in (5, 10):
        save(step)
    assert [step for step, _ in evaluate_steps(suite, shown=False)] == [5, 10]
    scores = read_json(tmp_path / "out/scores_by_step.json")
    assert list(scores) == ["5", "10"]
    assert scores["5"]["glue_cola_v002/matthews_corrcoef"] == 0.0
    assert read_json(tmp_path / "out/step_10/scores.json")["step"] == 10


def test_steps_are_evaluated_as_they_appear_until_the_last(run, tmp_path):
    suite, save = run
    write_json(tmp_path / "run/config.json", {"total_steps": 20})
    save(10)
    waited = []

    def sleep(seconds):
        waited.append(seconds)
        save(20)

    steps = evaluate_steps(suite, watch=True, seconds=3.0, sleep=sleep, shown=False)
    assert [step for step, _ in steps] == [10, 20]
    assert waited == [3.0]


@pytest.mark.slow
def test_steps_that_are_no_numbers_or_that_training_removes_are_passed_over(run, tmp_path, caplog):
    suite, save = run
    for step in (5, 10, 15):
        save(step)
    steps = evaluate_steps(suite, shown=False)
    assert next(steps)[0] == 5
    shutil.rmtree(find_checkpoints(tmp_path / "run")[0] / "10")
    assert [step for step, _ in steps] == [15]
    assert "step 10 is skipped: training keeps its newest checkpoints only" in caplog.text
    save(20, np.nan)
    assert [step for step, _ in evaluate_steps(suite, shown=False)] == [5, 15]
    assert "step 20 is skipped" in caplog.text
    assert "weights are NaN" in caplog.text


def test_what_is_no_run_has_one_checkpoint(t5, tmp_path):
    suite = SuiteEvaluation(checkpoint=t5, tasks=("glue_cola_v002",), output_dir=str(tmp_path / "out"))
    with pytest.raises(ValueError, match="is not a run and has one checkpoint only"):
        list(evaluate_steps(suite, shown=False))
