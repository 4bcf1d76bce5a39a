"""GPT: every trait matters, and no field of its config.json is overlooked."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from t5x_like.model.zoo.openai_gpt import OPENAI_GPT
from tests.model.zoo.golden_models import (
    GoldenModel,
    read_golden,
    with_attention,
    with_blocks,
    with_feed_forward,
    worst_difference,
)

FIELDS: dict[str, Any] = {"vocab_size": 8, "n_embd": 8, "n_head": 2, "n_layer": 1}


@pytest.fixture(scope="module")
def model(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/openai_gpt", OPENAI_GPT, lambda config: config.decoder)


def with_pre_norms(model: GoldenModel) -> GoldenModel:
    """The recorded norms before each layer, where GPT-2 has them."""
    layers = model.params["decoder"]["layers"]["0"]
    moved = {
        name: {"before": layers[name]["final"]}
        for name in ("self_attention_residual", "feed_forward_residual")
    }
    family = with_blocks(
        model.family,
        lambda block: dataclasses.replace(block, attention_norms=("before",), feed_forward_norms=("before",)),
    )
    params = {**model.params, "decoder": {"layers": {"0": {**layers, **moved}}}}
    return model._replace(family=family, params=params)


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_feed_forward(family, activation="gelu"),
        lambda family: with_attention(family, attention_scale=1.0),
    ],
    ids=["exact GELU", "unscaled"],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 5e-4


def test_where_norms_stand_matters(model: GoldenModel) -> None:
    moved = with_pre_norms(model)
    assert worst_difference(moved, moved.family) > 0.1


def test_what_is_read_is_written() -> None:
    config = OPENAI_GPT.from_hugging_face({**FIELDS, "afn": "relu", "n_positions": 32, "resid_pdrop": 0.2})
    assert OPENAI_GPT.from_hugging_face(OPENAI_GPT.to_hugging_face(config)) == config


def test_their_gelu_is_the_one_by_a_tanh() -> None:
    config = OPENAI_GPT.from_hugging_face(FIELDS)
    assert (config.activation, config.max_position_embeddings) == ("gelu_tanh", 512)
    assert OPENAI_GPT.to_hugging_face(config)["afn"] == "gelu"


def test_what_they_have_no_name_for_is_not_written() -> None:
    config = OPENAI_GPT.from_hugging_face(FIELDS)
    with pytest.raises(ValueError, match=r"'gelu' has no name in .*; gelu_tanh"):
        OPENAI_GPT.to_hugging_face(dataclasses.replace(config, activation="gelu"))
    with pytest.raises(ValueError, match="mlp_dim=24 can't be written"):
        OPENAI_GPT.to_hugging_face(dataclasses.replace(config, mlp_dim=24))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"surprise": 3}, "surprise = 3 is not known"),
        ({"afn": "gelu_new"}, "afn is 'gelu_new'; gelu, relu"),
        ({"n_inner": 16}, "n_inner = 16 is not known"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings is False"),
        ({"architectures": ["OpenAIGPTForMaskedLM"]}, "no head for OpenAIGPTForMaskedLM"),
    ],
)
def test_what_we_cant_express_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OPENAI_GPT.from_hugging_face({**FIELDS, **wrong})
