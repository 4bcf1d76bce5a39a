"""Rows of a task for a head to predict, and the scores of its predictions in the task's metrics."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from t5x_like.batch import Batch
from t5x_like.text.batches.labeled_examples import LabeledExamples, make_examples
from t5x_like.text.batches.row_maker import RowMaker, cut_to_bucket
from t5x_like.text.benchmarks.benchmark import Benchmark
from t5x_like.text.heads.head_answers import Answer, Head
from t5x_like.text.heads.head_format import HeadFormat
from t5x_like.text.heads.labeled_rows import LabeledRow
from t5x_like.text.metrics.by_name import MetricFunction
from t5x_like.text.objectives.objective import Lengths
from t5x_like.text.tasks.pairs import PairsTask
from t5x_like.text.tasks.rows import RowPolicy
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.tokenizer import Tokenizer
from t5x_like.text.vocabularies.vocabulary_ids import ids_of


@dataclass(frozen=True, kw_only=True)
class HeadQuestions:
    """Rows of one split in file order, with or without labels.

    Attributes:
      task: Name of the task.
      read: Rows.
      examples: Tokenized rows.
      lengths: Maximum lengths of both streams.
      zero_is_padding: Whether id 0 is padding.
      metrics: Metrics of the task.
      benchmark: Benchmark of the task; None for a task from files.
    """

    task: str
    read: list[LabeledRow]
    examples: LabeledExamples
    lengths: Lengths
    zero_is_padding: bool
    metrics: Sequence[MetricFunction]
    benchmark: Benchmark | None = None

    def __len__(self) -> int:
        return len(self.read)

    @property
    def head_format(self) -> HeadFormat:
        """Format of the rows that the head reads."""
        return self.examples.head_format

    @property
    def head(self) -> Head:
        """Head that predicts the rows."""
        return self.head_format.head

    def part(self, rows: Sequence[int]) -> "HeadQuestions":
        """Return the rows with these indices, in the given order."""
        return replace(self, read=[self.read[row] for row in rows], examples=self.examples.part(rows))

    def batch(self, numbers: Sequence[int], batch_size: int) -> Batch:
        """Return examples as one batch.

        Args:
          numbers: Indices of the examples.
          batch_size: Rows of the batch; those without an example are empty.
        """
        spec = self.head_format.spec(self.examples.num_choices)
        maker = RowMaker((), self.lengths, spec, False, self.zero_is_padding)
        rows = [[self.examples.example(row_index)] for row_index in numbers]
        return cut_to_bucket(maker.lay_out([*rows, *[[]] * (batch_size - len(rows))]))

    @property
    def num_labeled(self) -> int:
        """Number of rows that can be scored."""
        return len(self._labeled)

    def score(self, answers: Sequence[Answer]) -> dict[str, float]:
        """Return the task's metrics over the labeled rows; empty if there are none."""
        rows = self._labeled
        if not rows:
            return {}
        targets = self.targets
        predictions = [self._compared(self.read[row], answers[row]) for row in rows]
        scores: dict[str, float] = {}
        for metric in self.metrics:
            scores |= {name: float(score) for name, score in metric(targets, predictions).items()}
        return scores

    def rows(
        self, answers: Sequence[Answer], details: Sequence[Mapping[str, object]] = ()
    ) -> list[dict[str, object]]:
        """Return lines of ``predictions.jsonl``.

        ``target`` is None for unlabeled rows, ``answer`` is the value that metrics compare. Numbers of rows that
        official scorers need are included: ``idx``, SQuAD's ``id``.

        Args:
          answers: Prediction for each row.
          details: Further fields of each line.
        """
        head_format = self.head_format
        return [
            {
                "task": self.task,
                "input": row.input_text,
                "target": head_format.written_target(row, self.labels)
                if head_format.is_labeled(row)
                else None,
                "prediction": self.written(answer),
                "answer": self._compared(row, answer),
                **{
                    name: value
                    for name, value in row.values.items()
                    if name == "id" or name.startswith("idx")
                },
                **further,
            }
            for row, answer, further in zip(self.read, answers, details or [{} for _ in answers], strict=True)
        ]

    @property
    def _labeled(self) -> list[int]:
        return [index for index, row in enumerate(self.read) if self.head_format.is_labeled(row)]

    @property
    def targets(self) -> list[object]:
        """True labels of the labeled rows, as metrics compare them."""
        return [
            self._postprocessed(row, None, self.head_format.target(row))
            for row in self.read
            if self.head_format.is_labeled(row)
        ]

    @property
    def labels(self) -> tuple[str, ...]:
        """Class names of the text-to-text format, if the head predicts the same classes."""
        labels = self.benchmark.labels if self.benchmark else ()
        return labels if len(labels) == self.head_format.num_answers(self.examples.num_choices) else ()

    def written(self, answer: Answer) -> Any:
        """Return a prediction as text."""
        return self.head_format.written(answer, self.labels)

    def _compared(self, row: LabeledRow, answer: Answer) -> object:
        """Return a prediction as metrics compare it."""
        if isinstance(answer, list):
            return self.written(answer)
        return self._postprocessed(row, self.written(answer), answer)

    def _postprocessed(self, row: LabeledRow, text: str | None, otherwise: object) -> object:
        """Postprocess ``text`` (None: the target) of tasks with a text-to-text example; else return ``otherwise``."""
        benchmark = self.benchmark
        if benchmark is None or (postprocess := benchmark.postprocess) is None:
            return otherwise
        example: Mapping[str, Any] | None = self.head_format.written_example(
            lambda: benchmark.word(row.values), has_labels=bool(self.labels)
        )
        if example is None:
            return otherwise
        is_target = text is None
        return postprocess(example["targets"] if is_target else text, example=example, is_target=is_target)


