"""Recorded encoders: how far a model with the recorded weights, but perhaps another trait, misses the record."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.families.encoder import Encoder, EncoderConfig
from t5x_like.model.layers.norm import LayerNormConfig
from tests.model.zoo.golden_models import GoldenModel, with_blocks


def worst_difference(model: GoldenModel, family: EncoderConfig, **changed: Any) -> float:
    """The largest error of any score at real tokens. ``changed`` fields of the batch replace recorded ones."""
    recorded = model.recorded
    mask = recorded["in_attention_mask"]
    batch = Batch(
        encoder_input_tokens=recorded["in_input_ids"],
        encoder_segment_ids=mask,
        encoder_positions=_positions(family, recorded["in_input_ids"]),
        token_types=recorded.get("in_token_type_ids"),
        task_types=recorded.get("in_task_type_ids"),
    )._replace(**changed)
    graphdef, _ = parameters.split(jax.eval_shape(lambda key: Encoder(family, key=key), jax.random.key(0)))
    run = jax.jit(lambda params, batch: parameters.merge(graphdef, params)(batch))
    predictions = run(model.params, jax.tree.map(jnp.asarray, batch))
    actual = [] if predictions.logits is None else [predictions.logits[..., : family.embeddings.vocab_size]]
    actual += (predictions.heads or {}).values()
    names = ("out_prediction_logits", "out_logits", "out_seq_relationship_logits", "out_sop_logits")
    wanted = [recorded[name] for name in names if name in recorded]
    assert len(actual) == len(wanted) > 0
    return max(_error(np.asarray(got), want, mask) for got, want in zip(actual, wanted, strict=True))


def _error(actual: np.ndarray, wanted: np.ndarray, mask: np.ndarray) -> float:
    error = np.abs(actual.reshape(wanted.shape) - wanted)
    return float((error[mask == 1] if wanted.shape[:2] == mask.shape else error).max())


def _positions(family: EncoderConfig, ids: np.ndarray) -> np.ndarray | None:
    """Where rows for padding come first, positions count what is not padding."""
    learned = family.embeddings.positions
    if learned is None or learned.offset == 0:
        return None
    real = ids != learned.offset - 1
    return np.where(real, np.cumsum(real, axis=1) - 1, -1)


def with_embeddings(family: EncoderConfig, **changes: Any) -> EncoderConfig:
    """The same with other embeddings."""
    return dataclasses.replace(family, embeddings=dataclasses.replace(family.embeddings, **changes))


def with_epsilon(family: EncoderConfig, epsilon: float) -> EncoderConfig:
    """The same with another epsilon in every norm but that of a head."""
    norm = LayerNormConfig(epsilon=epsilon)
    return with_embeddings(
        with_blocks(family, lambda block: dataclasses.replace(block, norm=norm)), norm=norm
    )


def with_words(family: EncoderConfig, **changes: Any) -> EncoderConfig:
    """The same with another transform before the scores of words."""
    words = family.heads.lm_head
    assert words is not None
    assert words.transform is not None
    words = dataclasses.replace(words, transform=dataclasses.replace(words.transform, **changes))
    return dataclasses.replace(family, heads=dataclasses.replace(family.heads, lm_head=words))


def with_pooler(family: EncoderConfig, **changes: Any) -> EncoderConfig:
    """The same with another pooler."""
    pooler = family.heads.pooler
    assert pooler is not None
    pooler = dataclasses.replace(pooler, **changes)
    return dataclasses.replace(family, heads=dataclasses.replace(family.heads, pooler=pooler))


def with_pooler_activation(family: EncoderConfig, activation: str) -> EncoderConfig:
    """The same with another activation in the pooler."""
    pooler = family.heads.pooler
    assert pooler is not None
    assert pooler.transform is not None
    return with_pooler(family, transform=dataclasses.replace(pooler.transform, activation=activation))
