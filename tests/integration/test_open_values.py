"""Runs whose optimizer or schedule is another library's function: trained, logged, recorded and continued."""

import json

import optax
import pytest

from t5x_like.io.files import read_json
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.training.train import train
from tests.integration.tiny_run import experiment


def rates(run):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [line.get("learning_rate") for line in map(json.loads, lines) if line.get("name") != "opening"]


@pytest.fixture
def run(directory, tmp_path):
    def train_with(optimizer, total_steps=2):
        train(
            experiment(
                directory,
                model_dir=str(tmp_path / "run"),
                total_steps=total_steps,
                optimizer=optimizer,
                evaluations=(),
                validations=(),
            )
        )
        return tmp_path / "run"

    return train_with


@pytest.mark.slow
def test_a_schedule_of_optax_is_logged_and_checked_when_the_run_continues(run, capfd):
    home = run(AdamW(learning_rate=optax.linear_schedule(1e-3, 0.0, 10)))
    assert "experiment.json can't hold optimizer.learning_rate" in "".join(capfd.readouterr())
    run(AdamW(learning_rate=optax.linear_schedule(1e-3, 0.0, 10)), total_steps=3)
    assert rates(home) == pytest.approx([1e-3, 9e-4, 8e-4])
    with pytest.raises(ValueError, match=r"optimizer.learning_rate: the run has .*transition_steps=10"):
        run(AdamW(learning_rate=optax.linear_schedule(1e-3, 0.0, 20)), total_steps=4)


@pytest.mark.slow
def test_a_bare_transformation_trains_and_is_recorded_by_name(run):
    home = run(optax.inject_hyperparams(optax.sgd)(learning_rate=optax.linear_schedule(1e-2, 0.0, 10)))
    assert rates(home) == pytest.approx([1e-2, 9e-3])
    assert "optax._src.alias:sgd" in read_json(home / "config.json", dict)["optimizer.transformation"]


def test_a_transformation_that_needs_the_loss_is_refused(run):
    with pytest.raises(ValueError, match="needs more than gradients and weights"):
        run(optax.contrib.reduce_on_plateau())
