"""Predictions of a fine-tuned head: its outputs for the rows of a task, decoded to classes, numbers, spans or tags."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh

from t5x_like.batch import Batch
from t5x_like.evaluation.span_answers import SpanSearch, span_answers
from t5x_like.inference.length_batches import place_rows, run_by_length
from t5x_like.model import multiple_choice, parameters
from t5x_like.model.families.ensemble import Ensemble, first_member, mean_of_sigmoids, mean_scores
from t5x_like.model.families.family import Family, predict
from t5x_like.model.layers.masks import real_tokens
from t5x_like.model.parameters import Parameters
from t5x_like.partitioning.shard import replicated
from t5x_like.pretrained.head_classes import order_by_name
from t5x_like.text.batches.head_questions import HeadQuestions
from t5x_like.text.heads import QuestionAnswering
from t5x_like.text.heads.head_answers import Answer, Head
from t5x_like.text.heads.head_format import HeadFormat


class ClassOrder(NamedTuple):
    """Order of a head's outputs compared with the task's classes.

    Attributes:
      indices: Index of each task class among the head's outputs; ``None`` if both have the same order.
      note: Remark for the results; empty if the order needs none.
    """

    indices: tuple[int, ...] | None = None
    note: str = ""

    def applied(self, scores: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return scores [..., C] in the task's class order."""
        return list(scores) if self.indices is None else [row[..., list(self.indices)] for row in scores]


class HeadPredictor:
    """Head of a model, compiled once for each batch shape.

    Args:
      graphdef: Structure of the model.
      mesh: Devices.
      batch_size: Examples in a batch.
    """

    def __init__(self, graphdef: nnx.GraphDef, mesh: Mesh, *, batch_size: int):
        def score_one(model: Family, batch: Batch, head: str, are_choices: bool) -> jax.Array:
            scores = (predict(model, batch).heads or {})[head]
            if not multiple_choice.num_choices(batch):
                return scores
            num_examples = len(batch.encoder_input_tokens)
            return multiple_choice.scores_of_examples(scores, num_examples, are_choices=are_choices)

        def score(params: Parameters, batch: Batch, *, head: Head, are_choices: bool) -> jax.Array:
            model = parameters.merge(graphdef, params)
            if not isinstance(model, Ensemble):
                return score_one(model, batch, head.kind, are_choices)
            scores = [score_one(member, batch, head.kind, are_choices) for member in model.members]
            if head.kind == "question_answering":  # probabilities of places, among the real ones
                real = real_tokens(batch.encoder_segment_ids)
                return mean_scores(
                    scores, model.mean, axis=1, where=None if real is None else real[..., None]
                )
            if head.problem_type == "multi_label":
                return mean_of_sigmoids(scores, model.mean)
            is_number = head == ("sequence_classification", 1, None)
            return mean_scores(scores, "logits" if is_number else model.mean)

        self._graphdef, self._mesh, self.batch_size = graphdef, mesh, batch_size
        self._score = jax.jit(score, static_argnames=("head", "are_choices"), out_shardings=replicated(mesh))

    def scores(self, params: Parameters, questions: HeadQuestions) -> list[np.ndarray]:
        """Compute the head's outputs for each example, in order.

        Args:
          params: Weights of the model.
          questions: Rows with their format.

        Returns:
          float32 arrays: [C] for classes and choices, [L, C] for tokens.

        Raises:
          ValueError: The model lacks the head that the task needs.
        """
        _require_head(first_member(parameters.merge(self._graphdef, params)), questions)
        are_choices = questions.head_format.has_choices

        def run(numbers: list[int]) -> list[np.ndarray]:
            batch = place_rows(questions.batch(numbers, self.batch_size), self._mesh)
            with jax.set_mesh(self._mesh):  # by which kernels are split
                scores = self._score(params, batch, head=questions.head, are_choices=are_choices)
            return list(np.asarray(scores))[: len(numbers)]

        return run_by_length(questions.examples.sizes, self.batch_size, run)


def head_predictions(
    questions: HeadQuestions, scores: Sequence[np.ndarray], spans: SpanSearch | None = None
) -> tuple[list[Answer], list[dict[str, Any]]]:
    """Return the prediction for each row, and further fields of its line in ``predictions.jsonl``.

    Args:
      questions: Tokenized rows of a task.
      scores: Output of ``HeadPredictor.scores`` for their examples.
      spans: Search for answer spans, by default ``SpanSearch()``.
    """
    spans = spans or SpanSearch()
    head_format = questions.head_format
    if isinstance(head_format, QuestionAnswering):
        spans_of_rows = span_answers(questions, head_format, scores, spans)
        answers: list[Answer] = [each.answer(spans.null_score_diff_threshold) for each in spans_of_rows]
        return answers, [each.described() for each in spans_of_rows]
    answers = head_format.answers_of(
        questions.read,
        scores,
        lambda example_index: questions.examples.character_offsets(example_index)[0],
    )
    return answers, head_format.details_of(questions.read, scores)


def _require_head(model: nnx.Module, questions: HeadQuestions) -> None:
    """Check that a model has the head for a task's rows.

    Raises:
      ValueError: The head is missing, or has another number of outputs.
    """
    wanted = missing_head(model, questions.head_format)
    if wanted:
        raise ValueError(
            f"task {questions.task!r} needs {wanted}; the model's heads: {list_heads(model)}. Fine-tune it on such a "
            "task first"
        )


def missing_head(model: object, head_format: HeadFormat) -> str:
    """Describe the head that a head format needs; return an empty text if the model has it.

    Args:
      model: Model with its weights.
      head_format: Format of the rows.
    """
    kind, wanted = head_format.head.kind, head_format.num_outputs
    num_outputs = _num_outputs(model).get(kind)
    if num_outputs == wanted:
        return ""
    return f"a head for {kind.replace('_', ' ')} with {wanted} score{'s' * (wanted > 1)}"


def list_heads(model: object) -> str:
    """Return a model's heads with their numbers of outputs, as text."""
    return ", ".join(f"{name} ({num_outputs})" for name, num_outputs in _num_outputs(model).items()) or "none"


def _num_outputs(model: Any) -> dict[str, int]:
    return model.heads.num_outputs if hasattr(model, "heads") else {}


def class_order(named: Sequence[str], head_format: HeadFormat, *, trained_task: str) -> ClassOrder:
    """Map a task's classes to a head's outputs by name.

    Args:
      named: Class names in the order of the head's outputs; empty if unknown, which means the task's order.
      head_format: The task's classes.
      trained_task: Name of the task that the head was trained on, if known; then missing class names need no note.

    Raises:
      ValueError: The names differ from the task's classes.
    """
    if not head_format.class_names:
        return ClassOrder()
    task_classes = ", ".join(head_format.class_names)
    if not named:
        note = f"the head's classes have no names, and were taken in the task's order: {task_classes}. "
        return ClassOrder(note="" if trained_task else note + "Name them by classes if theirs is another")
    order = order_by_name(named, head_format.class_names)
    if order is None:
        raise ValueError(f"the head's classes {', '.join(named)} are not the task's: {task_classes}")
    if order == tuple(range(len(order))):
        return ClassOrder()
    return ClassOrder(
        order, f"the head's classes are in another order, and were matched by name: {', '.join(named)}"
    )
