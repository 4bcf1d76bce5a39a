"""Answers of an encoder's head to a task's held-out rows, and their scores."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from t5x_like.batch import Batch
from t5x_like.evaluation.evaluator import Evaluator, TaskEvaluation, TaskResult, local_rows
from t5x_like.evaluation.span_answers import span_answers
from t5x_like.model import multiple_choice, parameters
from t5x_like.partitioning.shard import check_batch_size, place, replicated
from t5x_like.text import registry
from t5x_like.text.batches.head_questions import HeadQuestions, load_questions, training_rows
from t5x_like.text.heads import QuestionAnswering
from t5x_like.text.heads.head_format import Answer, HeadFormat

_log = logging.getLogger(__name__)

HeadScorer = Callable[[Any, Batch], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class HeadEvaluation:
    """Which rows a head is asked about. A mixture's tasks are evaluated one by one.

    Texts longer than ``inputs_length`` tokens are cut, contexts of questions read in windows. An answer is at most
    ``max_answer_length`` tokens. Where there may be none, none is given if that scores more than the best answer by
    over ``null_score_diff_threshold``, which is chosen on held-out questions. ``n_best`` answers to each are kept.
    """

    mixture: str
    inputs_length: int
    split: str = "validation"
    batch_size: int = 64
    limit: int | None = None
    max_answer_length: int = 30
    null_score_diff_threshold: float = 0.0
    n_best: int = 20


def evaluator_of(evaluation: TaskEvaluation | HeadEvaluation, graphdef: Any, mesh: Mesh) -> Any:
    """What runs an evaluation."""
    if isinstance(evaluation, HeadEvaluation):
        return HeadEvaluator(evaluation, graphdef, mesh)
    return Evaluator(evaluation, graphdef, mesh)


class HeadEvaluator:
    """One evaluation, compiled once and run on any weights."""

    def __init__(self, evaluation: HeadEvaluation, graphdef: Any, mesh: Mesh):
        check_batch_size(evaluation.batch_size, mesh)
        self._evaluation, self._graphdef, self._mesh = evaluation, graphdef, mesh
        self._questions = {
            task: load_questions(
                task, evaluation.split, inputs_length=evaluation.inputs_length, limit=evaluation.limit
            )
            for task in registry.names_of_tasks(evaluation.mixture)
        }
        for questions in self._questions.values():
            if questions.examples.num_cut:
                _log.warning(
                    "task %s, split %s: %d of %d rows are longer than inputs_length=%d and were cut",
                    questions.task,
                    evaluation.split,
                    questions.examples.num_cut,
                    len(questions),
                    evaluation.inputs_length,
                )
        kinds = dict.fromkeys(questions.head[0] for questions in self._questions.values())
        self._scorers = {kind: make_head_scorer(graphdef, kind, mesh) for kind in kinds}

    def run(self, params: Any) -> dict[str, TaskResult]:
        """Evaluates every task with these weights.

        Raises:
          ValueError: the model lacks the head that a task needs.
        """
        return {task: self._run_task(questions, params) for task, questions in self._questions.items()}

    def _run_task(self, questions: HeadQuestions, params: Any) -> TaskResult:
        require_head(parameters.merge(self._graphdef, params), questions)
        scores = head_scores(
            questions,
            self._scorers[questions.head[0]],
            params,
            self._mesh,
            batch_size=self._evaluation.batch_size,
        )
        told = told_answers(
            questions,
            scores,
            max_answer_length=self._evaluation.max_answer_length,
            threshold=self._evaluation.null_score_diff_threshold,
            n_best=self._evaluation.n_best,
        )
        if not questions.num_labelled:
            _log.warning(
                "task %s, split %s: no row has a label; predictions are given, and no scores",
                questions.task,
                self._evaluation.split,
            )
        definition: Any = registry.definition(questions.task)
        commonest = questions.most_frequent(training_rows(definition))
        baseline = {} if commonest is None else questions.score(commonest)
        return TaskResult(questions.score(told.answers), _finite(baseline), told.rows(questions))


class Told(NamedTuple):
    """The answer to each row, and what is said beside it."""

    answers: list[Answer]
    beside: list[dict[str, Any]]

    def rows(self, questions: HeadQuestions) -> list[dict[str, Any]]:
        """Lines for ``predictions.jsonl``."""
        return [row | more for row, more in zip(questions.rows(self.answers), self.beside, strict=True)]


def head_scores(
    questions: HeadQuestions, scorer: HeadScorer, params: Any, mesh: Mesh, *, batch_size: int
) -> list[np.ndarray]:
    """What the head says of each example, in order."""
    found: list[Any] = [None] * len(questions.examples)
    for numbers, batch in questions.batches(batch_size):
        scores = scorer(params, place(local_rows(batch, mesh), mesh))
        for number, row in zip(numbers.tolist(), scores, strict=False):
            found[number] = row
    return found


def told_answers(
    questions: HeadQuestions,
    scores: Sequence[np.ndarray],
    *,
    max_answer_length: int = 30,
    threshold: float = 0.0,
    n_best: int = 20,
) -> Told:
    """The answer to each row, from the scores of its examples; see ``HeadEvaluation``."""
    if isinstance(questions.head_format, QuestionAnswering):
        found = span_answers(questions, scores, max_answer_length=max_answer_length, size=n_best)
        return Told([each.answer(threshold) for each in found], [each.described() for each in found])
    answers = questions.head_format.answers_of(
        [each.row for each in questions.read], scores, lambda number: questions.examples.places(number)[0]
    )
    return Told(answers, [{} for _ in questions.read])


def make_head_scorer(graphdef: Any, kind: str, mesh: Mesh) -> HeadScorer:
    """The compiled function ``(params, batch) -> float32``: [B, C] of classes and choices, [B, L, C] of tokens."""
    name = kind

    def score(params: Any, batch: Batch) -> jax.Array:
        heads = parameters.merge(graphdef, params)(multiple_choice.as_rows(batch)).heads
        count = multiple_choice.num_choices(batch)
        return multiple_choice.side_by_side(heads[name], count) if count else heads[name]

    compiled = jax.jit(score, out_shardings=replicated(mesh))
    return lambda params, batch: np.asarray(compiled(params, batch))


def require_head(model: Any, questions: HeadQuestions) -> None:
    """Whether a model has what a task's rows are told by.

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
    """The head that a head format needs, for people; nothing if the model has it."""
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


def _finite(scores: dict[str, float]) -> dict[str, float]:
    """Correlations of one answer given always are no numbers."""
    return {name: score for name, score in scores.items() if np.isfinite(score)}
