"""Qwen 2 and Qwen 3: every trait matters, and no field of their config.json is overlooked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from t5x_like.model.layers.attention import QKNormConfig
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.norm import RMSNormConfig
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.qwen2 import QWEN2
from t5x_like.model.zoo.qwen3 import QWEN3
from tests.model.zoo.golden_models import (
    GoldenModel,
    read_golden,
    with_attention,
    with_rotation,
    worst_difference,
)

FIELDS: dict[str, Any] = {
    "vocab_size": 8,
    "hidden_size": 64,
    "intermediate_size": 16,
    "num_attention_heads": 32,
    "num_hidden_layers": 4,
}


@pytest.fixture(scope="module")
def second(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/qwen2", QWEN2, lambda config: config.decoder)


@pytest.fixture(scope="module")
def third(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/qwen3", QWEN3, lambda config: config.decoder)


def test_biases_of_the_second_matter(second: GoldenModel) -> None:
    assert worst_difference(second, second.family) < 2e-5
    layer = second.params["decoder"]["layers"]["0"]["self_attention"]
    assert "bias" not in layer["out"]
    for name in ("query", "key", "value"):
        unbiased = {**layer, name: {**layer[name], "bias": jnp.zeros_like(layer[name]["bias"])}}
        slots = second.params["decoder"]["layers"]
        slots = {**slots, "0": {**slots["0"], "self_attention": unbiased}}
        params = {**second.params, "decoder": {**second.params["decoder"], "layers": slots}}
        # Without positions a bias of all keys would fall out of the softmax; rotated, it stays.
        assert worst_difference(second._replace(params=params), second.family) > 1e-3, name


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_attention(family, qk_norm=QKNormConfig(norm=RMSNormConfig(epsilon=1e-2))),
        lambda family: with_rotation(family, rope_theta=1e6),
        lambda family: with_attention(family, window=SlidingWindow(left=3)),
    ],
    ids=["epsilon of the heads' norms", "another theta", "a window"],
)
def test_every_trait_of_the_third_matters(third: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(third, change(third.family)) > 1e-3


def test_the_third_norms_each_head_before_it_is_rotated(third: GoldenModel) -> None:
    assert worst_difference(third, third.family) < 2e-5
    double = jax.tree_util.tree_map_with_path(
        lambda path, leaf: 2 * leaf if "query_norm" in str(path) else leaf, third.params
    )
    assert worst_difference(third._replace(params=double), third.family) > 1e-3


@pytest.mark.parametrize("zoo", [QWEN2, QWEN3])
def test_late_layers_look_through_a_window(zoo: Architecture) -> None:
    wanted = {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 3}
    config = zoo.from_hugging_face({**FIELDS, **wanted})
    windows = [block.attention.window for block in config.decoder.stack.blocks]
    assert windows == [None, None, None, SlidingWindow(left=5)]
    assert zoo.from_hugging_face(zoo.to_hugging_face(config)) == config
    kinds = ["full_attention"] * 3 + ["sliding_attention"]
    assert zoo.from_hugging_face({**FIELDS, **wanted, "layer_types": kinds}) == config
    for unused in ({"use_sliding_window": False}, {"sliding_window": None}, {"max_window_layers": 28}):
        config = zoo.from_hugging_face({**FIELDS, **wanted, **unused})
        assert {block.attention.window for block in config.decoder.stack.blocks} == {None}


@pytest.mark.parametrize("zoo", [QWEN2, QWEN3])
def test_absent_fields_have_the_defaults_of_transformers(zoo: Architecture) -> None:
    config = zoo.from_hugging_face(FIELDS)
    attention = config.decoder.stack.blocks[0].attention
    assert attention.kv_heads == 32
    assert attention.head_dim == (2 if zoo is QWEN2 else 128)
    assert attention.in_bias == (zoo is QWEN2)
    assert not attention.out_bias
    assert zoo.from_hugging_face(zoo.to_hugging_face(config)) == config


@pytest.mark.parametrize("zoo", [QWEN2, QWEN3])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"layer_types": ["sliding_attention"] + ["full_attention"] * 3}, "layer_types is"),
        ({"num_experts": 4}, "num_experts = 4 is not known"),
        ({"rope_scaling": {"type": "mrope", "mrope_section": [1]}}, "rope_type is 'mrope'"),
    ],
)
def test_what_we_cant_express_is_named(zoo: Architecture, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        zoo.from_hugging_face({**FIELDS, **wrong})
