"""Evaluation of tasks one by one: their rows are answered by any weights, scored and written."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import jax

from t5x_like.evaluation.prediction_log import PredictionLog, replace_rows
from t5x_like.evaluation.scores_file import Entry, Row, TaskResult, build_scores, write_scores
from t5x_like.io.progress import Progress
from t5x_like.model import parameters
from t5x_like.model.parameters import Parameters
from t5x_like.text.tasks.rows import RowPolicy
from t5x_like.text.tasks.task_set import Task
from t5x_like.text.templates import RowValues

Method = Literal["generate", "rank", "head", "measure", "compare"]


@dataclass(frozen=True, kw_only=True)
class TaskEvaluator(ABC):
    """Rows of one task, and the method that predicts and scores them.

    Attributes:
      facts: Further fields of the task's entry in ``scores.json``.
    """

    facts: Entry = field(default_factory=dict)

    @property
    @abstractmethod
    def inputs(self) -> Mapping[int, str]:
        """Input texts by row number."""

    @property
    @abstractmethod
    def source_rows(self) -> list[RowValues]:
        """Fields of the rows as their files have them, including the test set's index ("idx")."""

    @abstractmethod
    def answer(self, params: Parameters, answered: Collection[int] = ()) -> Iterator[list[Row]]:
        """Yield rows of ``predictions.jsonl``, one list for each batch.

        Args:
          params: Weights to evaluate.
          answered: Numbers of rows with a known prediction; batches of only such rows are skipped.
        """

    @abstractmethod
    def score(self, rows: Sequence[Row], *, resamples: int = 0) -> Entry:
        """Return the task's entry in ``scores.json``, without ``facts``.

        Args:
          rows: All rows of ``predictions.jsonl``, in order.
          resamples: Bootstrap resamples of confidence intervals; 0 computes none.
        """


class RowSelection(NamedTuple):
    """Rows of a task to evaluate.

    Attributes:
      split: Name of the split.
      limit: Most rows, the same sample of the split each time; None for all.
      policy: Counter of bad rows that are skipped.
    """

    split: str
    limit: int | None
    policy: RowPolicy


def build_evaluator(
    task: Task,
    method: Method,
    read: Callable[[Task, RowSelection], TaskEvaluator],
    *,
    split: str,
    limit: int | None,
) -> TaskEvaluator:
    """Read the rows of a task; return their evaluator, whose facts name rows and method.

    Args:
      task: The task.
      method: Method of the answers.
      read: Function that reads rows in the form of the method.
      split: Name of the split.
      limit: Most rows, the same sample of the split each time; None for all.

    Raises:
      ValueError: The task lacks the split or answers, or rows are bad or missing.
    """
    rows = RowSelection(split, limit, task.row_policy())
    published = None if limit is not None else task.published_rows(split)
    evaluator = read(task, rows)
    facts = {"split": split, "limit": limit, "method": method, **evaluator.facts}
    if published not in (None, len(evaluator.inputs) + rows.policy.num_skipped):
        facts["published"] = published
    return replace(evaluator, facts=facts | rows.policy.described())


class Evaluator:
    """Evaluation of several tasks, compiled once and run on any weights.

    Args:
      evaluators: Evaluator of each task by name.
    """

    def __init__(self, evaluators: Mapping[str, TaskEvaluator]):
        self._evaluators = evaluators

    def run(
        self, params: Parameters, after_batch: Callable[[], None] = lambda: None
    ) -> dict[str, TaskResult]:
        """Evaluate every task with these weights, showing progress from the first process.

        Args:
          params: Weights to evaluate.
          after_batch: Called after each batch; its errors end the evaluation.

        Raises:
          ValueError: The model lacks the head that a task needs.
        """
        shown = jax.process_index() == 0
        return {
            task: evaluate_task(each, params, f"evaluating {task}", shown=shown, after_batch=after_batch)
            for task, each in self._evaluators.items()
        }


def evaluate_task(
    evaluator: TaskEvaluator,
    params: Parameters,
    label: str,
    *,
    shown: bool,
    log: PredictionLog | None = None,
    resamples: int = 0,
    after_batch: Callable[[], None] = lambda: None,
) -> TaskResult:
    """Answer and score the rows of a task.

    Args:
      evaluator: The rows.
      params: Weights to evaluate.
      label: Label of the progress.
      shown: Show progress.
      log: Predictions on disk, which are continued; by default predictions are kept in memory only.
      resamples: Bootstrap resamples of confidence intervals; 0 computes none.
      after_batch: Called after each batch; its errors end the evaluation.
    """
    known: Mapping[int, Row] = {} if log is None else log.rows
    rows: list[Row] = []
    with Progress(label, len(evaluator.inputs), "questions", shown=shown) as progress:
        progress.skip(len(known))
        for batch in evaluator.answer(params, known):
            rows += batch
            progress.add(len(batch) if log is None else log.add(batch))
            after_batch()
        rows = sorted(rows, key=lambda row: row["number"]) if log is None else log.finish()
        return TaskResult(evaluator.score(rows, resamples=resamples) | evaluator.facts, rows)


def write_results(
    results: Mapping[str, TaskResult],
    directory: str,
    *,
    checkpoint: str,
    step: int | None,
    config: object,
    params: Parameters,
) -> None:
    """Write ``scores.json`` and each task's ``predictions.jsonl``, from the first process.

    Args:
      results: Results by task.
      directory: Output directory.
      checkpoint: Name of the weights, for ``scores.json``.
      step: Training step of the weights, for ``scores.json``.
      config: Model configuration.
      params: The weights.
    """
    if jax.process_index() != 0:
        return
    for task, result in results.items():
        replace_rows(directory, task, result.rows)
    entries = {task: result.entry for task, result in results.items()}
    facts = {"checkpoint": checkpoint, "step": step, "model": describe_model(config, params)}
    write_scores(directory, build_scores(entries, **facts))


def describe_model(config: object, params: Parameters) -> dict[str, object]:
    """Return the architecture's name and the number of parameters, as ``scores.json`` has them.

    Args:
      config: Configuration of the model.
      params: Its weights.
    """
    name = type(config).__name__.removesuffix("Config")
    return {"model": name, "parameters": parameters.count(params)}
