"""Answers of a fine-tuned head: its scores for a task's rows, and what these say in the task's own terms."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from t5x_like.batch import Batch
from t5x_like.evaluation.span_answers import span_answers
from t5x_like.inference.length_batches import place_rows, run_by_length
from t5x_like.model import multiple_choice, parameters
from t5x_like.partitioning.shard import replicated
from t5x_like.pretrained.head_classes import order_by_name
from t5x_like.text.batches.head_questions import HeadQuestions
from t5x_like.text.heads import QuestionAnswering
from t5x_like.text.heads.head_format import Answer, HeadFormat


@dataclass(frozen=True, kw_only=True)
class SpanSearch:
    """Search for answers among the spans of a context (Devlin et al. 2019, §4.2-4.3).

    Attributes:
      max_answer_length: in tokens.
      null_score_diff_threshold: where there may be no answer, none is given if that scores more than the best span by
        over this; chosen on held-out questions.
      n_best: answers to each question that are kept.
    """

    max_answer_length: int = 30
    null_score_diff_threshold: float = 0.0
    n_best: int = 20


class ClassOrder(NamedTuple):
    """The place of each of a task's classes among a head's scores, ``None`` where as in the task; and a note on it."""

    places: tuple[int, ...] | None = None
    note: str = ""

    def applied(self, scores: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Scores [..., C] in the task's order."""
        return list(scores) if self.places is None else [row[..., list(self.places)] for row in scores]


class HeadPredictions(NamedTuple):
    """The answer to each row, and what ``predictions.jsonl`` says of it besides."""

    answers: list[Answer]
    details: list[dict[str, Any]]

    def rows(self, questions: HeadQuestions) -> list[dict[str, Any]]:
        """Lines for ``predictions.jsonl``."""
        return [row | more for row, more in zip(questions.rows(self.answers), self.details, strict=True)]


class HeadPredictor:
    """Predicts with a model's head, compiled once for each shape."""

    def __init__(self, graphdef: Any, mesh: Mesh, *, batch_size: int):
        def score(params: Any, batch: Batch, *, head: str) -> jax.Array:
            heads = parameters.merge(graphdef, params)(multiple_choice.flatten_choices(batch)).heads
            count = multiple_choice.num_choices(batch)
            return multiple_choice.scores_by_choice(heads[head], count) if count else heads[head]

        self._graphdef, self._mesh, self.batch_size = graphdef, mesh, batch_size
        self._score = jax.jit(score, static_argnames="head", out_shardings=replicated(mesh))

    def scores(self, params: Any, questions: HeadQuestions) -> list[np.ndarray]:
        """The head's scores for each example, in order: float32 [C] for classes and choices, [L, C] for tokens.

        Raises:
          ValueError: the model lacks the head that the task needs.
        """
        require_head(parameters.merge(self._graphdef, params), questions)

        def run(numbers: list[int]) -> list[np.ndarray]:
            batch = place_rows(questions.batch(numbers, self.batch_size), self._mesh)
            return list(np.asarray(self._score(params, batch, head=questions.head[0])))[: len(numbers)]

        return run_by_length(questions.examples.sizes, self.batch_size, run)


def answers_of(
    questions: HeadQuestions, scores: Sequence[np.ndarray], spans: SpanSearch | None = None
) -> HeadPredictions:
    """The answer to each row, from the scores of its examples."""
    spans = spans or SpanSearch()
    if isinstance(questions.head_format, QuestionAnswering):
        found = span_answers(questions, scores, max_answer_length=spans.max_answer_length, size=spans.n_best)
        answers: list[Answer] = [each.answer(spans.null_score_diff_threshold) for each in found]
        return HeadPredictions(answers, [each.described() for each in found])
    answers = questions.head_format.answers_of(
        [each.row for each in questions.read],
        scores,
        lambda number: questions.examples.character_offsets(number)[0],
    )
    return HeadPredictions(answers, [{} for _ in questions.read])


def require_head(model: Any, questions: HeadQuestions) -> None:
    """Refuses a model without the head for a task's rows.

    Raises:
      ValueError: it lacks the head, or has one with other scores.
    """
    wanted = wanted_head(model, questions.head_format)
    if wanted:
        raise ValueError(
            f"task {questions.task!r} needs {wanted}; the model's heads: {heads_of(model)}. Fine-tune it on such a "
            "task first"
        )


def wanted_head(model: Any, head_format: HeadFormat) -> str:
    """Name the head that a head format needs, for people; empty if the model has it."""
    kind, wanted = head_format.head.kind, head_format.num_outputs
    heads = getattr(getattr(model, "heads", None), "scores", {})
    found = heads[kind].config.num_outputs if kind in heads else None
    if found == wanted:
        return ""
    return f"a head for {kind.replace('_', ' ')} with {wanted} score{'s' * (wanted > 1)}"


def heads_of(model: Any) -> str:
    """A model's heads and their numbers of scores, for people."""
    heads = getattr(getattr(model, "heads", None), "scores", {})
    return ", ".join(f"{name} ({head.config.num_outputs})" for name, head in heads.items()) or "none"


def class_order(named: Sequence[str], head_format: HeadFormat, *, learned: str) -> ClassOrder:
    """Maps the classes of a head, in the order ``named``, to a task's; without names, they are in the task's order.

    ``learned`` is the task that it was trained on here, if it was; then missing names need no note.

    Raises:
      ValueError: the names are not those of the task's classes.
    """
    if not head_format.class_names:
        return ClassOrder()
    ours = ", ".join(head_format.class_names)
    if not named:
        said = f"the head's classes have no names, and were taken in the task's order: {ours}. "
        return ClassOrder(note="" if learned else said + "--classes names them if theirs is another")
    order = order_by_name(named, head_format.class_names)
    if order is None:
        raise ValueError(f"the head's classes {', '.join(named)} are not the task's: {ours}")
    if order == tuple(range(len(order))):
        return ClassOrder()
    return ClassOrder(
        order, f"the head's classes are in another order, and were told by name: {', '.join(named)}"
    )
