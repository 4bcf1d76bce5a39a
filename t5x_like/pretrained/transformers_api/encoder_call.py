"""Calls of encoders: BERT's classes and their like."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import PyTree

from t5x_like.batch import Batch
from t5x_like.model.families.encoder import Encoder
from t5x_like.model.heads import whole_logits
from t5x_like.model.model_traits import traits_of
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.pretrained.transformers_api.call import Context, read_ids, read_mask
from t5x_like.pretrained.transformers_api.call_arguments import token_rows
from t5x_like.pretrained.transformers_api.head_outputs import choices_as_rows, choices_of, scores_of
from t5x_like.pretrained.transformers_api.label_arguments import LABELS, read_labels

ARGUMENTS: tuple[str, ...] = (
    "input_ids",
    "attention_mask",
    "token_type_ids",
    "task_type_ids",
    "position_ids",
    *LABELS,
)


def read(arguments: dict[str, PyTree], context: Context) -> dict[str, PyTree]:
    """Return the checked arguments as numpy arrays by name. Choices, [B, C, L], become rows."""
    config, embeddings = context.config, context.config.embeddings
    arguments, num_choices = choices_as_rows(arguments, config)
    ids = token_rows(arguments["input_ids"], "input_ids", config.vocab_size)
    inputs = {"input_ids": ids, **read_mask(arguments.get("attention_mask"), ids)}
    inputs |= num_choices | read_labels(
        arguments, config, ids.shape, num_choices=choices_of(num_choices), real=inputs.get("segment_ids")
    )
    learned = embeddings.positions
    max_position_embeddings = (
        traits_of(config).max_position_embeddings or 1
        if learned is None
        else learned.max_position_embeddings + learned.offset
    )
    tables = {
        "token_type_ids": embeddings.num_token_types,
        "task_type_ids": embeddings.num_task_types,
        "position_ids": max_position_embeddings,
    }
    read_ids(_without_unread_types(arguments, config), tables, inputs)
    if learned is not None:
        counts = traits_of(config).pad_token_id is not None
        _read_positions(inputs, learned.offset, context.special_ids.fill if counts else None)
    return inputs


def _without_unread_types(arguments: dict[str, PyTree], config: CommonConfig) -> dict[str, PyTree]:
    """Leave out token types of a model without them, which tokenizers of pairs make for any model.

    Raises:
      ValueError: They tell segments apart, and no model of this type could.
    """
    types = arguments.get("token_type_ids")
    if types is None or (config.embeddings is not None and config.embeddings.num_token_types):
        return arguments
    may_have_types = any(field.name == "num_token_types" for field in dataclasses.fields(config))
    if not may_have_types and np.any(types):
        raise ValueError(
            "token_type_ids tell segments apart, and this model has no token types; leave them out"
        )
    return {name: each for name, each in arguments.items() if name != "token_type_ids"}


def _read_positions(inputs: dict[str, PyTree], offset: int, pad_token_id: int | None) -> None:
    """Add positions of models that count them over real tokens only; padding has the row before position 0."""
    if "position_ids" in inputs:
        inputs["position_ids"] = inputs["position_ids"] - offset
    elif offset and pad_token_id is not None:
        inputs["position_ids"] = count_positions(inputs["input_ids"] != pad_token_id)


def count_positions(real: Any) -> Any:
    """Return positions [B, L] that count real tokens from 0; padding has -1. For arrays of numpy or JAX."""
    return (real.cumsum(axis=1) * real - 1).astype(np.int32)


def compute(model: Encoder, config: CommonConfig, inputs: dict[str, PyTree]) -> dict[str, PyTree]:
    """Return outputs under transformers' names."""
    batch = Batch(
        encoder_input_tokens=inputs["input_ids"],
        encoder_segment_ids=inputs.get("segment_ids"),
        encoder_positions=inputs.get("position_ids"),
        token_types=inputs.get("token_type_ids"),
        task_types=inputs.get("task_type_ids"),
        attention_mask=inputs.get("attention_mask"),
    )
    predictions = model(batch)
    outputs = {"last_hidden_state": predictions.encoder_output}
    if predictions.pooled is not None:
        outputs["pooler_output"] = predictions.pooled
    logits = None if predictions.logits is None else whole_logits(predictions.logits)
    return outputs | scores_of(config, logits, predictions.heads, inputs)
