"""Recorded models of one stack: their weights in a model of ours, as configured or with one trait changed."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.families.decoder import Decoder, DecoderConfig
from t5x_like.model.families.encoder import Encoder, EncoderConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.rotary import Rotary
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.weights import read_weights, source_of
from tests.references import read_arrays

# The least fields of a config.json under BERT's and Llama's names.
SMALL_FIELDS: dict[str, Any] = {
    "vocab_size": 8,
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
}


class GoldenModel(NamedTuple):
    """``family`` is the built configuration, whose traits can be changed."""

    family: Any
    params: Any
    recorded: Any


def read_golden(directory: Path, architecture: Architecture, family_of: Callable[[Any], Any]) -> GoldenModel:
    """The model in ``directory``."""
    config = architecture.from_hugging_face(fields_of(directory))
    params = read_weights(
        architecture.hugging_face_weights(config),
        parameters.abstract(config)[1],
        source_of(load_file(directory / "model.safetensors"), str(directory)),
        place=lambda _, array: jnp.asarray(np.asarray(array)),
        unused=architecture.unused_weights,
    )
    return GoldenModel(family_of(config), params, read_arrays(directory / "io.npz"))


def fields_of(directory: Path, name: str = "config.json") -> dict[str, Any]:
    """A ``config.json``."""
    return json.loads((directory / name).read_text())


def worst_difference(model: GoldenModel, family: DecoderConfig | EncoderConfig) -> float:
    """How far the logits of ``family`` with the model's weights lie from the recorded ones, at real tokens."""
    ids, mask = model.recorded["in_input_ids"], model.recorded["in_attention_mask"]
    is_decoder = isinstance(family, DecoderConfig)
    stream = "decoder" if is_decoder else "encoder"
    batch = Batch(**{f"{stream}_input_tokens": jnp.asarray(ids), f"{stream}_segment_ids": jnp.asarray(mask)})

    def build(key: jax.Array) -> Decoder | Encoder:
        return Decoder(family, key=key) if isinstance(family, DecoderConfig) else Encoder(family, key=key)

    graphdef, _ = parameters.split(jax.eval_shape(build, jax.random.key(0)))
    logits = jax.jit(lambda params: parameters.merge(graphdef, params)(batch).logits)(model.params)
    actual = np.asarray(logits)[mask == 1][:, : family.embeddings.vocab_size]
    return float(np.abs(actual - model.recorded["out_logits"][mask == 1]).max())


def with_blocks(family: Any, change: Callable[[BlockConfig], BlockConfig]) -> Any:
    """The same with every block changed."""
    blocks = tuple(map(change, family.stack.blocks))
    return dataclasses.replace(family, stack=dataclasses.replace(family.stack, blocks=blocks))


def with_attention(family: Any, **changes: Any) -> Any:
    """The same with every attention changed."""

    def change(block: BlockConfig) -> BlockConfig:
        return dataclasses.replace(block, attention=dataclasses.replace(block.attention, **changes))

    return with_blocks(family, change)


def with_rotation(family: Any, **changes: Any) -> Any:
    """The same with every rotation changed."""

    def change(block: BlockConfig) -> BlockConfig:
        assert isinstance(block.attention.positions, Rotary)
        positions = dataclasses.replace(block.attention.positions, **changes)
        return dataclasses.replace(block, attention=dataclasses.replace(block.attention, positions=positions))

    return with_blocks(family, change)


def with_feed_forward(family: Any, **changes: Any) -> Any:
    """The same with every feed-forward layer changed."""

    def change(block: BlockConfig) -> BlockConfig:
        return dataclasses.replace(block, feed_forward=dataclasses.replace(block.feed_forward, **changes))

    return with_blocks(family, change)
