"""OLMo 2: every trait matters, and no field of its config.json is overlooked."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import pytest

from t5x_like.model.layers.attention import QKNormConfig
from t5x_like.model.layers.norm import RMSNormConfig
from t5x_like.model.layers.rotary import LinearScaling
from t5x_like.model.zoo.olmo2 import OLMO2
from tests.model.zoo.golden_models import (
    GoldenModel,
    read_golden,
    with_attention,
    with_rotation,
    worst_difference,
)
from tests.references import FIXTURES

FIELDS: dict[str, Any] = {
    "vocab_size": 8,
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
}


@pytest.fixture(scope="module")
def model() -> GoldenModel:
    return read_golden(FIXTURES / "models/olmo2", OLMO2, lambda config: config.decoder)


def test_unchanged_traits_give_the_recorded_logits(model: GoldenModel) -> None:
    assert worst_difference(model, model.family) < 2e-5


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_attention(
            family, qk_norm=QKNormConfig(norm=RMSNormConfig(epsilon=1e-2), over="all_heads")
        ),
        lambda family: with_rotation(family, rope_theta=10_000.0),
    ],
    ids=["epsilon of the heads' norms", "another theta"],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 1e-3


def with_scales(model: GoldenModel, part: str, change: Callable[[jax.Array], jax.Array]) -> GoldenModel:
    """The same with the scales of norms changed whose path has ``part``."""

    def changed(path: Any, leaf: jax.Array) -> jax.Array:
        return change(leaf) if part in jax.tree_util.keystr(path) else leaf

    return model._replace(params=jax.tree_util.tree_map_with_path(changed, model.params))


@pytest.mark.parametrize(
    "part",
    ["query_norm", "key_norm", "self_attention_residual']['after", "feed_forward_residual']['after"],
)
def test_every_norm_matters(model: GoldenModel, part: str) -> None:
    assert worst_difference(with_scales(model, part, lambda scale: 2 * scale), model.family) > 1e-3


def test_the_norms_are_over_all_heads(model: GoldenModel) -> None:
    head_dim = model.family.stack.blocks[0].attention.head_dim
    by_head = with_attention(
        model.family, qk_norm=QKNormConfig(norm=RMSNormConfig(epsilon=1e-6), over="head")
    )
    first = with_scales(model, "query_norm", lambda scale: scale[..., :head_dim])
    first = with_scales(first, "key_norm", lambda scale: scale[..., :head_dim])
    assert worst_difference(first, by_head) > 1e-3


def test_absent_fields_have_the_defaults_of_transformers() -> None:
    config = OLMO2.from_hugging_face(FIELDS)
    assert (config.norm_epsilon, config.rope_theta, config.max_position_embeddings) == (1e-5, 1e4, 2048)
    assert (config.num_kv_heads, config.tie_word_embeddings, config.activation) == (2, False, "silu")
    assert OLMO2.from_hugging_face(OLMO2.to_hugging_face(config)) == config


def test_every_field_is_written_and_read_again() -> None:
    rope = {"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0}}
    config = OLMO2.from_hugging_face({**FIELDS, **rope, "attention_bias": True, "num_key_value_heads": 1})
    assert config.rope_scaling == LinearScaling(factor=2.0)
    assert OLMO2.from_hugging_face(OLMO2.to_hugging_face(config)) == config
    names = {row.hf_name.rpartition("self_attn.")[2] for row in OLMO2.hugging_face_weights(config)}
    assert {"q_proj.bias", "o_proj.bias", "q_norm.weight", "k_norm.weight"} <= names


def test_it_has_the_heads_that_transformers_has() -> None:
    assert OLMO2.tasks == {"causal_lm", "sequence_classification", "base"}
    config = OLMO2.from_hugging_face(FIELDS)
    assert OLMO2.to_hugging_face(dataclasses.replace(config, task="causal_lm"))["architectures"] == [
        "Olmo2ForCausalLM"
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"clip_qkv": 8.0}, "clip_qkv = 8.0 is not known"),
        ({"hidden_act": "mish"}, "hidden_act is 'mish'"),
        ({"architectures": ["Olmo2ForTokenClassification"]}, "no head for Olmo2ForTokenClassification"),
    ],
)
def test_what_we_cant_express_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OLMO2.from_hugging_face({**FIELDS, **wrong})
