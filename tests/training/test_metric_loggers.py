"""Logged numbers reach a CSV file, Weights & Biases and MLflow; a resumed run continues there."""

import csv
from pathlib import Path

import jax
import numpy as np
import pytest

from t5x_like.config_class import config_class
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.training.backoff import Backoff
from t5x_like.training.hooks import Every, RunProgress
from t5x_like.training.loop import Loop
from t5x_like.training.metric_loggers import CsvLogger, MetricLogger, MetricSink, MlflowLogger, WandbLogger
from tests.training.test_hooks import Counting, step

CONFIG = {"optimizer.beta1": 0.9, "model.is": "T5Config", "tasks.0.files.train": "a.txt"}


def log(run: RunProgress) -> None:
    run.log("train", {"loss": 1.0 / run.step, "task": "counting"})
    run.log("validation/counting", {"loss": 2.0 / run.step})


def train(logger, model_dir: Path, *, total_steps: int, start_step: int = 0, lines=()) -> None:
    """Trains a sum, and logs every second step."""
    Loop(
        step,
        Counting(),
        mesh=MeshConfig().build(jax.devices()[:1]),
        total_steps=total_steps,
        hooks=[Every(2, log), logger],
        lines=lines,
        model_dir=str(model_dir),
        config=CONFIG,
    ).run({"step": np.int32(start_step), "sum": np.int32(0)}, start_step)


def rows(model_dir: Path) -> list[list[str]]:
    with open(model_dir / "metrics.csv", newline="") as file:
        return list(csv.reader(file))


def test_a_csv_file_has_a_row_for_each_number_also_of_a_resumed_run(tmp_path):
    train(CsvLogger(), tmp_path, total_steps=4)
    first = rows(tmp_path)
    assert first[:3] == [
        ["step", "split", "name", "value"],
        ["2", "train", "loss", "0.5"],
        ["2", "validation/counting", "loss", "1.0"],
    ]
    assert len(first) == 5
    before = [{"step": 2, "split": "train", "loss": 0.5}]  # step 4 was never saved
    train(CsvLogger(), tmp_path, total_steps=6, start_step=2, lines=before)
    assert [row[0] for row in rows(tmp_path)[1:]] == ["2", "4", "4", "6", "6"]


def test_a_complete_run_opens_nothing(tmp_path):
    train(CsvLogger(), tmp_path, total_steps=4, start_step=4)
    assert not (tmp_path / "metrics.csv").exists()


@pytest.mark.filterwarnings("ignore")  # of wandb itself
def test_weights_and_biases_gets_the_numbers_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_SILENT", "true")
    logger = WandbLogger(project="tests", mode="offline", tags=("small",))
    train(logger, tmp_path / "run", total_steps=2)
    train(logger, tmp_path / "run", total_steps=4, start_step=2, lines=[{"step": 2, "split": "train"}])
    written = list((tmp_path / "run/wandb").glob("offline-run-*/run-*.wandb"))
    assert len(written) == 2
    assert len({file.name for file in written}) == 1, "both are the same run there"
    stored = b"".join(file.read_bytes() for file in written)
    assert b"validation/counting/loss" in stored
    assert b"optimizer.beta1" in stored


@pytest.mark.filterwarnings("ignore")  # of mlflow itself
def test_mlflow_gets_the_numbers_in_files(tmp_path, monkeypatch):
    from mlflow.tracking import MlflowClient

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    store = f"file:{tmp_path}/mlruns"
    logger = MlflowLogger(experiment="tests", tracking_uri=store)
    train(logger, tmp_path / "run", total_steps=2)
    train(logger, tmp_path / "run", total_steps=4, start_step=2, lines=[{"step": 2, "split": "train"}])
    client = MlflowClient(tracking_uri=store)
    (run,) = client.search_runs([client.get_experiment_by_name("tests").experiment_id])
    assert run.info.run_name == "run"
    assert run.info.status == "FINISHED"
    assert run.data.params["optimizer.beta1"] == "0.9"
    history = client.get_metric_history(run.info.run_id, "validation/counting/loss")
    assert [(each.step, each.value) for each in history] == [(2, 1.0), (4, 0.5)]


def test_a_package_that_is_missing_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    with pytest.raises(ValueError, match=r"wandb isn't installed; pip install 't5x-like\[wandb\]'"):
        train(WandbLogger(), tmp_path, total_steps=2)


@config_class
class FlakyLogger(MetricLogger):
    """A server that refuses two lines."""

    passed: tuple[list, ...] = ([],)
    refused: tuple[list, ...] = ([],)

    def open(self, run: RunProgress) -> MetricSink:
        object.__setattr__(self, "_backoff", Backoff(first_seconds=0))
        return self

    def write(self, step, split, numbers):
        if step == 4 and len(self.refused[0]) < 2:
            self.refused[0].append(step)
            raise ConnectionError("503")
        self.passed[0].append((step, split))

    def close(self):
        self.passed[0].append("closed")


def test_a_server_that_fails_gets_the_lines_later_and_training_continues(tmp_path):
    logger = FlakyLogger()
    train(logger, tmp_path, total_steps=8)
    splits = ("train", "validation/counting")
    assert logger.passed[0] == [*((step, split) for step in (2, 4, 6, 8) for split in splits), "closed"]
    assert logger.refused[0] == [4, 4]
