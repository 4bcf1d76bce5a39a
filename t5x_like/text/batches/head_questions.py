"""Rows of a task for a head to answer, and the scores of its answers, as if it had written them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from t5x_like.batch import Batch
from t5x_like.text import registry
from t5x_like.text.batches.buckets import cut_to_bucket
from t5x_like.text.batches.head_examples import HeadExamples, make_examples
from t5x_like.text.batches.head_source import head_format_of
from t5x_like.text.batches.row_maker import RowMaker
from t5x_like.text.benchmarks.benchmark import Benchmark
from t5x_like.text.heads.head_format import Answer, Head, HeadFormat
from t5x_like.text.metrics.by_name import MetricFunction
from t5x_like.text.objectives.objective import Lengths
from t5x_like.text.tasks.pairs import LabelledRow, PairsTask
from t5x_like.text.tasks.rows import RowPolicy
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.vocabulary_ids import ids_of


@dataclass(frozen=True, kw_only=True)
class HeadAnswers:
    """Writes and compares a head's answers as the task's metrics want them.

    Attributes:
      head_format: How the head reads rows.
      benchmark: The benchmark; a task from files has none.
      num_choices: Number of choices in each row; 0 where there are none.
    """

    head_format: HeadFormat
    benchmark: Benchmark | None
    num_choices: int

    @property
    def metrics(self) -> Sequence[MetricFunction]:
        """The metrics of answers."""
        return self.head_format.metrics(self.benchmark.metrics if self.benchmark else ())

    @property
    def labels(self) -> tuple[str, ...]:
        """The answers of the text-to-text form, where classes or choices are its answers."""
        labels = self.benchmark.labels if self.benchmark else ()
        return labels if len(labels) == self.head_format.num_answers(self.num_choices) else ()

    def compared(self, read: LabelledRow, answer: Answer) -> Any:
        """Returns an answer as metrics compare it."""
        if isinstance(answer, list):
            return self.written(answer)
        return self._postprocessed(read, self.written(answer), answer)

    def target(self, read: LabelledRow) -> Any:
        """Returns the true answer as metrics compare it."""
        return self._postprocessed(read, None, self.head_format.target(read.row))

    def target_text(self, read: LabelledRow) -> Any:
        """Returns the true answer in the words of the task."""
        return self.head_format.written_target(read.row, self.labels)

    def written(self, answer: Answer) -> Any:
        """Returns an answer in the words of the task."""
        return self.head_format.written(answer, self.labels)

    def _postprocessed(self, read: LabelledRow, text: str | None, otherwise: Any) -> Any:
        """Postprocesses ``text``, or the target where not given, if the answer is that of a text-to-text example."""
        if self.benchmark is None or self.benchmark.postprocess is None:
            return otherwise
        benchmark: Any = self.benchmark
        worded: Mapping[str, Any] | None = self.head_format.written_example(
            lambda: benchmark.word(read.raw.values), has_labels=bool(self.labels)
        )
        if worded is None:
            return otherwise
        is_target = text is None
        return benchmark.postprocess(
            worded["targets"] if is_target else text, example=worded, is_target=is_target
        )


@dataclass(frozen=True, kw_only=True)
class HeadQuestions:
    """The rows of one split, with or without labels, in the order of the files."""

    task: str
    read: list[LabelledRow]
    examples: HeadExamples
    lengths: Lengths
    zero_is_padding: bool
    answers: HeadAnswers
    vocab_size: int

    def __len__(self) -> int:
        return len(self.read)

    @property
    def head_format(self) -> HeadFormat:
        """How the head reads rows."""
        return self.answers.head_format

    @property
    def head(self) -> Head:
        """The head that answers."""
        return self.head_format.head

    def part(self, rows: Sequence[int]) -> "HeadQuestions":
        """Some of the rows, by their numbers, in the order given."""
        return replace(self, read=[self.read[row] for row in rows], examples=self.examples.part(rows))

    def batch(self, numbers: Sequence[int], batch_size: int) -> Batch:
        """Returns the examples of these numbers as one batch of ``batch_size`` rows, of which the rest are empty."""
        spec = self.head_format.spec(self.examples.num_choices)
        maker = RowMaker((), self.lengths, spec, False, self.zero_is_padding)
        rows = [[self.examples.example(number)] for number in numbers]
        return cut_to_bucket(maker.lay_out([*rows, *[[]] * (batch_size - len(rows))]))

    @property
    def num_labelled(self) -> int:
        """Rows that can be scored."""
        return len(self._labelled)

    def score(self, answers: Sequence[Answer]) -> dict[str, float]:
        """The task's metrics over the rows that have labels; nothing where none has."""
        rows = self._labelled
        if not rows:
            return {}
        targets = self.targets
        given = [self.answers.compared(self.read[row], answers[row]) for row in rows]
        found: dict[str, float] = {}
        for metric in self.answers.metrics:
            found |= {name: float(score) for name, score in metric(targets, given).items()}
        return found

    def rows(self, answers: Sequence[Answer]) -> list[dict[str, Any]]:
        """Lines for ``predictions.jsonl``: ``target`` is None where unlabelled, ``answer`` is what metrics compare.

        With the numbers that rows have in their files, as official scorers ask for them: ``idx``, SQuAD's ``id``.
        """
        return [
            {
                "task": self.task,
                "input": read.row.input_text,
                "target": self.answers.target_text(read) if self.head_format.is_labelled(read.row) else None,
                "prediction": self.answers.written(answer),
                "answer": self.answers.compared(read, answer),
                **{
                    name: value
                    for name, value in read.raw.values.items()
                    if name == "id" or name.startswith("idx")
                },
            }
            for read, answer in zip(self.read, answers, strict=True)
        ]

    def most_frequent(self, training_rows: Iterator[LabelledRow]) -> list[Answer] | None:
        """Returns the most frequent answer in training for every row; ``None`` of heads that have no such baseline."""
        rows = [each.row for each in training_rows if self.head_format.is_labelled(each.row)]
        answer = self.head_format.most_frequent(rows) if rows else None
        return None if answer is None else [answer for _ in self.read]

    @property
    def _labelled(self) -> list[int]:
        return [number for number, each in enumerate(self.read) if self.head_format.is_labelled(each.row)]

    @property
    def targets(self) -> list[Any]:
        """True answers of the rows that have labels, as metrics want them."""
        return [self.answers.target(self.read[row]) for row in self._labelled]


