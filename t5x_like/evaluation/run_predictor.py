"""Predictions of a training run for rows of its task and for lines of text."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from t5x_like.evaluation.evaluator import TaskEvaluation
from t5x_like.evaluation.head_predictor import HeadPredictor
from t5x_like.evaluation.questions import Questions, seqio_codec
from t5x_like.evaluation.row_predictors import HeadRowPredictor, RowPredictor, TextRowPredictor
from t5x_like.evaluation.saved_runs import RunPrediction, open_run
from t5x_like.evaluation.span_answers import SpanSearch
from t5x_like.evaluation.text_model import TextModel
from t5x_like.partitioning.shard import check_batch_size
from t5x_like.pretrained.initial_weights import check_label_type
from t5x_like.pretrained.run_weights import trained_prefix_attention
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.tasks.pairs import PairsTask

_TARGETS_LENGTH = 64  # of runs that were never evaluated


class Prediction(NamedTuple):
    """An input text as the model read it, and the prediction; classes of words have spaces between them."""

    input: str
    prediction: str


def predict(run: RunPrediction, lines: Iterable[str]) -> Iterator[Prediction]:
    """Yield a prediction for each line, batch by batch; models with a head use it.

    Args:
      run: Checkpoint and settings.
      lines: Lines of text, or of JSON for several columns.
    """
    yield from predict_lines(row_predictor(run), lines)


def predict_lines(predictor: RowPredictor, lines: Iterable[str]) -> Iterator[Prediction]:
    """Yield a prediction for each line, batch by batch.

    Args:
      predictor: Model that predicts rows.
      lines: Lines of text, or of JSON for several columns.
    """
    lines = iter(lines)
    while batch := list(islice(lines, predictor.batch_size)):
        rows = [predictor.read_line(line) for line in batch]
        for row, prediction in zip(rows, predictor.predict(rows), strict=True):
            yield Prediction(predictor.input_text(row), prediction.text)


def row_predictor(run: RunPrediction) -> RowPredictor:
    """Open a run to predict rows of its task; models with a head use it.

    Raises:
      ValueError: There is no such run or task, or the model can't answer the task.
    """
    mesh = run.mesh.build()
    check_batch_size(run.batch_size, mesh)
    registration.connect()
    tasks = run.resolve()
    definition: Any = tasks.only_task()
    opened = open_run(run, mesh, [tasks])
    by_spans = not opened.can_generate and definition.head_format().head.kind == "question_answering"
    if run.spans != SpanSearch() and not by_spans:
        raise ValueError(
            f"spans has no effect: {run.checkpoint} answers by no spans of a context; leave it out"
        )
    if not opened.can_generate:
        if run.method is not None:
            raise ValueError(
                f"method={run.method} has no effect: {run.checkpoint} predicts by its head; leave it out"
            )
        if not run.generation.is_greedy:
            raise ValueError(
                f"generation has no effect: {run.checkpoint} predicts by its head; leave its beams or temperature out"
            )
        problem_type = definition.head_format().head.problem_type
        check_label_type(opened.config, problem_type, what=f"task {run.task!r}")
        return HeadRowPredictor(
            definition=definition.row_task(),
            predictor=HeadPredictor(opened.graphdef, mesh, batch_size=run.batch_size),
            params=opened.params,
            inputs_length=run.inputs_length,
            spans=run.spans,
        )
    method = run.method or "generate"
    if method == "rank" and not getattr(definition, "answers", ()):
        raise ValueError(f"task {run.task!r} has open answers, there is nothing to rank; use method=generate")
    tokenizer, is_pairs = definition.tokenizer, isinstance(definition, PairsTask)
    continues = tokenizer is not None and not is_pairs
    model = TextModel.as_trained(
        opened.config,
        mesh,
        tokenizer or seqio_codec(run.task),
        # Rows of plain text have no inputs in their stream.
        prefix_attention="bidirectional" if continues else trained_prefix_attention(opened.directory),
    )
    if model.is_decoder and continues:
        # A decoder of plain text continues a prompt. After an end it would begin another document.
        model = replace(model, prompt_encoder=replace(model.prompt_encoder, suffix_ids=()))
    evaluation = TaskEvaluation(
        mixture=run.task,
        inputs_length=run.inputs_length,
        targets_length=run.targets_length or _TARGETS_LENGTH,
        batch_size=run.batch_size,
        method=method,
        generation=run.generation,
    )
    labels = definition.answers if method == "rank" else ()
    questions = Questions(
        task=run.task,
        split="",
        rows=(),
        labels=labels,
        max_samples=definition.max_samples if is_pairs else None,
    )
    evaluator = evaluation.text_evaluator(questions, model, opened.config)
    return TextRowPredictor(
        evaluator=evaluator,
        params=opened.params,
        definition=definition if is_pairs else None,
        word=str if tokenizer is None else definition.word_question,
    )
