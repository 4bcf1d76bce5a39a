"""Format of ``scores.json`` and ``predictions.jsonl``, which every evaluation writes.

``DIR/scores.json`` holds:

- ``checkpoint``, ``step``: the weights; ``model``, ``parameters``: their architecture and size;
- ``settings``: all settings that predictions depend on (split, method, shots ...);
- ``versions`` of the libraries;
- ``tasks``: an entry for each task, see below;
- ``left_out``: tasks that were not evaluated, with the reason;
- ``averages``: of GLUE and SuperGLUE, each with its ``score`` and the ``missing`` metrics.

An entry of a task holds ``split``, ``limit``, ``method``, ``examples``, ``unlabeled``, ``invalid``, ``cut_inputs``,
``dropped_examples``, ``skipped``, ``first_skipped``, ``labels``, ``scores`` and ``baseline`` by metric (None where one
is not a number), ``baseline_name``, and ``intervals``. Optional fields are ``not_numbers``, ``signatures``,
``withheld``, ``published``, ``class_order``, ``head_of``, ``best_thresholds`` and ``seconds``. Tasks with classes have
``classes`` and ``confusion``, which ``class_scores`` describes. Ranked answers have ``calibration``, which
``pair_calibration`` describes. Extracted summaries have ``oracle``, the scores of the sentences that are their labels.

``DIR/TASK/predictions.jsonl`` holds a line for each row: ``task``, ``number``, ``input``, ``target`` (None if unknown),
``prediction`` as text, ``answer`` as metrics compare it, and ``cut``. Optional fields are ``dropped``,
``log_likelihood``, ``choices``, ``n_best``, ``null_score_diff`` and the source's own ``idx``. Ranked answers have
``rewards`` and ``lengths`` in characters, extracted summaries the sentences of the ``oracle``. For perplexity it holds
the cost of each text.
"""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, NamedTuple, TypedDict

from t5x_like.io.files import PathLike, as_path, read_json, read_jsonl, write_json
from t5x_like.text.benchmarks.suites import SUITES
from t5x_like.value_types import fits
from t5x_like.version import __version__

SCORES = "scores.json"
PREDICTIONS = "predictions.jsonl"

Entry = dict[str, Any]  # of a task in scores.json
Row = dict[str, Any]  # of predictions.jsonl


class SuiteAverage(TypedDict):
    """Average of a suite; ``None`` where metrics are ``missing``."""

    score: float | None
    missing: list[str]


class ScoresFile(TypedDict):
    """Contents of ``scores.json``, as this module describes them."""

    checkpoint: str
    step: int | None
    model: object
    parameters: object
    settings: dict[str, Any]
    versions: dict[str, str]
    tasks: dict[str, Entry]
    left_out: dict[str, str]
    averages: dict[str, SuiteAverage]


class TaskResult(NamedTuple):
    """Results of one task.

    Attributes:
      entry: The task's entry in ``scores.json``.
      rows: The rows of ``predictions.jsonl``, in order.
    """

    entry: Entry
    rows: list[Row]

    @property
    def scores(self) -> dict[str, float]:
        """Score by metric; NaN where a score is not a number."""
        return {
            name: float("nan") if value is None else value for name, value in self.entry["scores"].items()
        }

    @property
    def baseline(self) -> dict[str, float | None]:
        """Score of always predicting the most frequent training answer."""
        return self.entry["baseline"]


def build_scores(
    entries: Mapping[str, Entry],
    *,
    checkpoint: str,
    step: int | None,
    model: Mapping[str, object],
    settings: Mapping[str, object] | None = None,
    left_out: Mapping[str, str] | None = None,
) -> ScoresFile:
    """Return the contents of ``scores.json``.

    Args:
      entries: Entries by task.
      checkpoint: Name of the weights.
      step: Training step of the weights, if any.
      model: Fields ``model`` and ``parameters``.
      settings: Settings that predictions depend on.
      left_out: Reasons by task that was not evaluated.
    """
    return {
        "checkpoint": checkpoint,
        "step": step,
        "model": model["model"],
        "parameters": model["parameters"],
        "settings": dict(settings or {}),
        "versions": {"t5x_like": __version__, "jax": version("jax"), "numpy": version("numpy")},
        "tasks": dict(entries),
        "left_out": dict(left_out or {}),
        "averages": averages_of(entries),
    }


def write_scores(directory: PathLike, scores: Mapping[str, object]) -> None:
    """Write the result of ``build_scores`` to ``scores.json``.

    Args:
      directory: Folder of the evaluation.
      scores: Scores to write.
    """
    write_json(as_path(directory) / SCORES, scores)


def read_scores(directory: PathLike) -> ScoresFile:
    """Read ``scores.json``.

    Raises:
      ValueError: It has another format.
    """
    scores = read_json(as_path(directory) / SCORES, dict)
    if not {"tasks", "settings", "averages"} <= scores.keys():
        raise ValueError(
            f"{directory}/{SCORES} is not of this version's form (tasks, settings, averages); evaluate again"
        )
    return scores


def flat_scores(scores: ScoresFile, *, with_averages: bool = False) -> dict[str, float | None]:
    """Return scores of a ``scores.json`` by "task/metric", and optionally averages by "average/suite".

    Args:
      scores: Contents of a ``scores.json``.
      with_averages: Add the averages of suites.
    """
    flat = {
        f"{task}/{name}": value
        for task, entry in scores["tasks"].items()
        for name, value in entry["scores"].items()
    }
    averages = scores["averages"].items() if with_averages else ()
    return flat | {f"average/{name}": each["score"] for name, each in averages}


def averages_of(entries: Mapping[str, Entry]) -> dict[str, SuiteAverage]:
    """Return the averages of all suites with at least one score.

    The average of an incomplete suite is ``None``, and its ``missing`` metrics are listed.
    """
    scores = _by_metric(entries)
    return {
        name: {"score": suite.average_of(scores), "missing": suite.missing(scores)}
        for name, suite in SUITES.items()
        if suite.has_any_score(scores)
    }


def _by_metric(tasks: Mapping[str, Entry]) -> dict[str, float | None]:
    return {
        f"{task}/{name}": value for task, entry in tasks.items() for name, value in entry["scores"].items()
    }


def read_predictions(directory: PathLike, task: str) -> list[Row]:
    """Read the rows of a task's ``predictions.jsonl``.

    Args:
      directory: Folder of the evaluation.
      task: Name of the task.
    """
    return list(read_jsonl(as_path(directory) / task / PREDICTIONS))


def is_right(row: Row) -> bool:
    """Return whether the text of a row's prediction is that of its target; words without a label don't count."""
    target, prediction = row["target"], row["prediction"]
    if fits([target, prediction], list[list]) and len(target) == len(prediction):
        return all(true in (None, guess) for true, guess in zip(target, prediction, strict=True))
    return str(prediction).strip() == str(target).strip()
