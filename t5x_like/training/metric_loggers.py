"""Hooks that pass logged numbers on: to a CSV file, to Weights & Biases, to MLflow.

``metrics.jsonl`` and TensorBoard's files are always written. These come on top: ``RunConfig(hooks=(CsvLogger(),))``.
"""

import csv
import importlib
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Protocol

import jax

from t5x_like.config_class import config_class
from t5x_like.io.files import as_path, read_json, write_json
from t5x_like.training.backoff import Backoff
from t5x_like.training.hooks import Hook, RunProgress


class MetricSink(Protocol):
    """An open connection that takes numbers."""

    def write(self, step: int, split: str, numbers: Mapping[str, float]) -> None:
        """Take the numbers of one log line.

        Args:
          step: Step of the numbers.
          split: Split, such as "train".
          numbers: Values by name.
        """
        ...

    def close(self) -> None:
        """End the connection."""
        ...


class MetricLogger(Hook):
    """Base of hooks that pass every logged number on, from the first process.

    A subclass is a configuration that opens a ``MetricSink``. Lines from before a resume are not passed on again.
    """

    _sink: MetricSink | None = None
    _num_passed: int = 0
    _backoff: Backoff | None = None

    def open(self, run: RunProgress) -> MetricSink:
        """Connect for a run that begins or continues."""
        raise NotImplementedError

    def start(self, run: RunProgress) -> None:
        """Take note of what was passed on before; connects with the first new line."""
        object.__setattr__(self, "_backoff", Backoff())
        self._remember(None, len(run.lines))

    def after_step(self, run: RunProgress) -> None:
        """Pass on what was logged since the last call, and end the connection with the run.

        Training continues if that fails. The lines are passed on after a while, with later ones.

        Raises:
          ValueError: the logger is configured wrongly.
        """
        assert self._backoff is not None, "start comes first"
        is_idle = len(run.lines) == self._num_passed and self._sink is None
        if jax.process_index() != 0 or is_idle or (self._backoff.seconds_left and not run.is_last):
            return
        try:
            self._pass_on(run)
            self._backoff.succeed()
        except ValueError:
            raise
        except Exception as error:  # of a server or a disk, by any class of its library
            seconds = self._backoff.fail()
            run.say(
                f"{type(self).__name__} failed, and training continues; the next try is in {seconds:.0f} s or more: "
                f"{type(error).__name__}: {error}"
            )

    def _pass_on(self, run: RunProgress) -> None:
        sink = self._sink or self.open(run)
        for line in run.lines[self._num_passed :]:
            sink.write(line["step"], line["split"], _numbers(line))
            self._remember(sink, self._num_passed + 1)
        if run.is_last:
            sink.close()
        self._remember(None if run.is_last else sink, len(run.lines))

    def _remember(self, sink: MetricSink | None, num_passed: int) -> None:
        """Keep what a frozen configuration has no field for."""
        object.__setattr__(self, "_sink", sink)
        object.__setattr__(self, "_num_passed", num_passed)


def _numbers(line: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in line.items() if name != "step" and type(value) in (int, float)}


@config_class
class CsvLogger(MetricLogger):
    """Writes ``metrics.csv`` with the columns step, split, name and value: a row for each number.

    Attributes:
      path: File to write; ``metrics.csv`` in the run's directory if not given.
    """

    path: str | None = None

    def open(self, run: RunProgress) -> MetricSink:
        """See ``MetricLogger.open``. Writes earlier lines anew, so that each step is in the file once."""
        sink = _CsvSink(self.path or f"{run.model_dir}/metrics.csv")
        for line in run.lines[: self._num_passed]:
            sink.write(line["step"], line["split"], _numbers(line))
        return sink


class _CsvSink:
    def __init__(self, path: str) -> None:
        as_path(path).parent.mkdir(parents=True, exist_ok=True)
        self._file = as_path(path).open("w", encoding="utf-8")
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._writer.writerow(("step", "split", "name", "value"))

    def write(self, step: int, split: str, numbers: Mapping[str, float]) -> None:
        self._writer.writerows((step, split, name, value) for name, value in numbers.items())
        self._file.flush()

    def close(self) -> None:
        self._file.close()


