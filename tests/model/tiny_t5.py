"""A T5 small enough to compile in a second, and batches for it; tests of the model share their compiled functions."""

import dataclasses
import functools
from typing import Any

import jax
import numpy as np

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.families.family import Predictions
from t5x_like.model.zoo.t5 import T5Config

# Few buckets, so that sequences of a dozen tokens meet the logarithmic ones too.
TINY = T5Config(
    vocab_size=32,
    model_dim=16,
    mlp_dim=24,
    num_heads=2,
    head_dim=6,
    num_encoder_layers=2,
    num_decoder_layers=2,
    num_relative_buckets=8,
    max_relative_distance=12,
)


@functools.cache
def graphdef_of(config: T5Config) -> Any:
    return parameters.abstract(config)[0]


@functools.cache
def weights_of(config: T5Config, seed: int = 0) -> parameters.Parameters:
    """Fresh weights, built under jit: in one second, not in the five that step by step takes."""
    return _initialize(config, jax.random.key(seed))


@functools.partial(jax.jit, static_argnums=0)
def _initialize(config: T5Config, key: jax.Array) -> parameters.Parameters:
    return parameters.split(config.build(key))[1]


@functools.partial(jax.jit, static_argnums=0)
def predict(config: T5Config, params, batch: Batch, dropout_key=None) -> Predictions:
    model = parameters.merge(graphdef_of(config), params)
    return model(batch, dropout_key=dropout_key)


def logits_of(batch: Batch, config: T5Config = TINY, params=None, dropout_key=None) -> np.ndarray:
    """Of the words; the table's further rows score next to nothing."""
    params = weights_of(TINY) if params is None else params
    return np.asarray(predict(config, params, batch, dropout_key).logits)[..., : config.vocab_size]


def random_tokens(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(2, TINY.vocab_size, shape).astype(np.int32)


def random_batch(rows: int = 2, inputs: int = 11, targets: int = 9, seed: int = 0) -> Batch:
    return Batch(
        encoder_input_tokens=random_tokens(rows, inputs, seed=seed),
        decoder_input_tokens=random_tokens(rows, targets, seed=seed + 1),
    )


def changed(**fields: Any) -> T5Config:
    """``TINY`` with other values."""
    return dataclasses.replace(TINY, **fields)
