"""Whole runs with growing batches, noise at the start and averages: to the bit where they were stopped."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from t5x_like.cli.main import main
from t5x_like.io.files import read_json
from t5x_like.model import parameters
from t5x_like.optimizers.optimizers import Adafactor
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.training.batch_ramp import BatchSizeRamp
from t5x_like.training.noisy_tune import NoisyTune
from t5x_like.training.run_config import Intervals
from t5x_like.training.weight_average import ExponentialMovingAverage
from tests.integration import tiny_run

EVERY_STEP = Intervals(log_every_steps=1, evaluate_every_steps=2, save_every_steps=1, keep_checkpoints=4)


def weights(directory, **options) -> dict[str, Any]:
    return parameters.flatten(open_checkpoint(directory, **options).params)


@pytest.fixture(scope="module")
def averaged(directory):
    """A run that averages its weights, stopped after three of its four steps, and continued."""
    run, data = (
        str(directory / "averaged"),
        tiny_run.experiment(directory, model_dir="", total_steps=1).data.train,
    )
    options: dict[str, Any] = {
        "average": ExponentialMovingAverage(decay=0.5),
        "intervals": EVERY_STEP,
        "validations": (replace(data, split="validation"),),
    }
    tiny_run.run(directory, model_dir=run, total_steps=3, **options)
    return run, tiny_run.run(directory, model_dir=run, total_steps=4, **options)


@pytest.mark.slow
def test_a_moving_average_is_evaluated_saved_and_continued(averaged):
    run, finished = averaged
    steps = [weights(run, step=step) for step in (1, 2, 3, 4)]
    first = weights(run, step=1, average=True)
    for path, result in weights(run, average=True).items():
        value = np.asarray(first[path])
        for step in steps[1:]:
            value = np.float32(0.5) * value + np.float32(0.5) * np.asarray(step[path])
        np.testing.assert_allclose(result, value, rtol=1e-5, atol=1e-7)
    actual, reference = (
        finished.last[f"validation/counting_and_capitals{suffix}"]["loss"] for suffix in ("", "@average")
    )
    assert actual != reference


@pytest.mark.slow
def test_averages_are_written_as_runs(averaged, directory, tmp_path):
    run, _ = averaged
    assert main(["convert", "--average", "moving", "--from", run, "--to", str(tmp_path / "moving")]) == 0
    assert main(["convert", "--average", "3", "--from", run, "--to", str(tmp_path / "last")]) == 0
    other = str(directory / "averaged_other")
    tiny_run.run(directory, model_dir=other, total_steps=2, seed=6, intervals=EVERY_STEP)
    assert main(["convert", "--average", "2", "--from", run, other, "--to", str(tmp_path / "soup")]) == 0
    moving, last, soup = (weights(tmp_path / name) for name in ("moving", "last", "soup"))
    steps = [weights(run, step=step) for step in (2, 3, 4)]
    others = [weights(other, step=step) for step in (1, 2)]
    for path, expected in weights(run, average=True).items():
        np.testing.assert_array_equal(moving[path], expected)
        of_run, of_other = (
            [np.asarray(each[path], np.float64) for each in several] for several in (steps, others)
        )
        np.testing.assert_array_equal(last[path], np.mean(of_run, axis=0).astype(np.float32))
        np.testing.assert_allclose(soup[path], np.mean(of_run[1:] + of_other, axis=0), rtol=1e-6)
    assert read_json(tmp_path / "soup/config.json") == read_json(f"{run}/config.json")
    assert open_checkpoint(tmp_path / "soup").found_tokenizer is not None
    assert (
        main(["convert", "--from", str(tmp_path / "soup"), "--to", str(tmp_path / "hf"), "--export", "hf"])
        == 0
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--average", "9"], "has 4 checkpoints, of the steps 1, 2, 3, 4; average at most as many"),
        (["--average", "many"], "--average is 'many'; give a number of checkpoints, or moving"),
        (["--average", "1"], "--average 1 of one run is its newest checkpoint"),
        (["--average", "2", "--export", "hf"], "--export is not for --average, which writes a run"),
    ],
)
def test_averages_that_can_not_be_are_refused(averaged, tmp_path, capsys, flags, message):
    assert main(["convert", *flags, "--from", averaged[0], "--to", str(tmp_path / "out")]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_runs_without_an_average_or_of_another_model_are_refused(averaged, directory, tmp_path, capsys):
    other = str(directory / "averaged_wide")
    wide = replace(tiny_run.MODEL, mlp_dim=96)
    tiny_run.run(directory, model_dir=other, total_steps=1, model=wide, intervals=EVERY_STEP)
    with pytest.raises(ValueError, match=r"averaged_wide has no moving average.*Experiment\.average"):
        open_checkpoint(other, average=True)
    target = str(tmp_path / "out")
    assert main(["convert", "--average", "1", "--from", averaged[0], other, "--to", target]) == 2
    assert "feed_forward/up/kernel has shape" in capsys.readouterr().err
    assert main(["convert", "--from", averaged[0], other, "--to", target]) == 2
    assert "to average the weights of several runs add --average 1" in capsys.readouterr().err


@pytest.mark.slow  # tests/training/test_noisy_tune.py tests the noise itself
def test_noise_is_added_once_at_the_start(averaged, directory):
    """Without learning the weights are the noisy ones, also after a restart."""
    options: dict[str, Any] = {
        "start_from": averaged[0],
        "noisy_tune": NoisyTune(intensity=0.2, seed=9),
        "optimizer": Adafactor(learning_rate=0.0),
        "trainable": ("decoder/*", "heads/*"),
    }
    run = str(directory / "noisy")
    tiny_run.run(directory, model_dir=run, total_steps=1, **options)
    first = weights(run)
    tiny_run.run(directory, model_dir=run, total_steps=2, **options)
    before, after = weights(averaged[0]), weights(run)
    for path in before:
        np.testing.assert_array_equal(after[path], first[path])
        gets_noise = path.startswith(("decoder/", "heads/")) and np.std(before[path]) > 0
        assert np.any(after[path] != before[path]) == gets_noise, path


@pytest.mark.slow  # tests/training/test_batch_ramp.py tests its steps
def test_no_row_is_skipped_and_a_run_continues_with_the_same_bits(directory):
    options: dict[str, Any] = {
        "num_microbatches": 4,
        "batch_size_ramp": BatchSizeRamp(initial_batch_size=2, over_rows=16),
        "mesh": MeshConfig(data=2, model=4),
    }
    whole = tiny_run.run(directory, model_dir=str(directory / "ramp_whole"), total_steps=8, **options)
    tiny_run.run(directory, model_dir=str(directory / "ramp_halves"), total_steps=3, **options)
    halves = tiny_run.run(directory, model_dir=str(directory / "ramp_halves"), total_steps=8, **options)
    assert halves.last["train"]["loss"] == whole.last["train"]["loss"]
    with pytest.raises(ValueError, match="num_microbatches: the run has 4, you ask for 2"):
        tiny_run.run(
            directory,
            model_dir=str(directory / "ramp_halves"),
            total_steps=9,
            **options
            | {"num_microbatches": 2, "batch_size_ramp": BatchSizeRamp(initial_batch_size=4, over_rows=16)},
        )
