"""Llama: every trait matters, and no field of its config.json is overlooked."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model.layers.rotary import YarnScaling
from t5x_like.model.parameters import abstract, flatten
from t5x_like.model.zoo import llama
from t5x_like.model.zoo.llama import LLAMA
from tests.model.zoo.golden_models import (
    SMALL_FIELDS,
    GoldenModel,
    fields_of,
    read_golden,
    with_attention,
    with_feed_forward,
    with_rotation,
    worst_difference,
)

FIELDS: dict[str, Any] = SMALL_FIELDS
LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


@pytest.fixture(scope="module")
def model(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/llama31", LLAMA, lambda config: config.decoder)


def test_unchanged_traits_give_the_recorded_logits(model: GoldenModel) -> None:
    assert worst_difference(model, model.family) < 1e-4


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_rotation(family, rope_scaling=None),
        lambda family: with_rotation(family, rope_theta=10_000.0),
        lambda family: with_rotation(family, interleaved=True),
        lambda family: with_attention(family, attention_scale=40**-0.5),
        lambda family: with_feed_forward(family, activation="gelu"),
    ],
    ids=["no scaling", "another theta", "interleaved", "scaled by the width", "gelu"],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 1e-3


def test_epsilon_matters(golden: Path) -> None:
    directory = golden / "models/eps_llama"
    model = read_golden(directory, LLAMA, lambda config: config.decoder)
    other = dataclasses.replace(LLAMA.from_hugging_face(fields_of(directory)), norm_epsilon=1e-5)
    assert worst_difference(model, other.decoder) > 1e-3


def test_both_forms_of_the_configuration_are_one(golden: Path) -> None:
    older, newer = (fields_of(golden / "models/llama31", f"config{form}.json") for form in ("_v4", ""))
    assert LLAMA.from_hugging_face(older) == LLAMA.from_hugging_face(newer)


@pytest.mark.parametrize(
    "rope",
    [
        {},
        {"rope_theta": 5e5, "rope_scaling": None},
        {"rope_scaling": {"type": "linear", "factor": 4.0}},
        {"rope_scaling": {"rope_type": "llama3", **LLAMA3}},
        {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.5}},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
    ],
)
def test_what_is_read_is_written(rope: dict[str, Any]) -> None:
    config = LLAMA.from_hugging_face({**FIELDS, **rope, "attention_bias": True, "head_dim": 6})
    assert LLAMA.from_hugging_face(LLAMA.to_hugging_face(config)) == config


def test_absent_fields_have_the_defaults_of_transformers() -> None:
    config = LLAMA.from_hugging_face(FIELDS)
    attention = config.decoder.stack.blocks[0].attention
    assert (attention.kv_heads, attention.head_dim, config.tie_word_embeddings, config.task) == (
        2,
        4,
        False,
        "base",
    )
    assert (config.rope_theta, config.norm_epsilon, config.max_position_embeddings) == (10_000.0, 1e-6, 2048)


def test_yarn_stretches_what_the_model_was_trained_for() -> None:
    rope = {"max_position_embeddings": 512, "rope_scaling": {"type": "yarn", "factor": 4.0}}
    scaling = LLAMA.from_hugging_face({**FIELDS, **rope}).rope_scaling
    assert scaling == YarnScaling(factor=4.0, original_max_position_embeddings=512)
    config = llama.LlamaConfig(
        **SIZES,
        rope_scaling=YarnScaling(factor=2.0, original_max_position_embeddings=64, attention_factor=1.5),
    )
    assert LLAMA.from_hugging_face(LLAMA.to_hugging_face(config)).rope_scaling == config.rope_scaling


SIZES: dict[str, Any] = {"vocab_size": 8, "model_dim": 8, "mlp_dim": 16, "num_heads": 2, "num_layers": 1}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_type is 'dynamic'; default, linear"),
        ({"rope_scaling": {"type": "linear"}}, "factor of rotary positions is absent"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0, "swirl": 1}}, "swirl = 1 is not known"),
        ({"rope_scaling": {"type": "yarn", "factor": 2.0, "truncate": False}}, "truncate is False"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor is 0.5"),
        (
            {
                "rope_scaling": {"type": "linear", "factor": 2.0},
                "rope_parameters": {"rope_type": "linear", "factor": 4.0},
            },
            "contradicts",
        ),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5 is not known"),
        ({"hidden_act": "mish"}, "hidden_act is 'mish'"),
        ({"sliding_window": 8}, "sliding_window = 8 is not known"),
        ({"architectures": ["LlamaForMultipleChoice"]}, "no head for LlamaForMultipleChoice"),
        ({"num_key_value_heads": 3}, "num_kv_heads=3"),
    ],
)
def test_what_we_cant_express_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _ = LLAMA.from_hugging_face({**FIELDS, **wrong}).decoder


def test_classes_are_read_from_the_last_real_token() -> None:
    classes = {"architectures": ["LlamaForSequenceClassification"], "num_labels": 3}
    config = LLAMA.from_hugging_face({**FIELDS, **classes})
    names = {row.hf_name: row.path for row in LLAMA.hugging_face_weights(config)}
    assert names["score.weight"] == "heads/scores/sequence_classification/projection/kernel"
    assert "lm_head.weight" not in names
    model = config.build(jax.random.key(0))
    batch = Batch(
        decoder_input_tokens=jnp.asarray([[1, 2, 3, 4], [5, 6, 0, 0]]),
        decoder_segment_ids=jnp.asarray([[1, 1, 1, 1], [1, 1, 0, 0]]),
    )
    answer = jax.jit(lambda batch: model(batch))(batch)
    assert answer.logits is None
    last = np.stack([answer.decoder_output[0, 3], answer.decoder_output[1, 1]])
    kernel = model.heads.scores["sequence_classification"].projection.kernel[...]
    np.testing.assert_allclose(answer.heads["sequence_classification"], last @ kernel, atol=1e-6)


def test_biases_have_their_names() -> None:
    config = LLAMA.from_hugging_face({**FIELDS, "attention_bias": True, "mlp_bias": True})
    names = {row.hf_name.removeprefix("model.layers.{layer}.") for row in LLAMA.hugging_face_weights(config)}
    assert {f"self_attn.{name}_proj.bias" for name in "qkvo"} <= names
    assert {f"mlp.{name}_proj.bias" for name in ("gate", "up", "down")} <= names
    paths = {path for row in LLAMA.hugging_face_weights(config) for path in row.paths}
    assert paths == set(flatten(abstract(config)[1]))