@config_class
class WandbLogger(MetricLogger):
    """Logs to Weights & Biases; needs ``pip install 't5x-like[wandb]'``. A resumed run continues there.

    Attributes:
      project: Project that the run belongs to.
      entity: User or team; your default one if not given.
      name: Name of the run; the name of its directory if not given.
      mode: "offline" writes files for ``wandb sync``; if not given ``$WANDB_MODE`` decides.
      tags: Tags of the run.
    """

    project: str = "t5x_like"
    entity: str | None = None
    name: str | None = None
    mode: Literal["online", "offline", "disabled"] | None = None
    tags: tuple[str, ...] = ()

    def open(self, run: RunProgress) -> MetricSink:
        """See ``MetricLogger.open``.

        Raises:
          ValueError: the package is not installed.
        """
        wandb = _required("wandb", extra="wandb")
        identity = _identity(run, "wandb.json", lambda: uuid.uuid4().hex[:12])
        return _WandbSink(
            wandb.init(
                project=self.project,
                entity=self.entity,
                name=self.name or Path(run.model_dir).name,
                mode=self.mode,
                tags=list(self.tags),
                id=identity,
                resume="allow",
                dir=run.model_dir,
                config=dict(run.config),
            )
        )


class _WandbSink:
    def __init__(self, run: Any) -> None:
        self._run = run

    def write(self, step: int, split: str, numbers: Mapping[str, float]) -> None:
        self._run.log({f"{split}/{name}": value for name, value in numbers.items()}, step=step)

    def close(self) -> None:
        self._run.finish()


@config_class
class MlflowLogger(MetricLogger):
    """Logs to MLflow; needs ``pip install 't5x-like[mlflow]'``. A resumed run continues there.

    Attributes:
      experiment: MLflow's name for a group of runs; it is made if it doesn't exist.
      name: Name of the run; the name of its directory if not given.
      tracking_uri: Server or folder; if not given ``$MLFLOW_TRACKING_URI`` decides.
    """

    experiment: str = "t5x_like"
    name: str | None = None
    tracking_uri: str | None = None

    def open(self, run: RunProgress) -> MetricSink:
        """See ``MetricLogger.open``.

        Raises:
          ValueError: the package is not installed.
        """
        tracking = _required("mlflow.tracking", extra="mlflow")
        entities = _required("mlflow.entities", extra="mlflow")
        client = tracking.MlflowClient(tracking_uri=self.tracking_uri)

        def new_run() -> str:
            experiment = client.get_experiment_by_name(self.experiment)
            group = (
                client.create_experiment(self.experiment) if experiment is None else experiment.experiment_id
            )
            made = client.create_run(group, run_name=self.name or Path(run.model_dir).name).info.run_id
            values = [entities.Param(_name(key), str(value)[:500]) for key, value in run.config.items()]
            for start in range(0, len(values), _MLFLOW_PARAMS_AT_ONCE):
                client.log_batch(made, params=values[start : start + _MLFLOW_PARAMS_AT_ONCE])
            return made

        return _MlflowSink(client, entities.Metric, _identity(run, "mlflow.json", new_run))


_MLFLOW_PARAMS_AT_ONCE = 100  # MLflow's limit for one request


class _MlflowSink:
    def __init__(self, client: Any, metric: Any, run_id: str) -> None:
        self._client, self._metric, self._run_id = client, metric, run_id
        client.update_run(run_id, status="RUNNING")

    def write(self, step: int, split: str, numbers: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        metrics = [
            self._metric(_name(f"{split}/{name}"), value, now, step) for name, value in numbers.items()
        ]
        self._client.log_batch(self._run_id, metrics=metrics)

    def close(self) -> None:
        self._client.set_terminated(self._run_id)


def _name(key: str) -> str:
    """MLflow's names have letters, digits and a few signs."""
    return "".join(sign if sign.isalnum() or sign in "_-./ :" else "_" for sign in key)


def _identity(run: RunProgress, file: str, make: Callable[[], str]) -> str:
    """Return the run's name in another system, kept in its directory so that a resumed run continues there."""
    path = as_path(run.model_dir) / file
    if not path.exists():
        write_json(path, {"id": make()})
    return read_json(path)["id"]


def _required(module: str, *, extra: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ValueError(f"{module} isn't installed; pip install 't5x-like[{extra}]'") from error
