"""Mistral: the window matters to the token, and no field of its config.json is overlooked."""

from pathlib import Path
from typing import Any

import pytest

from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.zoo.mistral import MISTRAL
from tests.model.zoo.golden_models import (
    GoldenModel,
    fields_of,
    read_golden,
    with_attention,
    worst_difference,
)

FIELDS: dict[str, Any] = {
    "vocab_size": 8,
    "hidden_size": 32,
    "intermediate_size": 16,
    "num_attention_heads": 8,
    "num_hidden_layers": 1,
}


@pytest.fixture(scope="module")
def model(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/mistral", MISTRAL, lambda config: config.decoder)


def test_unchanged_traits_give_the_recorded_logits(model: GoldenModel) -> None:
    assert worst_difference(model, model.family) < 2e-5


@pytest.mark.parametrize("window", [SlidingWindow(left=4), SlidingWindow(left=6), None], ids=str)
def test_the_window_matters_to_the_token(model: GoldenModel, window: SlidingWindow | None) -> None:
    assert worst_difference(model, with_attention(model.family, window=window)) > 1e-3


def test_both_forms_of_the_configuration_are_one(golden: Path) -> None:
    older, newer = (fields_of(golden / "models/mistral", f"config{form}.json") for form in ("_v4", ""))
    assert MISTRAL.from_hugging_face(older) == MISTRAL.from_hugging_face(newer)


def test_absent_fields_have_the_defaults_of_transformers() -> None:
    config = MISTRAL.from_hugging_face(FIELDS)
    assert (
        config.num_kv_heads,
        config.sliding_window,
        config.tie_word_embeddings,
        config.max_position_embeddings,
    ) == (
        8,
        4096,
        False,
        131_072,
    )
    null = MISTRAL.from_hugging_face({**FIELDS, "num_key_value_heads": None, "sliding_window": None})
    assert (null.num_kv_heads, null.sliding_window) == (8, None)
    assert MISTRAL.from_hugging_face(MISTRAL.to_hugging_face(null)) == null


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"attention_bias": True}, "attention_bias = True is not known"),
        ({"rope_scaling": {"rope_type": "longrope"}}, "rope_type is 'longrope'"),
        ({"architectures": ["MistralForMultipleChoice"]}, "no head for MistralForMultipleChoice"),
    ],
)
def test_what_we_cant_express_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MISTRAL.from_hugging_face({**FIELDS, **wrong})
