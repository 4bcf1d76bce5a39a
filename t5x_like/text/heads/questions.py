"""A task's rows to be told by a head, and the scores of what it tells: as if it had written the answers."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from t5x_like.batch import Batch
from t5x_like.text.batches.buckets import cut_to_bucket
from t5x_like.text.batches.row_maker import RowMaker
from t5x_like.text.benchmarks.task import BenchmarkTask
from t5x_like.text.heads.answers import Answer, HeadAnswers
from t5x_like.text.heads.examples import HeadExamples, make_examples
from t5x_like.text.heads.formats import (
    CandidateRanking,
    HeadFormat,
    QuestionAnswering,
    Regression,
    TokenClassification,
)
from t5x_like.text.heads.rows import head_of
from t5x_like.text.heads.sources import traits_of
from t5x_like.text.heads.tasks import HeadTask, Read, form_of, read_head_rows
from t5x_like.text.objectives.objective import Lengths
from t5x_like.text.tasks import registry
from t5x_like.text.tasks.rows import RowPolicy
from t5x_like.text.vocabularies.ids import ids_of
from t5x_like.text.vocabularies.opening import open_tokenizer


@dataclass(frozen=True, kw_only=True)
class HeadQuestions:
    """The rows of one split, with or without labels, in the order of the files."""

    task: str
    read: list[Read]
    examples: HeadExamples
    lengths: Lengths
    zero_is_padding: bool
    answers: HeadAnswers
    vocab_size: int

    def __len__(self) -> int:
        return len(self.read)

    @property
    def form(self) -> HeadFormat:
        """What a head reads of a row."""
        return self.answers.form

    @property
    def head(self) -> tuple[str, int]:
        """The kind of head that answers, and its number of scores."""
        return head_of(self.form)

    def part(self, rows: Sequence[int]) -> "HeadQuestions":
        """Some of the rows, by their numbers, in the order given."""
        return replace(self, read=[self.read[row] for row in rows], examples=self.examples.part(rows))

    def batch(self, numbers: Sequence[int], batch_size: int) -> Batch:
        """The examples of these numbers as one batch of ``batch_size`` rows, of which the rest are empty."""
        maker = RowMaker(
            (), self.lengths, traits_of(self.form, self.examples.num_choices), False, self.zero_is_padding
        )
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
                "input": self.input_of(read),
                "target": self.answers.target_text(read) if read.row.is_labelled(self.form) else None,
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

    def commonest(self, training_rows: Iterator[Read]) -> list[Answer] | None:
        """The commonest class or choice in training, or the mean number, for every row; ``None`` of other forms."""
        if isinstance(self.form, CandidateRanking | QuestionAnswering | TokenClassification):
            return None
        rows = [each.row for each in training_rows if each.row.is_labelled(self.form)]
        if not rows:
            return None
        answer: Answer = float(np.mean([row.value for row in rows]))
        if not isinstance(self.form, Regression):
            answer = Counter(row.label for row in rows).most_common(1)[0][0]
        return [answer for _ in self.read]

    @property
    def _labelled(self) -> list[int]:
        return [number for number, each in enumerate(self.read) if each.row.is_labelled(self.form)]

    @property
    def targets(self) -> list[Any]:
        """True answers of the rows that have labels, as metrics want them."""
        return [self.answers.target(self.read[row]) for row in self._labelled]

    def input_of(self, read: Read) -> str:
        """A row's texts, for people."""
        if read.row.words:
            return " ".join(read.row.words)
        if read.row.question:
            return f"{read.row.question}\n{read.row.texts[0][0]}"
        return "\n".join(dict.fromkeys(text for texts in read.row.texts for text in texts))


def load_questions(task: str, split: str, *, inputs_length: int, limit: int | None = None) -> HeadQuestions:
    """The first ``limit`` rows of a registered task's split, or all.

    Raises:
      ValueError: unknown task or split, no form for a head, bad rows, or none.
    """
    definition: Any = registry.definition(task)
    form_of(definition, task)
    return questions_of(
        definition, read_questions(definition, split, limit=limit), inputs_length=inputs_length
    )


def read_questions(
    definition: HeadTask, split: str, *, limit: int | None = None, policy: RowPolicy | None = None
) -> list[Read]:
    """The first ``limit`` rows of a split, or all; ``policy`` counts those that are skipped.

    Raises:
      ValueError: unknown split, no form for a head, bad rows, or none.
    """
    if split not in definition.splits:
        raise ValueError(
            f"task {definition.name!r} has no split {split!r}; there are {', '.join(definition.splits)}"
        )
    read = list(islice(read_head_rows(definition, split, policy), limit))
    if not read:
        raise definition.none_usable(split, policy)
    return read


def questions_of(definition: HeadTask, read: list[Read], *, inputs_length: int) -> HeadQuestions:
    """Rows that were read, tokenised.

    Raises:
      ValueError: no form for a head, or choices of different numbers.
    """
    form = form_of(definition, definition.name)
    tokenizer = open_tokenizer(definition.vocabulary, definition.num_sentinels)
    examples = make_examples(form, (each.row for each in read), tokenizer, length=inputs_length)
    return HeadQuestions(
        task=definition.name,
        read=read,
        examples=examples,
        lengths=Lengths(inputs_length, 2),
        zero_is_padding=ids_of(tokenizer).pad == 0,
        answers=HeadAnswers(
            form=form,
            benchmark=definition.benchmark if isinstance(definition, BenchmarkTask) else None,
            num_choices=examples.num_choices,
        ),
        vocab_size=tokenizer.vocab_size,
    )


def training_rows(definition: HeadTask) -> Iterator[Read]:
    """What the commonest answer is taken from; nothing where there is nothing to train on."""
    if "train" not in definition.splits:
        return
    try:
        rows = list(read_head_rows(definition, "train"))
    except ValueError:  # its files need not be here to evaluate on others
        return
    yield from rows
