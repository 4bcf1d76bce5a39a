"""Recorded encoder-decoders: how far a model with their weights, but perhaps another trait, misses the record."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.families.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.stack import StackConfig
from tests.model.zoo.golden_models import GoldenModel


def batch_of(model: GoldenModel, **changed: Any) -> Batch:
    """What was recorded as inputs; ``changed`` fields replace it."""
    batch = Batch(
        encoder_input_tokens=model.recorded["in_input_ids"],
        encoder_segment_ids=model.recorded["in_attention_mask"],
        decoder_input_tokens=model.recorded["in_decoder_input_ids"],
    )
    return jax.tree.map(jnp.asarray, batch._replace(**changed))


def logits_of(model: GoldenModel, family: EncoderDecoderConfig, **changed: Any) -> np.ndarray:
    """Scores of words by ``family`` with the recorded weights."""
    shapes = jax.eval_shape(lambda key: EncoderDecoder(family, key=key), jax.random.key(0))
    graphdef, _ = parameters.split(shapes)
    run = jax.jit(lambda params, batch: parameters.merge(graphdef, params)(batch).logits)
    return np.asarray(run(model.params, batch_of(model, **changed)))[..., : family.embeddings.vocab_size]


def worst_difference(model: GoldenModel, family: EncoderDecoderConfig, **changed: Any) -> float:
    """The largest error of any score of a word."""
    return float(np.abs(logits_of(model, family, **changed) - model.recorded["out_logits"]).max())


def with_stacks(
    family: EncoderDecoderConfig, change: Callable[[StackConfig], StackConfig]
) -> EncoderDecoderConfig:
    """The same with both stacks changed."""
    assert family.encoder is not None
    return dataclasses.replace(family, encoder=change(family.encoder), decoder=change(family.decoder))


def with_blocks(
    family: EncoderDecoderConfig, change: Callable[[BlockConfig], BlockConfig]
) -> EncoderDecoderConfig:
    """The same with every block changed."""
    return with_stacks(
        family, lambda stack: dataclasses.replace(stack, blocks=tuple(map(change, stack.blocks)))
    )


def with_attention(family: EncoderDecoderConfig, **changes: Any) -> EncoderDecoderConfig:
    """The same with all self-attention changed."""
    return with_blocks(
        family,
        lambda block: dataclasses.replace(block, attention=dataclasses.replace(block.attention, **changes)),
    )


def with_feed_forward(family: EncoderDecoderConfig, **changes: Any) -> EncoderDecoderConfig:
    """The same with every feed-forward layer changed."""

    def change(block: BlockConfig) -> BlockConfig:
        return dataclasses.replace(block, feed_forward=dataclasses.replace(block.feed_forward, **changes))

    return with_blocks(family, change)


def stepwise_difference(config: Any, params: Any, batch: Batch) -> float:
    """How far scores of tokens one at a time, with a cache, lie from those of all at once."""
    graphdef = parameters.abstract(config)[0]
    model = parameters.merge(graphdef, params)
    whole = jax.jit(lambda params: parameters.merge(graphdef, params)(batch).logits)(params)
    length = batch.decoder_input_tokens.shape[1]
    encoded = model.encode(batch.encoder_input_tokens, batch.encoder_segment_ids)
    cache = model.start_cache(encoded, batch.encoder_segment_ids, max_length=length)
    step, logits = jax.jit(model.decode_step), []
    for place in range(length):
        scores, cache = step(batch.decoder_input_tokens[:, place], cache)
        logits.append(scores)
    return float(np.abs(np.stack(logits, axis=1) - whole).max())
