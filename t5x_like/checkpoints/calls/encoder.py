"""Calls of encoders: BERT's classes and their like."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from t5x_like.batch import Batch
from t5x_like.checkpoints.arguments import numbers, token_rows
from t5x_like.checkpoints.calls import losses
from t5x_like.checkpoints.calls.call import Context, hidden_states, read_ids, read_mask

ARGUMENTS: tuple[str, ...] = (
    "input_ids",
    "attention_mask",
    "token_type_ids",
    "task_type_ids",
    "position_ids",
    "labels",
    "next_sentence_label",
    "sentence_order_label",
    "start_positions",
    "end_positions",
)

_LABELS = ("labels", "next_sentence_label", "sentence_order_label", "start_positions", "end_positions")
_PAIR_NAMES = {"next_sentence": "seq_relationship_logits", "sentence_order": "sop_logits"}


def read(given: dict[str, Any], context: Context) -> dict[str, Any]:
    """See ``Call.read``. Choices, [B, C, L], become rows."""
    config, embeddings = context.config, context.config.embeddings
    labels = {name: numbers(given[name], name) for name in _LABELS if given.get(name) is not None}
    num_choices = {}
    if config.task == "multiple_choice":
        shape = np.shape(given["input_ids"])
        if len(shape) != 3:
            raise ValueError(
                f"input_ids has shape {shape}; for multiple choice give [batch, choices, length]"
            )
        num_choices = {"num_choices": np.zeros(shape[1])}
        folded = ("input_ids", "attention_mask", "token_type_ids", "task_type_ids", "position_ids")
        given = {
            name: np.reshape(value, (-1, shape[2])) if name in folded and value is not None else value
            for name, value in given.items()
        }
    ids = token_rows(given["input_ids"], "input_ids", config.vocab_size)
    inputs = {"input_ids": ids, **read_mask(given.get("attention_mask"), ids), **labels, **num_choices}
    learned = embeddings.positions
    num_positions = (
        getattr(config, "num_positions", 1) if learned is None else learned.num_positions + learned.offset
    )
    tables = {
        "token_type_ids": embeddings.num_token_types,
        "task_type_ids": embeddings.num_task_types,
        "position_ids": num_positions,
    }
    read_ids(given, tables, inputs)
    if learned is not None:
        _read_positions(inputs, learned.offset, getattr(config, "pad_token_id", None))
    return inputs


def _read_positions(inputs: dict[str, Any], offset: int, pad_token_id: int | None) -> None:
    """Where positions are counted over ids that are not padding, padding has the last row before position 0."""
    if "position_ids" in inputs:
        inputs["position_ids"] = inputs["position_ids"] - offset
    elif offset and pad_token_id is not None:
        real = inputs["input_ids"] != pad_token_id
        inputs["position_ids"] = np.where(real, np.cumsum(real, axis=1) - 1, -1).astype(np.int32)


def compute(model: Any, config: Any, inputs: dict[str, Any], collect_hidden: bool) -> dict[str, Any]:
    """See ``Call.compute``."""
    batch = Batch(
        encoder_input_tokens=inputs["input_ids"],
        encoder_segment_ids=inputs.get("segment_ids"),
        encoder_positions=inputs.get("position_ids"),
        token_types=inputs.get("token_type_ids"),
        task_types=inputs.get("task_type_ids"),
        attention_mask=inputs.get("attention_mask"),
    )
    predictions = model(batch, collect_hidden=collect_hidden)
    outputs = {"last_hidden_state": predictions.encoder_output}
    hidden = predictions.encoder_hidden
    # Of layers that consist of several blocks (ALBERT's inner groups), transformers shows what leaves the last.
    hidden = hidden if hidden is None else hidden[:: getattr(config, "inner_group_num", 1)]
    outputs |= hidden_states(hidden, "hidden_states")
    if predictions.pooled is not None:
        outputs["pooler_output"] = predictions.pooled
    logits = None if predictions.logits is None else predictions.logits[..., : config.vocab_size]
    return outputs | _scores(config, logits, predictions.heads, inputs)


def _scores(config: Any, logits: Any, heads: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
    match config.task:
        case "masked_lm":
            return _with_loss(logits, inputs, losses.cross_entropy)
        case "pretraining":
            return _pretraining(logits, heads, inputs)
        case "next_sentence":
            named = {"labels": inputs["next_sentence_label"]} if "next_sentence_label" in inputs else {}
            return _with_loss(heads["next_sentence"], inputs | named, losses.cross_entropy)
        case "sequence_classification":
            loss = partial(losses.classification_loss, problem=config.problem)
            return _with_loss(heads["classes"], inputs, loss)
        case "multiple_choice":
            scores = heads["choice"].reshape(-1, inputs["num_choices"].shape[0])
            return _with_loss(scores, inputs, losses.cross_entropy)
        case "token_classification":
            return _with_loss(heads["token_classes"], inputs, losses.cross_entropy)
        case "replaced_tokens":
            loss = partial(losses.replaced_tokens_loss, real=inputs.get("segment_ids"))
            return _with_loss(heads["replaced"][..., 0], inputs, loss)
        case "question_answering":
            return _spans(heads["span"], inputs)
    return {}


def _pretraining(logits: Any, heads: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
    (pair, scores), *_ = ((name, scores) for name, scores in heads.items() if name in _PAIR_NAMES)
    outputs = {"prediction_logits": logits, _PAIR_NAMES[pair]: scores}
    if "labels" not in inputs or f"{pair}_label" not in inputs:
        return outputs
    of_words = losses.cross_entropy(logits, inputs["labels"])
    return outputs | {"loss": of_words + losses.cross_entropy(scores, inputs[f"{pair}_label"])}


def _spans(scores: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    start, end = scores[..., 0], scores[..., 1]
    outputs = {"start_logits": start, "end_logits": end}
    if "start_positions" not in inputs or "end_positions" not in inputs:
        return outputs
    loss = losses.span_cross_entropy(start, end, inputs["start_positions"], inputs["end_positions"])
    return outputs | {"loss": loss}


def _with_loss(logits: Any, inputs: dict[str, Any], loss: Callable[[Any, Any], Any]) -> dict[str, Any]:
    outputs = {"logits": logits}
    return outputs | {"loss": loss(logits, inputs["labels"])} if "labels" in inputs else outputs
