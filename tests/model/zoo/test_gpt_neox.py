"""GPT-NeoX: every trait matters, and no field of its config.json is overlooked."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.zoo import gpt_neox
from t5x_like.model.zoo.gpt_neox import GPT_NEOX
from tests.model.zoo.golden_models import (
    GoldenModel,
    fields_of,
    read_golden,
    with_attention,
    with_blocks,
    with_feed_forward,
    with_rotation,
    worst_difference,
)

FIELDS: dict[str, Any] = {
    "vocab_size": 8,
    "hidden_size": 32,
    "intermediate_size": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
}


@pytest.fixture(scope="module")
def model(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/gpt_neox", GPT_NEOX, lambda config: config.decoder)


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_rotation(family, rotated_dim=2),
        lambda family: with_rotation(family, rotated_dim=12),
        lambda family: with_rotation(family, frequency_dim=None),
        lambda family: with_rotation(family, interleaved=True),
        lambda family: with_rotation(family, rope_theta=5000.0),
        lambda family: with_blocks(family, lambda block: dataclasses.replace(block, parallel=False)),
        lambda family: with_feed_forward(family, activation="gelu_tanh"),
        lambda family: with_attention(family, attention_scale=1.0),
    ],
    ids=[
        "less rotated",
        "all rotated",
        "other frequencies",
        "interleaved",
        "another theta",
        "one after another",
        "tanh GELU",
        "unscaled",
    ],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 5e-4


def test_all_forms_of_the_configuration_are_one(golden: Path) -> None:
    newer = fields_of(golden / "models/gpt_neox")
    rope = newer.pop("rope_parameters")
    own = {"rotary_pct": rope["partial_rotary_factor"], "rotary_emb_base": 10_000, "rope_scaling": None}
    both = {**own, "rope_theta": 10_000.0, "partial_rotary_factor": 0.25}
    read = GPT_NEOX.from_hugging_face({**newer, "rope_parameters": rope})
    assert (
        read == GPT_NEOX.from_hugging_face({**newer, **own}) == GPT_NEOX.from_hugging_face({**newer, **both})
    )


def test_the_first_published_file_is_read() -> None:
    older = {"attention_probs_dropout_prob": 0, "hidden_dropout_prob": 0, "hidden_act": "gelu_fast"}
    assert GPT_NEOX.from_hugging_face({**FIELDS, **older}).activation == "gelu_tanh"


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"use_parallel_residual": False, "attention_bias": False},
        {"rotary_pct": 1.0, "rotary_emb_base": 5000, "rope_scaling": {"type": "linear", "factor": 2.0}},
        {"tie_word_embeddings": True, "architectures": ["GPTNeoXForCausalLM"]},
        {"architectures": ["GPTNeoXForSequenceClassification"]},
    ],
    ids=str,
)
def test_what_is_read_is_written(changed: dict[str, Any]) -> None:
    config = GPT_NEOX.from_hugging_face({**FIELDS, **changed})
    assert GPT_NEOX.from_hugging_face(GPT_NEOX.to_hugging_face(config)) == config
    paths = [path for row in GPT_NEOX.hugging_face_weights(config) for path in row.paths]
    assert sorted(paths) == sorted(parameters.flatten(parameters.abstract(config)[1]))


def test_absent_fields_have_the_defaults_of_transformers() -> None:
    config = GPT_NEOX.from_hugging_face(FIELDS)
    assert (config.parallel, config.attention_bias, config.tie_word_embeddings, config.activation) == (
        True,
        True,
        False,
        "gelu",
    )
    assert (config.partial_rotary_factor, config.rope_theta, config.max_position_embeddings) == (
        0.25,
        10_000.0,
        2048,
    )


def test_fresh_weights_vary_as_in_the_paper() -> None:
    sizes: dict[str, Any] = {"model_dim": 128, "mlp_dim": 256, "num_heads": 4, "num_layers": 9}
    config = gpt_neox.GPTNeoXConfig(vocab_size=8, **sizes)
    params = jax.jit(lambda key: parameters.split(config.build(key))[1])(jax.random.key(0))
    layer = params["decoder"]["layers"]["0"]["feed_forward"]
    np.testing.assert_allclose(layer["down"]["kernel"].std(), 2 / (9 * 128**0.5), rtol=0.02)
    np.testing.assert_allclose(layer["up"]["kernel"].std(), (2 / (128 + 4 * 128)) ** 0.5, rtol=0.02)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"surprise": 3}, "surprise = 3 is not known"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_type is 'dynamic'"),
        ({"rotary_emb_base": 5000, "rope_theta": 10_000.0}, "rope_theta is 10000.0; only 5000.0"),
        ({"hidden_act": "mish"}, "hidden_act is 'mish'"),
        ({"architectures": ["GPTNeoXForMultipleChoice"]}, "no head for GPTNeoXForMultipleChoice"),
    ],
)
def test_what_we_cant_express_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GPT_NEOX.from_hugging_face({**FIELDS, **wrong})
