"""One task's rows answered by a fine-tuned encoder's head: the rows and the entry that answers in words have, too."""

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from t5x_like.evaluation.head_predictor import ClassOrder, HeadPredictor, SpanSearch, answers_of
from t5x_like.evaluation.questions import learned_from
from t5x_like.evaluation.scores import counts, numbers, score
from t5x_like.evaluation.scores_file import Entry, Row
from t5x_like.evaluation.span_answers import best_thresholds
from t5x_like.inference.length_batches import length_batches
from t5x_like.text.batches.head_questions import HeadQuestions, questions_of, training_rows
from t5x_like.text.tasks.pairs import LabeledRow, PairsTask
from t5x_like.text.tasks.rows import RawRow

_BATCHES_AT_ONCE = 8  # whose answers are written together


@dataclass(frozen=True, kw_only=True)
class HeadPlan:
    """Rows of one task, and the head that answers them.

    Attributes:
      read: the rows as the head reads them.
      inputs_length: longer texts are cut, contexts of questions read in windows.
      refuses_nan: whether scores that are not numbers are an error, rather than an answer like others.
    """

    definition: PairsTask
    split: str
    read: list[LabeledRow]
    predictor: HeadPredictor
    inputs_length: int
    order: ClassOrder = field(default_factory=ClassOrder)
    spans: SpanSearch = field(default_factory=SpanSearch)
    refuses_nan: bool = False

    @functools.cached_property
    def questions(self) -> HeadQuestions:
        """The rows, tokenised."""
        return questions_of(self.definition, self.read, inputs_length=self.inputs_length)

    @property
    def inputs(self) -> dict[int, str]:
        """Questions by number, as ``predictions.jsonl`` has them."""
        return {number: read.row.input_text for number, read in enumerate(self.read)}

    @property
    def source_rows(self) -> list[Mapping[str, Any]]:
        """The rows' own fields, with their numbers in the benchmark's test set ("idx")."""
        return [each.raw.values for each in self.read]

    def answer(self, params: Any, answered: Collection[int] = ()) -> Iterator[list[Row]]:
        """Yields the rows of ``predictions.jsonl``, the longest first, but for parts of which all are ``answered``.

        Raises:
          ValueError: the model lacks the head that the task needs, or a score is not a number.
        """
        examples = self.questions.examples
        longest = np.zeros(len(self.questions), np.int64)
        np.maximum.at(longest, examples.origins, examples.sizes)
        for rows in length_batches(longest, self.predictor.batch_size * _BATCHES_AT_ONCE):
            if not all(number in answered for number in rows):
                yield self._answer_part(params, rows)

    def _answer_part(self, params: Any, rows: list[int]) -> list[Row]:
        part = self.questions.part(rows)
        scores = self.predictor.scores(params, part)
        if self.refuses_nan:
            self._require_numbers(part, rows, scores)
        found = answers_of(part, self.order.applied(scores), self.spans).rows(part)
        return [
            {"task": part.task, "number": number, **row, "cut": int(place in part.examples.cut)}
            for place, (number, row) in enumerate(zip(rows, found, strict=True))
        ]

    def score(self, rows: Sequence[Row], *, resamples: int = 0) -> Entry:
        """The task's entry in ``scores.json``, from all rows in order."""
        questions = self.questions
        labelled = [number for number, row in enumerate(rows) if row["target"] is not None]
        given = [rows[number]["answer"] for number in labelled]
        entry = score(questions.answers.metrics, questions.targets, given, resamples=resamples)
        if labelled:
            entry["baseline"] = numbers(self._baseline)
        if thresholds := best_thresholds(rows):
            entry["best_thresholds"] = thresholds
        labels = list(questions.head_format.class_names)
        return entry | counts(self.split, rows, num_labelled=len(labelled)) | {"invalid": 0, "labels": labels}

    @functools.cached_property
    def _baseline(self) -> dict[str, float]:
        """Scores of the most frequent class, or the mean number, of the training split."""
        learned: Any = learned_from(self.definition)
        answers = self.questions.most_frequent(training_rows(learned))
        return {} if answers is None else self.questions.score(answers)

    def _require_numbers(self, part: HeadQuestions, rows: list[int], scores: Sequence[np.ndarray]) -> None:
        for origin, each in zip(part.examples.origins.tolist(), scores, strict=True):
            if np.isnan(each).any():
                raise ValueError(
                    f"task {part.task!r}: what the head says of question {rows[origin]} is not a number (NaN); nothing "
                    "can be told from such weights, evaluate others"
                )


def predict_lines(
    definition: PairsTask, lines: Iterable[str], predictor: HeadPredictor, params: Any, *, inputs_length: int
) -> Iterator[tuple[str, Any]]:
    """Yields each line as it was read, and the head's answer: texts for a task from files, else JSON objects.

    Raises:
      ValueError: a task that no head reads, a head that the model lacks, or a line without the task's columns.
    """
    definition.head_format()  # refuses a task that no head reads
    lines = iter(lines)
    while given := list(islice(lines, predictor.batch_size)):
        read = [_read_line(definition, line) for line in given]
        questions = questions_of(definition, read, inputs_length=inputs_length)
        found = answers_of(questions, predictor.scores(params, questions))
        for each, answer in zip(read, found.answers, strict=True):
            yield each.row.input_text, questions.answers.written(answer)


def _read_line(definition: PairsTask, line: str) -> LabeledRow:
    values = definition.line_columns(line)
    return LabeledRow(definition.head_format().read(values), RawRow(values, "a line"))
