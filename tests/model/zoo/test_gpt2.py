"""GPT-2: every trait matters, and no field of its config.json is overlooked."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import pytest

from t5x_like.model import parameters
from t5x_like.model.zoo.gpt2 import GPT2
from tests.model.zoo.golden_models import (
    GoldenModel,
    fields_of,
    read_golden,
    with_attention,
    with_feed_forward,
    worst_difference,
)

FIELDS: dict[str, Any] = {"vocab_size": 8, "n_embd": 8, "n_head": 2, "n_layer": 2}


@pytest.fixture(scope="module")
def model(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/gpt2", GPT2, lambda config: config.decoder)


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_feed_forward(family, activation="gelu"),
        lambda family: with_attention(family, attention_scale=1.0),
        lambda family: with_attention(family, attention_scale=48**-0.5),
    ],
    ids=["exact GELU", "unscaled", "scaled by the width"],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 1e-3


def test_epsilon_matters(golden: Path) -> None:
    directory = golden / "models/eps_gpt2"
    model = read_golden(directory, GPT2, lambda config: config.decoder)
    other = dataclasses.replace(GPT2.from_hugging_face(fields_of(directory)), norm_epsilon=1e-6)
    assert worst_difference(model, other.decoder) > 1e-3


def test_scores_can_be_divided_by_the_number_of_the_layer(model: GoldenModel, golden: Path) -> None:
    """Queries that are larger by just this number give the recorded logits."""
    config = GPT2.from_hugging_face(fields_of(golden / "models/gpt2"))
    family = dataclasses.replace(config, scale_attn_by_inverse_layer_idx=True).decoder
    assert [block.attention.scale for block in family.stack.blocks] == [12**-0.5 / n for n in (1, 2, 3)]
    params = dict(model.params)
    layers = params["decoder"]["layers"]["0"]

    def layer(index: int) -> Any:
        one = jax.tree.map(lambda array: array[index : index + 1], layers)
        query = jax.tree.map(lambda array: array * (index + 1), one["self_attention"]["query"])
        return {**one, "self_attention": {**one["self_attention"], "query": query}}

    params["decoder"] = {**params["decoder"], "layers": {str(index): layer(index) for index in range(3)}}
    assert worst_difference(model._replace(params=params), family) < 2e-5


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"scale_attn_by_inverse_layer_idx": True},
        {"tie_word_embeddings": False, "architectures": ["GPT2LMHeadModel"]},
        {"architectures": ["GPT2ForSequenceClassification"], "n_inner": 12, "scale_attn_weights": False},
    ],
    ids=str,
)
def test_what_is_read_is_written(changed: dict[str, Any]) -> None:
    config = GPT2.from_hugging_face({**FIELDS, **changed})
    assert GPT2.from_hugging_face(GPT2.to_hugging_face(config)) == config
    paths = [path for row in GPT2.hugging_face_weights(config) for path in row.paths]
    assert sorted(paths) == sorted(parameters.flatten(parameters.abstract(config)[1]))


def test_absent_fields_have_the_defaults_of_transformers() -> None:
    config = GPT2.from_hugging_face(FIELDS)
    assert (config.mlp_dim, config.max_position_embeddings, config.activation) == (32, 1024, "gelu_tanh")
    assert (config.norm_epsilon, config.scale_attn_weights, config.tie_word_embeddings, config.task) == (
        1e-5,
        True,
        True,
        "base",
    )


def test_an_older_file_says_some_things_twice() -> None:
    older = {"n_ctx": 64, "n_positions": 64, "n_special": 0, "predict_special_tokens": True}
    assert GPT2.from_hugging_face({**FIELDS, **older}).max_position_embeddings == 64


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"surprise": 3}, "surprise = 3 is not known"),
        ({"n_ctx": 512}, "n_ctx is 512; only 1024 is supported"),
        ({"activation_function": "mish"}, "activation_function is 'mish'"),
        ({"add_cross_attention": True}, "add_cross_attention is True"),
        ({"architectures": ["GPT2ForMaskedLM"]}, "no head for GPT2ForMaskedLM"),
        ({"n_head": None}, "lacks n_head"),
    ],
)
def test_what_we_cant_express_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GPT2.from_hugging_face({**FIELDS, **wrong})
