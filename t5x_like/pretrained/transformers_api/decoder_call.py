"""Calls of decoders: GPT's classes and their like."""

from typing import Any

import numpy as np
from jaxtyping import PyTree

from t5x_like.batch import Batch
from t5x_like.index_checks import check_indices
from t5x_like.model.model_traits import traits_of
from t5x_like.model.parameters import ModelConfig
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.pretrained.transformers_api.call import Context, read_mask
from t5x_like.pretrained.transformers_api.call_arguments import numbers, token_rows
from t5x_like.pretrained.transformers_api.head_outputs import (
    choices_as_rows,
    choices_of,
    cross_entropy,
    ends_of_sequences,
    next_token_cross_entropy,
    scores_at_ends,
    scores_of,
)
from t5x_like.pretrained.transformers_api.label_arguments import read_labels

ARGUMENTS: tuple[str, ...] = (
    *("input_ids", "attention_mask", "position_ids", "labels", "start_positions", "end_positions"),
)


def read(arguments: dict[str, PyTree], context: Context) -> dict[str, PyTree]:
    """Return the checked arguments as numpy arrays by name.

    A one-dimensional ``attention_mask`` says how many tokens of each row are a prefix that all see, as in GLM, whose
    ``position_ids`` may be [B, 2, L]: positions, and positions inside a blank.
    """
    config = context.config
    arguments, num_choices = choices_as_rows(arguments, config)
    ids = token_rows(arguments["input_ids"], "input_ids", config.vocab_size)
    labels = read_labels(
        arguments,
        config,
        ids.shape,
        num_choices=choices_of(num_choices),
        are_shifted=not traits_of(config).labels_are_next_tokens,
    )
    inputs: dict[str, Any] = {"input_ids": ids, **labels, **num_choices}
    mask = arguments.get("attention_mask")
    if mask is not None and np.ndim(mask) == 1:
        inputs["prefix"] = _prefix(np.asarray(mask), ids)
    else:
        inputs |= read_mask(mask, ids)
    inputs |= _positions(arguments.get("position_ids"), ids, config)
    return inputs | ends_of_sequences(ids, inputs.get("segment_ids"), context)


def _prefix(lengths: np.ndarray, ids: np.ndarray) -> np.ndarray:
    if lengths.shape != ids.shape[:1]:
        raise ValueError(
            f"attention_mask has shape {lengths.shape}; one number a row, {ids.shape[:1]}, says how long its prefix is"
        )
    check_indices(lengths, "attention_mask of prefixes", ids.shape[1] + 1)
    return (np.arange(ids.shape[1])[None] < lengths[:, None]).astype(np.int32)


def _positions(positions: object, ids: np.ndarray, config: ModelConfig) -> dict[str, np.ndarray]:
    if positions is None:
        return {}
    positions = numbers(positions, "position_ids").astype(np.int32)
    if positions.shape == ids.shape:
        read = {"position_ids": positions}
    elif positions.shape == (ids.shape[0], 2, ids.shape[1]):
        read = {"position_ids": positions[:, 0], "block_position_ids": positions[:, 1]}
    else:
        read = {}
    embeddings = traits_of(config).embeddings
    for name, table in (("position_ids", "positions"), ("block_position_ids", "block_positions")):
        learned = None if embeddings is None else getattr(embeddings, table)
        if learned is not None and name in read:
            check_indices(read[name], "position_ids", learned.max_position_embeddings)
    if read:
        return read
    raise ValueError(
        f"position_ids has shape {positions.shape}, input_ids {ids.shape}; give one for each token"
    )


def compute(model: Any, config: CommonConfig, inputs: dict[str, PyTree]) -> dict[str, PyTree]:
    """Return outputs under transformers' names."""
    stream = "encoder" if model.heads.scores else "decoder"  # rows for a head have the encoder's stream only
    tokens, segments, positions = (
        f"{stream}_{field}" for field in ("input_tokens", "segment_ids", "positions")
    )
    batch = Batch(
        **{
            tokens: inputs["input_ids"],
            segments: inputs.get("segment_ids"),
            positions: inputs.get("position_ids"),
        },
        block_positions=inputs.get("block_position_ids"),
        prefix=inputs.get("prefix"),
        attention_mask=inputs.get("attention_mask"),
    )
    predictions = model(batch)
    scores = scores_at_ends(model, predictions.decoder_output, inputs) or predictions.heads
    outputs = {"last_hidden_state": predictions.decoder_output}
    # GLM's labels are those of the position itself.
    shifted = traits_of(config).labels_are_next_tokens
    of_words = cross_entropy if shifted else next_token_cross_entropy
    return outputs | scores_of(config, predictions.logits, scores, inputs, of_words=of_words)