def read_questions(
    definition: PairsTask, split: str, *, limit: int | None = None, policy: RowPolicy | None = None
) -> list[LabeledRow]:
    """Read rows of a split.

    Args:
      definition: Task.
      split: Split to read.
      limit: Most rows, the same sample of the split each time; None reads all. See ``PairsTask.sample``.
      policy: Counter of skipped rows.

    Raises:
      ValueError: Unknown split, no head reads the task, bad rows, or none.
    """
    if split not in definition.splits:
        raise ValueError(
            f"task {definition.name!r} has no split {split!r}; there are {', '.join(definition.splits)}"
        )
    rows = definition.head_rows(split, policy)
    sample = definition.sample(rows, limit, values_of=lambda row: row.values)
    read = [row._replace(number=number) for number, row in sample]
    if not read:
        raise definition.none_usable(split, policy)
    return read


def questions_of(
    definition: PairsTask,
    read: list[LabeledRow],
    *,
    inputs_length: int,
    tokenizer: Tokenizer | None = None,
) -> HeadQuestions:
    """Tokenize rows.

    Args:
      definition: Task of the rows.
      read: Rows.
      inputs_length: Maximum row length in tokens.
      tokenizer: Tokenizer; by default the task's.

    Raises:
      ValueError: No head reads the task, a metric doesn't fit it, or rows have different numbers of choices.
    """
    head_format = definition.head_format()
    tokenizer = tokenizer or open_tokenizer(definition.vocabulary, definition.num_sentinels)
    examples = make_examples(head_format, read, tokenizer, length=inputs_length, framing=definition.framing)
    return HeadQuestions(
        task=definition.name,
        read=read,
        examples=examples,
        lengths=Lengths(inputs_length, 2),
        zero_is_padding=ids_of(tokenizer).zero_is_padding,
        metrics=definition.head_metrics(),
        benchmark=getattr(definition, "benchmark", None),
    )


def training_rows(definition: PairsTask) -> Iterator[LabeledRow]:
    """Yield training rows for the most-frequent baseline; nothing if the task has none."""
    if "train" not in definition.splits:
        return
    try:
        rows = list(definition.head_rows("train"))
    except ValueError:  # training files may be missing when other splits are evaluated
        return
    yield from rows
