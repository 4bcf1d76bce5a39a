"""Gemma and Gemma 2: every trait matters, and no field of their config.json is overlooked."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from t5x_like.model.families.decoder import DecoderConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.norm import RMSNormConfig
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.gemma import GEMMA
from t5x_like.model.zoo.gemma2 import GEMMA2
from t5x_like.model.zoo.weights import published_names
from tests.model.zoo.golden_models import (
    GoldenModel,
    read_golden,
    with_attention,
    with_blocks,
    with_feed_forward,
    with_rotation,
    worst_difference,
)

FIELDS: dict[str, Any] = {
    "vocab_size": 8,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_attention_heads": 16,
    "num_hidden_layers": 3,
}


@pytest.fixture(scope="module")
def first(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/gemma", GEMMA, lambda config: config.decoder)


@pytest.fixture(scope="module")
def second(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/gemma2", GEMMA2, lambda config: config.decoder)


def with_words(family: DecoderConfig, **changes: Any) -> DecoderConfig:
    assert family.heads.lm_head is not None
    words = dataclasses.replace(family.heads.lm_head, **changes)
    return dataclasses.replace(family, heads=dataclasses.replace(family.heads, lm_head=words))


def with_plain_scales(family: DecoderConfig) -> DecoderConfig:
    family = with_blocks(family, lambda block: dataclasses.replace(block, norm=RMSNormConfig()))
    return dataclasses.replace(family, stack=dataclasses.replace(family.stack, final_norm=RMSNormConfig()))


def with_small_words(family: DecoderConfig) -> DecoderConfig:
    return dataclasses.replace(family, embeddings=dataclasses.replace(family.embeddings, scale=1.0))


def with_window(family: DecoderConfig, window: SlidingWindow) -> DecoderConfig:
    def change(block: BlockConfig) -> BlockConfig:
        if block.attention.window is None:
            return block
        return dataclasses.replace(block, attention=dataclasses.replace(block.attention, window=window))

    return with_blocks(family, change)


def with_blocks_in(family: DecoderConfig, order: tuple[int, ...]) -> DecoderConfig:
    blocks = tuple(family.stack.blocks[layer] for layer in order)
    return dataclasses.replace(family, stack=dataclasses.replace(family.stack, blocks=blocks))


@pytest.mark.parametrize(
    "change",
    [with_plain_scales, with_small_words, lambda family: with_feed_forward(family, activation="gelu")],
    ids=["scales from zero", "small words", "exact gelu"],
)
def test_every_trait_of_the_first_matters(first: GoldenModel, change: Callable[[Any], Any]) -> None:
    # The two kinds of GELU are near each other: the references' README says 3e-4 and more.
    assert worst_difference(first, change(first.family)) > 5e-4


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_attention(family, attention_logit_soft_cap=None),
        lambda family: with_attention(family, attention_scale=14**-0.5),
        lambda family: with_window(family, SlidingWindow(left=100)),
        lambda family: with_window(family, SlidingWindow(left=6)),
        lambda family: with_blocks_in(family, (1, 0, 3, 2)),
        lambda family: with_rotation(family, rope_theta=1e6),
        lambda family: with_words(family, final_logit_soft_cap=None),
        with_plain_scales,
    ],
    ids=[
        "no score cap",
        "the head's scale",
        "no window",
        "a token more",
        "the other layers windowed",
        "another theta",
        "no logit cap",
        "scales from zero",
    ],
)
def test_every_trait_of_the_second_matters(second: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(second, change(second.family)) > 1e-3


def test_unchanged_traits_give_the_recorded_logits(first: GoldenModel, second: GoldenModel) -> None:
    assert worst_difference(first, first.family) < 2e-5
    assert worst_difference(second, second.family) < 2e-5


@pytest.mark.parametrize("zoo", [GEMMA, GEMMA2])
def test_absent_fields_have_the_defaults_of_transformers(zoo: Architecture) -> None:
    config = zoo.from_hugging_face(FIELDS)
    assert (config.head_dim, config.tie_word_embeddings, config.activation) == (256, True, "gelu_tanh")
    assert config.num_kv_heads == (16 if zoo is GEMMA else 4)
    assert zoo.from_hugging_face(zoo.to_hugging_face(config)) == config


def test_the_first_files_meant_tanh_by_gelu() -> None:
    assert GEMMA.from_hugging_face({**FIELDS, "hidden_act": "gelu"}).activation == "gelu_tanh"
    both = {**FIELDS, "hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh"}
    assert GEMMA.from_hugging_face(both).activation == "gelu_tanh"
    assert GEMMA.from_hugging_face({**FIELDS, "hidden_act": "relu"}).activation == "relu"
    with pytest.raises(ValueError, match="hidden_act is 'mish'"):
        GEMMA.from_hugging_face({**FIELDS, "hidden_act": "mish"})


@pytest.mark.parametrize(
    ("name", "other"), [("gelu", "gelu"), ("gelu_pytorch_tanh", "gelu"), ("relu", "gelu_pytorch_tanh")]
)
def test_two_fields_for_different_functions_are_refused(name: str, other: str) -> None:
    """transformers 5 computes the first, 4 the second."""
    fields = {**FIELDS, "hidden_act": name, "hidden_activation": other}
    with pytest.raises(ValueError, match=f"hidden_act is '{name}'.* hidden_activation is '{other}'"):
        GEMMA.from_hugging_face(fields)


def test_the_exact_gelu_is_written_so_that_every_version_computes_it() -> None:
    config = dataclasses.replace(GEMMA.from_hugging_face(FIELDS), activation="gelu")
    written = GEMMA.to_hugging_face(config)
    assert (written["hidden_act"], written["hidden_activation"]) == ("gelu_python", "gelu")
    assert GEMMA.from_hugging_face(written) == config


@pytest.mark.parametrize("zoo", [GEMMA, GEMMA2])
def test_queries_keys_values_and_the_way_back_may_have_biases(zoo: Architecture) -> None:
    config = zoo.from_hugging_face(
        {**FIELDS, "attention_bias": True, "use_bidirectional_attention": False, "tie_word_embeddings": True}
    )
    assert zoo.from_hugging_face(zoo.to_hugging_face(config)) == config
    names = {name for row in zoo.hugging_face_weights(config) for name in published_names(row)}
    assert {f"model.layers.0.self_attn.{part}_proj.bias" for part in "qkvo"} <= names


def test_every_other_layer_of_the_second_has_a_window() -> None:
    older = GEMMA2.from_hugging_face({**FIELDS, "sliding_window": 6})
    windows = [block.attention.window for block in older.decoder.stack.blocks]
    assert windows == [SlidingWindow(left=5), None, SlidingWindow(left=5)]
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    assert GEMMA2.from_hugging_face({**FIELDS, "sliding_window": 6, "layer_types": kinds}) == older


def test_caps_may_be_null() -> None:
    config = GEMMA2.from_hugging_face(
        {**FIELDS, "attn_logit_softcapping": None, "final_logit_softcapping": 4}
    )
    assert (config.attention_logit_soft_cap, config.final_logit_soft_cap) == (None, 4.0)
    assert GEMMA2.from_hugging_face(GEMMA2.to_hugging_face(config)) == config


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"layer_types": ["full_attention"] * 3}, "layer_types is"),
        ({"use_bidirectional_attention": True}, "use_bidirectional_attention is true"),
        ({"sliding_window": None}, "sliding_window is null"),
        ({"final_norm_swirl": 1.5}, "final_norm_swirl = 1.5 is not known"),
    ],
)
def test_what_we_cant_express_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GEMMA2.from_hugging_face({**FIELDS, **wrong})


@pytest.mark.parametrize(("scalar", "written"), [(256.0, "256"), (0.5, "0.5")])
def test_a_whole_scalar_is_written_as_an_integer(scalar: float, written: str) -> None:
    # transformers 5.24 refuses 256.0 where published files have 256.
    config = dataclasses.replace(GEMMA2.from_hugging_face(FIELDS), query_pre_attn_scalar=scalar)
    assert repr(GEMMA2.to_hugging_face(config)["query_pre_attn_scalar"]) == written
