"""Rows of a task as inputs with their targets, if known. Our own tasks need no TensorFlow."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from t5x_like.audio.recording import Recording
from t5x_like.evaluation.evaluated_tasks import training_task_of
from t5x_like.inference.prompt_encoder import TextCodec
from t5x_like.text.metrics.baselines import majority
from t5x_like.text.metrics.by_name import MetricFunction
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.tasks.pairs import PairsTask, TextPair
from t5x_like.text.tasks.rows import RowPolicy

# The target of unlabeled rows in T5's templates.
_UNKNOWN = "<unk>"
_TRAINING_ROWS = 100_000  # read for the baseline, at most


class Question(NamedTuple):
    """One row of a split.

    Attributes:
      number: Position in the split.
      inputs: Input text.
      targets: Target text.
      example: Fields that the task's postprocessing needs.
      input_ids: Token ids, if a seqio pipeline gives them.
      target_ids: Token ids of the targets, if a seqio pipeline gives them.
      recording: Recording that the model reads in place of the text, which is its path.
    """

    number: int
    inputs: str
    targets: str
    example: Mapping[str, Any]
    input_ids: np.ndarray | None = None
    target_ids: np.ndarray | None = None
    recording: Recording | None = None


@dataclass(frozen=True, kw_only=True)
class Questions:
    """Rows of one task's split, in the order of its files.

    Attributes:
      task: Name of the task.
      split: Name of the split.
      rows: The rows.
      labels: Every possible answer, in the order of class ids; empty for open answers.
      is_number: True if answers are numbers.
      metrics: Metric functions over postprocessed answers.
      likelihood_metrics: Metric functions over the log-likelihoods of the targets.
      postprocess: T5's function from an output text to the value that metrics compare; ``None`` keeps the text.
      training_targets: Reads the targets of the training split; raises ValueError if its files are missing.
      max_samples: Samples of the longest recording; None for texts.
    """

    task: str
    split: str
    rows: tuple[Question, ...]
    labels: tuple[str, ...] = ()
    is_number: bool = False
    metrics: Sequence[MetricFunction] = ()
    likelihood_metrics: Sequence[MetricFunction] = ()
    postprocess: Callable[..., Any] | None = None
    training_targets: Callable[[], Iterable[str]] = tuple
    max_samples: int | None = None

    def is_labeled(self, row: Question) -> bool:
        """Return True if a row's target is known."""
        if row.input_ids is not None:  # seqio tasks, which have no target for a missing label
            return True
        if row.targets == _UNKNOWN or row.example.get("label") == -1:
            return False
        if self.is_number:
            return row.targets != "-1.0"
        return not self.labels or row.targets in self.labels

    def is_valid(self, text: str) -> bool:
        """Return True if an output text is one of the task's possible answers."""
        if self.is_number:
            try:
                return float(text) == float(text)
            except ValueError:
                return False
        return text in self.labels if self.labels else bool(text.strip())

    def postprocess_answer(self, row: Question, text: str, *, is_target: bool = False) -> object:
        """Convert an answer text to the value that the task's metrics compare.

        Args:
          row: The row that it answers.
          text: Output of the model, or the target.
          is_target: True for the target.
        """
        if self.postprocess is None:
            return list(row.example.get("references", ())) or text if is_target else text
        return self.postprocess(text, example=dict(row.example), is_target=is_target)

    @functools.cached_property
    def labeled(self) -> list[int]:
        """Positions of the rows with a known target."""
        return [index for index, row in enumerate(self.rows) if self.is_labeled(row)]

    @functools.cached_property
    def targets(self) -> list[object]:
        """Postprocessed targets of the labeled rows."""
        rows = (self.rows[index] for index in self.labeled)
        return [self.postprocess_answer(row, row.targets, is_target=True) for row in rows]

    @functools.cached_property
    def baseline(self) -> dict[str, float]:
        """Score of always predicting the most frequent training answer; empty if no training split can be read."""
        try:
            answers = list(islice(self.training_targets(), _TRAINING_ROWS)) if self.metrics else []
        except ValueError:  # evaluation does not need the training files
            answers = []

        def score_texts(targets: Sequence[object], texts: Sequence[str]) -> dict[str, float]:
            rows = (self.rows[index] for index in self.labeled)
            predictions = [self.postprocess_answer(row, text) for row, text in zip(rows, texts, strict=True)]
            scores_of_metrics = (metric(targets, predictions) for metric in self.metrics)
            return {name: value for scores in scores_of_metrics for name, value in scores.items()}

        return majority(answers, self.targets, [score_texts]).scores if answers else {}


