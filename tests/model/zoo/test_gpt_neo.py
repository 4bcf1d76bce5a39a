"""GPT-Neo: windows matter to the token, and no field of its config.json is overlooked."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.zoo.gpt_neo import GPT_NEO
from tests.model.zoo.golden_models import (
    GoldenModel,
    fields_of,
    read_golden,
    with_attention,
    with_feed_forward,
    worst_difference,
)

FIELDS: dict[str, Any] = {"vocab_size": 8, "hidden_size": 8, "num_heads": 2, "num_layers": 4}


@pytest.fixture(scope="module")
def model(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/gpt_neo", GPT_NEO, lambda config: config.decoder)


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_attention(family, attention_scale=None),
        lambda family: with_feed_forward(family, activation="gelu"),
    ],
    ids=["scaled", "exact GELU"],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 5e-4


@pytest.mark.parametrize(
    "changed", [{"window_size": 4}, {"window_size": 6}, {"attention_pattern": ("local", "global")}], ids=str
)
def test_windows_and_their_order_matter(model: GoldenModel, golden: Path, changed: dict[str, Any]) -> None:
    config = GPT_NEO.from_hugging_face(fields_of(golden / "models/gpt_neo"))
    assert worst_difference(model, dataclasses.replace(config, **changed).decoder) > 1e-3


@pytest.mark.parametrize(
    ("types", "pattern"),
    [
        ([[["global", "local"], 2]], ("global", "local")),
        ([[["global"], 4]], ("global",)),
        ([[["global"], 1], [["local"], 3]], ("global", "local", "local", "local")),
        ([[["local", "global"], 1], [["local", "global"], 1]], ("local", "global")),
    ],
)
def test_what_is_read_is_written(types: list[Any], pattern: tuple[str, ...]) -> None:
    config = GPT_NEO.from_hugging_face({**FIELDS, "attention_types": types, "window_size": 3})
    assert config.attention_pattern == pattern
    assert GPT_NEO.from_hugging_face(GPT_NEO.to_hugging_face(config)) == config


def test_absent_fields_have_the_defaults_of_transformers() -> None:
    config = GPT_NEO.from_hugging_face(FIELDS)
    assert (config.mlp_dim, config.max_position_embeddings, config.window_size) == (32, 2048, 256)
    windows = [block.attention.window for block in config.decoder.stack.blocks]
    assert windows == [None, SlidingWindow(left=255)] * 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"surprise": 3}, "surprise = 3 is not known"),
        (
            {"attention_types": [[["global", "sparse"], 2]]},
            "must say the same, global or local, of each of the 4",
        ),
        ({"attention_types": [[["global", "local"], 1]]}, "of each of the 4 layers"),
        ({"attention_layers": ["global"] * 4}, "must say the same"),
        ({"architectures": ["GPTNeoForMultipleChoice"]}, "no head for GPTNeoForMultipleChoice"),
    ],
)
def test_what_we_cant_express_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GPT_NEO.from_hugging_face({**FIELDS, **wrong})


def test_layers_are_whole_patterns() -> None:
    config = GPT_NEO.from_hugging_face(FIELDS)
    with pytest.raises(ValueError, match="num_layers=3 is not a multiple of the length of attention_pattern"):
        dataclasses.replace(config, num_layers=3)
