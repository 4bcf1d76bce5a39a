"""GLM-4: every trait matters, and no field of its config.json is overlooked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from t5x_like.model.layers.rotary import LinearScaling
from t5x_like.model.zoo.glm4 import GLM4
from tests.model.zoo.golden_models import (
    GoldenModel,
    fields_of,
    read_golden,
    with_attention,
    with_rotation,
    worst_difference,
)

FIELDS: dict[str, Any] = {
    "vocab_size": 8,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_attention_heads": 4,
    "num_hidden_layers": 1,
}


@pytest.fixture(scope="module")
def model(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/glm4", GLM4, lambda config: config.decoder)


def test_unchanged_traits_give_the_recorded_logits(model: GoldenModel) -> None:
    assert worst_difference(model, model.family) < 2e-5


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_rotation(family, interleaved=False),
        lambda family: with_rotation(family, rotated_dim=12),
        lambda family: with_rotation(family, rotated_dim=4),
        lambda family: with_attention(family, attention_scale=6**-0.5),
    ],
    ids=["halves", "all dimensions", "a third of the dimensions", "scaled by what is rotated"],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 1e-3


def test_gate_and_up_are_in_this_order(model: GoldenModel) -> None:
    layers = model.params["decoder"]["layers"]["0"]
    feed = layers["feed_forward"]
    swapped = {**layers, "feed_forward": {**feed, "gate": feed["up"], "up": feed["gate"]}}
    params = {**model.params, "decoder": {**model.params["decoder"], "layers": {"0": swapped}}}
    assert worst_difference(model._replace(params=params), model.family) > 1e-3


def test_both_forms_of_the_configuration_are_one(golden: Path) -> None:
    older, newer = (fields_of(golden / "models/glm4", f"config{form}.json") for form in ("_v4", ""))
    assert GLM4.from_hugging_face(older) == GLM4.from_hugging_face(newer)


def test_absent_fields_have_the_defaults_of_transformers() -> None:
    config = GLM4.from_hugging_face(FIELDS)
    assert (config.num_kv_heads, config.head_dim, config.partial_rotary_factor, config.attention_bias) == (
        2,
        128,
        0.5,
        True,
    )
    assert config.norm_epsilon == 1.5625e-07
    assert GLM4.from_hugging_face(GLM4.to_hugging_face(config)) == config


def test_what_is_read_is_written() -> None:
    rope = {"rope_scaling": {"type": "linear", "factor": 2.0}, "partial_rotary_factor": 0.25}
    config = GLM4.from_hugging_face({**FIELDS, **rope, "attention_bias": True})
    assert (config.rope_scaling, config.partial_rotary_factor) == (LinearScaling(factor=2.0), 0.25)
    assert GLM4.from_hugging_face(GLM4.to_hugging_face(config)) == config


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"hidden_act": "quick_gelu"}, "hidden_act is 'quick_gelu'"),
        ({"post_layer_norm": True}, "post_layer_norm = True is not known"),
        ({"rope_parameters": {"rope_type": "default", "rope_ratio": 2}}, "rope_ratio = 2 is not known"),
    ],
)
def test_what_we_cant_express_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GLM4.from_hugging_face({**FIELDS, **wrong})