def load_questions(task: str, split: str, *, inputs_length: int, limit: int | None = None) -> HeadQuestions:
    """Loads the first ``limit`` rows of a registered task's split, or all.

    Raises:
      ValueError: unknown task or split, no head reads the task, bad rows, or none.
    """
    head_format_of(task)
    definition: Any = registry.task(task)
    return questions_of(
        definition, read_questions(definition, split, limit=limit), inputs_length=inputs_length
    )


def read_questions(
    definition: PairsTask, split: str, *, limit: int | None = None, policy: RowPolicy | None = None
) -> list[LabelledRow]:
    """Reads the first ``limit`` rows of a split, or all; ``policy`` counts those that are skipped.

    Raises:
      ValueError: unknown split, no head reads the task, bad rows, or none.
    """
    if split not in definition.splits:
        raise ValueError(
            f"task {definition.name!r} has no split {split!r}; there are {', '.join(definition.splits)}"
        )
    read = list(islice(definition.head_rows(split, policy), limit))
    if not read:
        raise definition.none_usable(split, policy)
    return read


def questions_of(definition: PairsTask, read: list[LabelledRow], *, inputs_length: int) -> HeadQuestions:
    """Tokenizes rows.

    Raises:
      ValueError: no head reads the task, or choices of different numbers.
    """
    head_format = definition.head_format()
    tokenizer = open_tokenizer(definition.vocabulary, definition.num_sentinels)
    examples = make_examples(head_format, (each.row for each in read), tokenizer, length=inputs_length)
    return HeadQuestions(
        task=definition.name,
        read=read,
        examples=examples,
        lengths=Lengths(inputs_length, 2),
        zero_is_padding=ids_of(tokenizer).pad == 0,
        answers=HeadAnswers(
            head_format=head_format,
            benchmark=getattr(definition, "benchmark", None),
            num_choices=examples.num_choices,
        ),
        vocab_size=tokenizer.vocab_size,
    )


def training_rows(definition: PairsTask) -> Iterator[LabelledRow]:
    """Yields the rows that the most frequent answer is taken from; nothing where there is nothing to train on."""
    if "train" not in definition.splits:
        return
    try:
        rows = list(definition.head_rows("train"))
    except ValueError:  # its files need not be here to evaluate on others
        return
    yield from rows
