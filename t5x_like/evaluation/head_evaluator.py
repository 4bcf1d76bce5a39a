"""Predictions of one task's rows by a fine-tuned head, with the rows and scores that text outputs have, too."""

import functools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from t5x_like.evaluation.class_scores import class_scores
from t5x_like.evaluation.evaluated_tasks import training_task_of
from t5x_like.evaluation.head_predictor import ClassOrder, HeadPredictor, head_predictions
from t5x_like.evaluation.scores import finite_or_none, row_counts, score
from t5x_like.evaluation.scores_file import Entry, Row
from t5x_like.evaluation.span_answers import SpanSearch, best_thresholds
from t5x_like.evaluation.task_evaluators import TaskEvaluator
from t5x_like.inference.length_batches import length_batches
from t5x_like.model.parameters import Parameters
from t5x_like.text.batches.head_questions import HeadQuestions, questions_of, training_rows
from t5x_like.text.heads.labeled_rows import LabeledRow
from t5x_like.text.tasks.pairs import PairsTask
from t5x_like.text.templates import RowValues

_BATCHES_AT_ONCE = 8  # batches whose predictions are written together


@dataclass(frozen=True, kw_only=True)
class HeadEvaluator(TaskEvaluator):
    """Rows of one task and the head that predicts them.

    Attributes:
      definition: The task.
      split: Name of the split.
      rows: Labeled rows of the split.
      predictor: The model with its head.
      inputs_length: Tokens of an input. Longer texts are cut; contexts of questions are read in windows.
      order: Position of each class among the head's outputs.
      spans: Search for answer spans.
      refuses_nan: Raise an error if a score is not a number.
    """

    definition: PairsTask
    split: str
    rows: list[LabeledRow]
    predictor: HeadPredictor
    inputs_length: int
    order: ClassOrder = field(default_factory=ClassOrder)
    spans: SpanSearch = field(default_factory=SpanSearch)
    refuses_nan: bool = False

    @functools.cached_property
    def questions(self) -> HeadQuestions:
        """Tokenized rows."""
        return questions_of(self.definition, self.rows, inputs_length=self.inputs_length)

    @property
    def inputs(self) -> dict[int, str]:
        """Input texts by row number."""
        return {each.number: each.input_text for each in self.rows}

    @property
    def source_rows(self) -> list[RowValues]:
        """Fields of the rows as their files have them, including the test set's index ("idx")."""
        return [each.values for each in self.rows]

    def answer(self, params: Parameters, answered: Collection[int] = ()) -> Iterator[list[Row]]:
        """Yield rows of ``predictions.jsonl``, the longest first; see ``TaskEvaluator.answer``.

        Raises:
          ValueError: The model lacks the head that the task needs, or a score is not a number.
        """
        examples = self.questions.examples
        longest = np.zeros(len(self.questions), np.int64)
        np.maximum.at(longest, examples.origins, examples.sizes)
        for indices in length_batches(longest, self.predictor.batch_size * _BATCHES_AT_ONCE):
            if not all(self.rows[index].number in answered for index in indices):
                yield self._answer_part(params, indices)

    def _answer_part(self, params: Parameters, indices: list[int]) -> list[Row]:
        part = self.questions.part(indices)
        scores = self.predictor.scores(params, part)
        if self.refuses_nan:
            self._require_numbers(part, scores)
        predicted = part.rows(*head_predictions(part, self.order.applied(scores), self.spans))
        return [
            {"task": part.task, "number": each.number, **row, "cut": int(index in part.examples.cut)}
            for index, (each, row) in enumerate(zip(part.read, predicted, strict=True))
        ]

    def score(self, rows: Sequence[Row], *, resamples: int = 0) -> Entry:
        """Return the task's entry in ``scores.json``; see ``TaskEvaluator.score``."""
        questions = self.questions
        labeled = [row_index for row_index, row in enumerate(rows) if row["target"] is not None]
        predictions = [rows[row_index]["answer"] for row_index in labeled]
        entry = score(questions.metrics, questions.targets, predictions, resamples=resamples)
        if labeled:
            entry["baseline"] = finite_or_none(self._baseline)
            entry["baseline_name"] = questions.head_format.baseline_name
        if thresholds := best_thresholds(rows):
            entry["best_thresholds"] = thresholds
        labels = list(questions.head_format.answer_names)
        return (
            entry
            | row_counts(self.split, rows, num_labeled=len(labeled))
            | {"invalid": 0, "labels": labels}
            | class_scores(questions.labels or labels, rows, are_sets=questions.head_format.has_label_sets)
            | questions.head_format.further_scores(rows)
        )

    @functools.cached_property
    def _baseline(self) -> dict[str, float]:
        """Score of the most frequent class, or the mean number, of the training split; of the longest answer."""
        learned = training_task_of(self.definition)
        answers = self.questions.head_format.baseline_answers(self.rows, training_rows(learned))
        return {} if answers is None else self.questions.score(answers)

    def _require_numbers(self, part: HeadQuestions, scores: Sequence[np.ndarray]) -> None:
        for origin, each in zip(part.examples.origins.tolist(), scores, strict=True):
            if np.isnan(each).any():
                number = part.read[origin].number
                raise ValueError(
                    f"task {part.task!r}: the head's score for question {number} is not a number (NaN); these weights "
                    "can't be evaluated, give others"
                )
