"""Predictions for rows by any checkpoint, without a task: its head or its words answer one text, or a pair."""

import math
from collections.abc import Sequence

from t5x_like.evaluation.head_predictor import HeadPredictor
from t5x_like.evaluation.prompts import Prompter, PromptStyle
from t5x_like.evaluation.questions import Questions
from t5x_like.evaluation.row_predictors import TEXT, HeadRowPredictor, RowPredictor, TextRowPredictor
from t5x_like.evaluation.text_evaluator import TextEvaluator
from t5x_like.evaluation.text_model import TextModel
from t5x_like.inference.generator import GenerationConfig
from t5x_like.model.model_traits import traits_of
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.output_scale import scale_of_run
from t5x_like.text.heads import (
    HeadFormat,
    MultiLabelClassification,
    QuestionAnswering,
    Regression,
    SequenceClassification,
    TokenClassification,
)
from t5x_like.text.tasks.text_task import TextTask

_MOST_TOKENS = 512  # of an input, as transformers' examples cut
_NO_COLUMN = "\0"  # no table has such a label
# Names of columns that transformers' examples and public datasets give to texts.
_USUAL_PAIRS = (
    ("question", "context"),
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("prompt", "answer"),
)
_USUAL_TEXTS = ("text", "sentence", "inputs", "input", "prompt", "content", "tokens", "words")


def checkpoint_predictor(
    opened: Checkpoint,
    *,
    num_texts: int = 1,
    batch_size: int = 16,
    inputs_length: int | None = None,
    generation: GenerationConfig | None = None,
) -> RowPredictor:
    """Return a predictor for rows whose texts are in the columns ``text`` and, for pairs, ``text_pair``.

    Args:
      opened: The checkpoint with its tokenizer.
      num_texts: 1, or 2 for pairs; a head that answers questions reads question and context.
      batch_size: Rows in a batch.
      inputs_length: Tokens of an input; by default the model's positions, at most 512.
      generation: Decoding settings of models that write.

    Raises:
      ValueError: The model has no head that can answer rows, and it writes no text.
    """
    length = inputs_length or min(opened.max_positions or _MOST_TOKENS, _MOST_TOKENS)
    name = str(opened.directory)
    if opened.can_generate:
        if opened.family == "encoder":  # its words are those of masked or neighboring places
            raise ValueError(
                f"{name} is a language model without a head for rows ({type(opened.config).__name__} for "
                f"{opened.config.task!r}), and an encoder writes no texts; fine-tune it on a table first: t5x-like new "
                f"DIR --data FILE --checkpoint {name}. An export of a generative encoder has lost its form of rows "
                "(LoaderConfig.masked_targets); predict with its run"
            )
        if num_texts != 1:
            raise ValueError(f"{name} writes a text for one text; name one column")
        generation = generation or GenerationConfig()
        evaluator = TextEvaluator(
            model=TextModel.of_checkpoint(opened),
            questions=Questions(task=name, split="", rows=()),
            prompter=Prompter(task=name, style=PromptStyle()),
            method="generate",
            prompt_length=length,
            batch_size=batch_size,
            generation=generation,
            target_length=generation.max_new_tokens,
        )
        return TextRowPredictor(evaluator=evaluator, params=opened.params)
    head = _head_format(opened, num_texts)
    definition = TextTask(
        name=name,
        vocabulary=opened.vocabulary or name,
        files={"rows": name},
        input_template="{text}",
        target_template="",
        metrics=(),
        head=head,
    )
    return HeadRowPredictor(
        definition=definition,
        predictor=HeadPredictor(opened.graphdef, opened.mesh, batch_size=batch_size),
        params=opened.params,
        inputs_length=length,
        tokenizer=opened.tokenizer,
    )


def usual_columns(columns: Sequence[str], num_texts: int | None = None) -> tuple[str, ...]:
    """Return the columns of texts by their usual names; empty if none is usual.

    Args:
      columns: Columns of a table.
      num_texts: Number of texts that the model reads; None for one, or two if these have the names of a pair.
    """
    if num_texts != 1:
        for pair in _USUAL_PAIRS:
            if set(pair) <= set(columns):
                return pair
    if num_texts == 2:
        return ()
    return next(((name,) for name in _USUAL_TEXTS if name in columns), ())


def num_texts_of(opened: Checkpoint) -> int | None:
    """Return how many texts a checkpoint's head reads; None if one or two."""
    task = traits_of(opened.config).task
    if opened.can_generate or task == "token_classification":
        return 1
    return 2 if task == "question_answering" else None


def _head_format(opened: Checkpoint, num_texts: int) -> HeadFormat:
    config = traits_of(opened.config)
    task = config.task
    texts = (f"{{{TEXT}}}", "{text_pair}")[:num_texts]
    if task == "question_answering" and num_texts == 2:
        return QuestionAnswering(question=texts[0], context=texts[1], answers=_NO_COLUMN)
    if task == "token_classification" and num_texts == 1:
        return TokenClassification(tokens=TEXT, tags=_NO_COLUMN, classes=_classes(opened))
    if task != "sequence_classification":
        raise ValueError(
            f"{opened.directory} has a head for {task or 'nothing'}, which answers no rows of {num_texts} text"
            f"{'s' * (num_texts != 1)}; fine-tune it on a task and name that run"
        )
    problem = config.problem_type
    if problem == "multi_label":
        return MultiLabelClassification(texts=texts, label=_NO_COLUMN, classes=_classes(opened))
    if problem == "regression" or (problem is None and config.num_labels == 1):
        scale = scale_of_run(opened.directory)
        return Regression(
            texts=texts,
            label=_NO_COLUMN,
            lowest=-math.inf,
            highest=math.inf,
            mean=scale.mean,
            deviation=scale.deviation,
        )
    return SequenceClassification(texts=texts, label=_NO_COLUMN, classes=_classes(opened))


def _classes(opened: Checkpoint) -> tuple[str, ...]:
    """Return the names of the classes; those without names are called as transformers calls them."""
    return opened.class_names or tuple(f"LABEL_{index}" for index in range(opened.config.num_labels))