def load_questions(
    definition: PairsTask, split: str, *, limit: int | None = None, policy: RowPolicy | None = None
) -> Questions:
    """Read the rows of a split.

    Args:
      definition: The task.
      split: Name of the split.
      limit: Most rows, the same sample of the split each time; all by default. See ``PairsTask.sample``.
      policy: Counts bad rows that are skipped.

    Raises:
      ValueError: No such split, missing files, or bad rows.
    """
    if split not in definition.splits:
        raise ValueError(
            f"task {definition.name!r} has no split {split!r}; there are {', '.join(definition.splits)}"
        )
    read = definition.sample(definition.read(split, policy), limit, values_of=lambda pair: pair.row)
    questions = tuple(_question(number, row, definition) for number, row in read)
    if not questions:
        raise ValueError(f"task {definition.name!r}, split {split!r}: no examples")
    return Questions(
        task=definition.name,
        split=split,
        rows=questions,
        labels=definition.answers,
        is_number=definition.predicts_number,
        metrics=definition.metric_functions,
        postprocess=definition.postprocessor,
        training_targets=lambda: (row.targets for row in training_rows(definition)),
        max_samples=definition.max_samples,
    )


def load_seqio_questions(
    task: str, split: str, *, limit: int | None, inputs_length: int, targets_length: int
) -> tuple[Questions, TextCodec]:
    """Read the rows of a task that is registered with seqio only.

    Args:
      task: Name of the seqio task.
      split: Name of the split.
      limit: Number of rows to read, from the first; all if ``None``.
      inputs_length: Tokens of an input.
      targets_length: Tokens of a target.

    Returns:
      The questions and the task's ``SeqioCodec``.

    Raises:
      ValueError: No such task or split, bad rows, or no rows.
    """
    rows = _of_seqio().load_seqio_rows(
        task, split, limit=limit, inputs_length=inputs_length, targets_length=targets_length
    )
    columns = (rows.inputs, rows.targets, rows.examples, rows.input_ids, rows.target_ids)
    questions = Questions(
        task=task,
        split=split,
        rows=tuple(Question(index, *row) for index, row in enumerate(zip(*columns, strict=True))),
        metrics=rows.metrics,
        likelihood_metrics=rows.likelihood_metrics,
        postprocess=rows.postprocess,
        training_targets=rows.training_targets,
    )
    return questions, rows.codec


def seqio_codec(task: str) -> TextCodec:
    """Return the ``SeqioCodec`` of a task that is registered with seqio only.

    Raises:
      ValueError: No such task, or it is a mixture.
    """
    registration.get_task(task)
    return _of_seqio().seqio_codec(task)


def _of_seqio() -> ModuleType:
    # seqio and TensorFlow are imported for tasks that need them only.
    from t5x_like.text.seqio_bridge import evaluation_rows

    return evaluation_rows


def training_rows(definition: PairsTask, *, limit: int | None = None) -> Iterable[TextPair]:
    """Yield labeled rows of the training split, for few-shot examples and the most frequent answer.

    Args:
      definition: Task that is evaluated.
      limit: Number of rows to read; None for all.

    Raises:
      ValueError: Bad rows.
    """
    source = training_task_of(definition)
    if "train" in source.splits:
        yield from (row for row in islice(source.read("train"), limit) if row.targets != _UNKNOWN)


def _question(number: int, row: TextPair, definition: PairsTask) -> Question:
    texts = {"inputs_pretokenized": row.inputs, "targets_pretokenized": row.targets}
    recording = definition.recording(row.inputs)
    return Question(number, row.inputs, row.targets, {**row.extras, **texts}, recording=recording)
