"""BART: every trait matters, decoding needs no second look, and no field of its config.json is overlooked."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

from t5x_like.model import parameters
from t5x_like.model.layers.embedding import LearnedPositions
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.zoo.bart import BART
from tests.model.zoo.golden_encoder_decoders import (
    batch_of,
    stepwise_difference,
    with_attention,
    with_blocks,
    with_feed_forward,
    worst_difference,
)
from tests.model.zoo.golden_models import GoldenModel, fields_of, read_golden

FIELDS: dict[str, Any] = {
    "vocab_size": 8,
    "d_model": 8,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 12,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "encoder_layers": 1,
    "decoder_layers": 2,
}


@pytest.fixture(scope="module")
def model(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/bart", BART, lambda config: config.encoder_decoder)


def test_unchanged_traits_give_the_recorded_scores(model: GoldenModel) -> None:
    assert worst_difference(model, model.family) < 2e-5


def with_embeddings(family: Any, **changes: Any) -> Any:
    embeddings = dataclasses.replace(family.embeddings, **changes)
    return dataclasses.replace(family, embeddings=embeddings, decoder_embeddings=embeddings)


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_embeddings(
            family, positions=LearnedPositions(max_position_embeddings=129, offset=1)
        ),
        lambda family: with_embeddings(family, scale=48**0.5),
        lambda family: with_embeddings(family, norm=LayerNormConfig(epsilon=1e-2)),
        lambda family: with_attention(family, attention_scale=1.0),
        lambda family: with_feed_forward(family, activation="gelu_tanh"),
        lambda family: with_blocks(
            family, lambda block: dataclasses.replace(block, norm=LayerNormConfig(epsilon=1e-2))
        ),
    ],
    ids=["positions from 1", "scaled words", "epsilon before", "unscaled", "tanh GELU", "epsilon"],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 5e-4


def test_each_stack_has_positions_and_a_norm_of_its_own(model: GoldenModel) -> None:
    flat = parameters.flatten(model.params)
    entrance = {name: flat[name] for name in flat if name.startswith("embedding/") and "tokens" not in name}
    of_decoder = {name.replace("embedding/", "decoder_embedding/"): array for name, array in entrance.items()}
    assert of_decoder.keys() <= flat.keys()
    shared = model._replace(params=parameters.unflatten(flat | of_decoder))
    assert worst_difference(shared, model.family) > 1e-3


def test_the_bias_of_words_is_added(model: GoldenModel) -> None:
    """The recorded one is 0, as in published models."""
    flat = parameters.flatten(model.params)
    flat["heads/lm_head/bias"] = jnp.full_like(flat["heads/lm_head/bias"], 2.0)
    raised = model._replace(params=parameters.unflatten(flat))
    assert worst_difference(raised, model.family) == pytest.approx(2.0, abs=1e-4)


def test_one_token_at_a_time_is_all_at_once(golden: Path, model: GoldenModel) -> None:
    config = BART.from_hugging_face(fields_of(golden / "models/bart"))
    assert stepwise_difference(config, model.params, batch_of(model)) < 1e-5


@pytest.mark.parametrize(
    ("architecture", "task"),
    [
        ("BartForConditionalGeneration", "sequence_to_sequence_lm"),
        ("BartForSequenceClassification", "sequence_classification"),
        ("BartModel", "base"),
    ],
)
def test_what_is_read_is_written(architecture: str, task: str) -> None:
    config = BART.from_hugging_face({**FIELDS, "scale_embedding": True, "architectures": [architecture]})
    assert (config.task, config.num_labels, config.scale_embedding) == (task, 3, True)
    assert BART.from_hugging_face(BART.to_hugging_face(config)) == config
    named = {path for row in BART.hugging_face_weights(config) for path in row.paths}
    assert named == set(parameters.flatten(parameters.abstract(config)[1]))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"normalize_before": True}, "normalize_before is True"),
        ({"add_final_layer_norm": True}, "add_final_layer_norm is True"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings is False"),
        ({"activation_function": "mish"}, "activation_function is 'mish'"),
        ({"architectures": ["BartForCausalLM"]}, "no head for BartForCausalLM"),
        ({"num_experts": 4}, "num_experts = 4 is not known"),
        ({"encoder_attention_heads": 3}, "num_heads=3"),
    ],
)
def test_what_we_cant_express_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _ = BART.from_hugging_face({**FIELDS, **wrong}).encoder_decoder
