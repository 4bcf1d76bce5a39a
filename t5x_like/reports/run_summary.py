"""Summaries of runs from the files that they leave: progress, newest metrics, best scores, state.

Nothing is imported or evaluated that a run directory names.
"""

import functools
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from etils import epath

from t5x_like.checkpoints.steps import absolute, find_checkpoints, finished_steps
from t5x_like.io.files import PathLike, as_path, changed_seconds, read_json
from t5x_like.io.writer_lock import current_writer
from t5x_like.reports.metrics_log import METRICS, MetricsLog, held_out_scores, read_log
from t5x_like.reports.score_tables import lower_is_better

# Numbers of validation lines that don't rate a model.
_NO_SCORES = ("target_tokens", "unigram_entropy", "z_loss")
_MODEL, _CONFIG = "model.json", "config.json"


class BestScore(NamedTuple):
    """A score of held-out data: the newest, and the best of all steps.

    Attributes:
      newest: Newest value.
      newest_step: Its step.
      best: Lowest value of a metric that counts errors, highest of others.
      best_step: Its first step.
    """

    newest: float
    newest_step: int
    best: float
    best_step: int


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """A run as its files describe it.

    Attributes:
      name: Name to show.
      directory: Directory of the run.
      config: Flattened values of ``config.json``; empty for a conversion.
      model: Values of ``model.json``.
      log: Logged lines.
      steps: Finished checkpoints.
      writer: ``host`` and ``pid`` of the process that trains it now; ``None`` if there is none.
      changed: When a line was logged or a checkpoint was finished last, in seconds since 1970.
      notes: Files that could not be read, in words.
    """

    name: str
    directory: str
    config: Mapping[str, Any]
    model: Mapping[str, Any]
    log: MetricsLog
    steps: tuple[int, ...]
    writer: Mapping[str, Any] | None
    changed: float
    notes: tuple[str, ...]

    @property
    def step(self) -> int | None:
        """Number of the last step that was logged or saved."""
        logged = [line["step"] for line in self.log.lines]
        return max([*logged, *self.steps[-1:]], default=None)

    @property
    def total_steps(self) -> int | None:
        """Number of steps that were asked for."""
        total = self.config.get("total_steps")
        return total if isinstance(total, int) else None

    @property
    def state(self) -> Literal["running", "complete", "stopped", "converted"]:
        """Running; complete, if the last step is saved; stopped before it; or converted from published weights."""
        if self.writer is not None:
            return "running"
        if not self.config and not self.log.lines and not self.notes:
            return "converted"
        is_complete = self.total_steps is not None and bool(self.steps) and self.steps[-1] >= self.total_steps
        return "complete" if is_complete else "stopped"

    @property
    def training(self) -> Mapping[str, Any]:
        """Newest logged line of training."""
        return next((line for line in reversed(self.log.lines) if line["split"] == "train"), {})

    @property
    def training_loss(self) -> float | None:
        """Newest training loss."""
        return next(
            (self.training[name] for name in ("loss", "cross_entropy") if name in self.training), None
        )

    @functools.cached_property
    def scores(self) -> dict[str, BestScore]:
        """Scores of held-out data by name: ``task/metric``, or ``validation/mixture/loss``."""
        best_scores: dict[str, BestScore] = {}
        for step, scores in held_out_scores(self.log.lines).items():
            for name, value in scores.items():
                if name.rpartition("/")[2] in _NO_SCORES:
                    continue
                best = best_scores.get(name)
                if best is None or _is_better(value, best.best, name):
                    best_scores[name] = BestScore(value, step, value, step)
                else:
                    best_scores[name] = best._replace(newest=value, newest_step=step)
        return best_scores


def _is_better(value: float, best: float, metric: str) -> bool:
    if math.isnan(best) or math.isnan(value):
        return math.isnan(best) and not math.isnan(value)
    return value < best if lower_is_better(metric) else value > best


def is_run(directory: PathLike) -> bool:
    """Return True for the directory of a run, or of a conversion to one."""
    return any((as_path(directory) / name).exists() for name in (_MODEL, METRICS))


def find_runs(directory: epath.Path) -> Iterator[epath.Path]:
    """Yield ``directory`` if it is a run, else the runs below it. Links, and folders of others, are left out."""
    if is_run(directory):
        yield directory
        return
    try:
        inner = sorted(directory.iterdir(), key=lambda path: path.name)
    except PermissionError:
        return
    for path in inner:
        if path.is_dir() and not path.name.startswith(".") and not os.path.islink(path):
            yield from find_runs(path)


def summarize_run(directory: PathLike, name: str | None = None) -> RunSummary:
    """Read the files of a run.

    Args:
      directory: The run.
      name: Name to show; the directory if not given.

    Raises:
      ValueError: It is no run.
    """
    home = absolute(directory)
    if not is_run(home):
        raise ValueError(
            f"{os.fspath(directory)} is no run: it has no {_MODEL} and no {METRICS}; give a directory that train was "
            "given as MODEL_DIR"
        )
    notes: list[str] = []
    config, model = (_record(home / file, notes) for file in (_CONFIG, _MODEL))
    log = read_log(home)
    if log.num_damaged:
        are = "line is" if log.num_damaged == 1 else "lines are"
        notes.append(f"{METRICS}: {log.num_damaged:,} {are} damaged, and left out")
    checkpoints, _ = find_checkpoints(home)
    steps = finished_steps(checkpoints)
    files = [
        home / METRICS,
        home / _MODEL,
        *(checkpoints / str(step) / "manifest.json" for step in steps[-1:]),
    ]
    return RunSummary(
        name=os.fspath(directory) if name is None else name,
        directory=os.fspath(home),
        config=config,
        model=model,
        log=log,
        steps=tuple(steps),
        writer=current_writer(os.fspath(home)),
        changed=max(changed_seconds(file) for file in files if file.exists()),
        notes=tuple(notes),
    )


def _record(path: epath.Path, notes: list[str]) -> dict[str, object]:
    """Return the values of a JSON file; none, and a note, if it is damaged."""
    try:
        return read_json(path, dict) if path.exists() else {}
    except (ValueError, RecursionError):
        notes.append(f"{path.name} is damaged")
        return {}
