"""Comparisons of two texts by their likelihoods: minimal pairs (BLiMP), and a text in two contexts (EWoK)."""

import functools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from t5x_like.evaluation.questions import Question, Questions
from t5x_like.evaluation.scores import row_counts, score
from t5x_like.evaluation.scores_file import Entry, Row
from t5x_like.evaluation.task_evaluators import TaskEvaluator
from t5x_like.evaluation.text_scorers import ContextText, TextScorer
from t5x_like.inference.length_batches import length_batches
from t5x_like.inference.scorer import LikelihoodRequest
from t5x_like.model.parameters import Parameters
from t5x_like.text.templates import RowValues


@dataclass(frozen=True, kw_only=True)
class ComparisonEvaluator(TaskEvaluator):
    """Rows of a task with a right text and another one, and the model that scores both.

    A row's targets are the right text, and its inputs the context before it. The fields ``other_inputs`` and
    ``other_targets`` are the other text, and ``groups`` are the groups that have scores of their own.

    Attributes:
      scorer: The model.
      questions: The rows.
      length: Tokens of the longest row that is read. Longer texts are refused, because whole texts are compared.
      batch_size: Comparisons in a batch.
    """

    scorer: TextScorer
    questions: Questions
    length: int
    batch_size: int

    @property
    def inputs(self) -> dict[int, str]:
        """Both texts with their contexts, on a line each, by row number; the right one is first."""
        return {row.number: f"{_right(row).whole}\n{_other(row).whole}" for row in self.questions.rows}

    @property
    def source_rows(self) -> list[RowValues]:
        """Fields of the rows as their files have them."""
        return [row.example for row in self.questions.rows]

    @functools.cached_property
    def _requests(self) -> list[tuple[LikelihoodRequest, LikelihoodRequest]]:
        """Requests of each row's right text and its other one.

        Raises:
          ValueError: A row is longer than the model reads.
        """
        rows = self.questions.rows
        rights = self.scorer.requests([_right(row) for row in rows])
        others = self.scorer.requests([_other(row) for row in rows])
        for row, *pair in zip(rows, rights, others, strict=True):
            size = max(map(self.scorer.num_positions, pair))
            if size > self.length:
                raise ValueError(
                    f"task {self.questions.task!r}, row {row.number}: a text of {size} tokens, and {self.length} are "
                    f"read; whole texts are compared, so raise inputs_length: {_right(row).whole[:60]!r}"
                )
        return list(zip(rights, others, strict=True))

    def answer(self, params: Parameters, answered: Collection[int] = ()) -> Iterator[list[Row]]:
        """Yield rows of ``predictions.jsonl``, one list for each batch; see ``TaskEvaluator.answer``."""
        rows = self.questions.rows
        sizes = [max(map(self.scorer.num_positions, pair)) for pair in self._requests]
        for indices in length_batches(sizes, self.batch_size):
            if all(rows[index].number in answered for index in indices):
                continue
            likelihoods = [
                self.scorer.score(
                    params,
                    [self._requests[index][side] for index in indices],
                    batch_size=self.batch_size,
                    limit=self.length,
                ).tolist()
                for side in (0, 1)
            ]
            yield [
                self._record(rows[index], right, other)
                for index, right, other in zip(indices, *likelihoods, strict=True)
            ]

    def _record(self, row: Question, right: float, other: float) -> Row:
        """Build one row of ``predictions.jsonl``; without a preference, the prediction is empty."""
        texts = _right(row).whole, _other(row).whole
        return {
            "task": self.questions.task,
            "number": row.number,
            "groups": list(row.example["groups"]),
            "input": "\n".join(texts),
            "target": texts[0],
            "prediction": texts[0] if right > other else texts[1] if other > right else "",
            "log_likelihood": right,
            "choices": {"target": right, "other": other},
        }

    def score(self, rows: Sequence[Row], *, resamples: int = 0) -> Entry:
        """Return the task's entry in ``scores.json``; see ``TaskEvaluator.score``."""
        # JSON has None for a likelihood that is not a number.
        likelihoods = [
            [math.nan if each is None else each for each in row["choices"].values()] for row in rows
        ]
        differences = [right - other for right, other in likelihoods]
        entry = score(
            self.questions.metrics, [row["groups"] for row in rows], differences, resamples=resamples
        )
        return (
            entry
            | row_counts(self.questions.split, rows, num_labeled=len(rows))
            | {"invalid": sum(map(math.isnan, differences)), "labels": []}
        )


def _right(row: Question) -> ContextText:
    return ContextText(row.inputs, row.targets)


def _other(row: Question) -> ContextText:
    return ContextText(row.example["other_inputs"], row.example["other_targets"])
