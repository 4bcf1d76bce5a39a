"""The first Transformer: every trait matters, decoding needs no second look, and Marian's fields are all known."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.layers.embedding import SinusoidalPositions, sinusoids
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.zoo.transformer import TRANSFORMER
from tests.model.zoo.golden_encoder_decoders import (
    batch_of,
    stepwise_difference,
    with_attention,
    with_blocks,
    with_feed_forward,
    worst_difference,
)
from tests.model.zoo.golden_models import GoldenModel, fields_of, read_golden
from tests.references import FIXTURES

# As published for opus-mt-en-de.
FIELDS: dict[str, Any] = {
    "activation_function": "swish",
    "add_bias_logits": False,
    "add_final_layer_norm": False,
    "architectures": ["MarianMTModel"],
    "bad_words_ids": [[58100]],
    "d_model": 512,
    "decoder_attention_heads": 8,
    "decoder_ffn_dim": 2048,
    "decoder_layers": 6,
    "decoder_vocab_size": 58101,
    "encoder_attention_heads": 8,
    "encoder_ffn_dim": 2048,
    "encoder_layers": 6,
    "forced_eos_token_id": 0,
    "max_position_embeddings": 512,
    "normalize_before": False,
    "normalize_embedding": False,
    "scale_embedding": True,
    "share_encoder_decoder_embeddings": True,
    "static_position_embeddings": True,
    "vocab_size": 58101,
}


@pytest.fixture(scope="module")
def directory() -> Path:
    return FIXTURES / "models/transformer"


@pytest.fixture(scope="module")
def model(directory: Path) -> GoldenModel:
    return read_golden(directory, TRANSFORMER, lambda config: config.encoder_decoder)


def test_unchanged_traits_give_the_recorded_scores(model: GoldenModel) -> None:
    assert worst_difference(model, model.family) < 2e-5


def with_embeddings(family: Any, **changes: Any) -> Any:
    embeddings = dataclasses.replace(family.embeddings, **changes)
    return dataclasses.replace(family, embeddings=embeddings, decoder_embeddings=embeddings)


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_embeddings(family, sinusoidal_positions=None),
        lambda family: with_embeddings(family, scale=1.0),
        lambda family: with_attention(family, attention_scale=1.0),
        lambda family: with_feed_forward(family, activation="gelu"),
        lambda family: with_blocks(
            family, lambda block: dataclasses.replace(block, norm=LayerNormConfig(epsilon=1e-2))
        ),
    ],
    ids=["no positions", "unscaled words", "unscaled scores", "GELU", "epsilon"],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 5e-4


def test_one_token_at_a_time_is_all_at_once(directory: Path, model: GoldenModel) -> None:
    config = TRANSFORMER.from_hugging_face(fields_of(directory))
    assert stepwise_difference(config, model.params, batch_of(model)) < 1e-5


def test_positions_are_sines_then_cosines() -> None:
    (result,) = sinusoids(jnp.array([[0, 3]]), 6, SinusoidalPositions())
    angles = 3.0 / 10000.0 ** (np.array([0, 2, 4]) / 6)
    np.testing.assert_allclose(result[0], [0, 0, 0, 1, 1, 1])
    np.testing.assert_allclose(result[1], [*np.sin(angles), *np.cos(angles)], rtol=1e-6)


def test_what_is_read_is_written() -> None:
    config = TRANSFORMER.from_hugging_face(FIELDS)
    assert (config.activation, config.vocab_size, config.scale_embedding) == ("silu", 58101, True)
    assert TRANSFORMER.from_hugging_face(TRANSFORMER.to_hugging_face(config)) == config
    named = {path for row in TRANSFORMER.hugging_face_weights(config) for path in row.paths}
    assert named == set(parameters.flatten(parameters.abstract(config)[1]))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"normalize_before": True}, "normalize_before is True"),
        ({"static_position_embeddings": False}, "static_position_embeddings is False"),
        ({"share_encoder_decoder_embeddings": False}, "share_encoder_decoder_embeddings is False"),
        ({"decoder_vocab_size": 100}, "decoder_vocab_size is 100; only 58101"),
    ],
)
def test_what_we_cant_express_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TRANSFORMER.from_hugging_face({**FIELDS, **wrong})
