"""ELECTRA: discriminator and generator have heads of their own, and tables as wide as they like."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.zoo import electra
from t5x_like.model.zoo.electra import ELECTRA
from tests.model.zoo.golden_encoders import with_words, worst_difference
from tests.model.zoo.golden_models import (
    GoldenModel,
    fields_of,
    read_golden,
    with_attention,
    with_feed_forward,
)

FIELDS: dict[str, Any] = {
    "vocab_size": 8,
    "embedding_size": 4,
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
}


@pytest.fixture(scope="module")
def discriminator(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/electra_disc", ELECTRA, lambda config: config.encoder)


@pytest.fixture(scope="module")
def generator(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/electra_gen", ELECTRA, lambda config: config.encoder)


def with_replaced(family: Any, activation: str) -> Any:
    (scores,) = family.heads.scores
    scores = replace(scores, transform=replace(scores.transform, activation=activation))
    return replace(family, heads=replace(family.heads, scores=(scores,)))


def test_unchanged_traits_give_the_recorded_scores(
    discriminator: GoldenModel, generator: GoldenModel
) -> None:
    assert worst_difference(discriminator, discriminator.family) < 2e-5
    assert worst_difference(generator, generator.family) < 2e-5


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_attention(family, attention_scale=1.0),
        lambda family: with_feed_forward(family, activation="relu"),
        lambda family: with_replaced(family, "tanh"),
    ],
    ids=["unscaled", "relu", "tanh in the head"],
)
def test_every_trait_of_the_discriminator_matters(
    discriminator: GoldenModel, change: Callable[[Any], Any]
) -> None:
    assert worst_difference(discriminator, change(discriminator.family)) > 5e-4


def test_even_the_kind_of_gelu_shows(discriminator: GoldenModel) -> None:
    other = with_feed_forward(with_replaced(discriminator.family, "gelu_tanh"), activation="gelu_tanh")
    assert worst_difference(discriminator, other) > 2e-4  # recorded as 3e-4: what shows least of all


def test_the_generators_head_and_types_matter(generator: GoldenModel) -> None:
    assert worst_difference(generator, with_words(generator.family, activation="tanh")) > 1e-2
    ones = np.ones_like(generator.recorded["in_input_ids"])
    assert worst_difference(generator, generator.family, token_types=ones) > 0.1


def test_tables_as_wide_as_the_stream_are_not_projected() -> None:
    narrow, wide = (ELECTRA.from_hugging_face(FIELDS | {"embedding_size": size}) for size in (4, 8))
    assert "embedding/projection/kernel" in weights_of(narrow)
    assert "embedding/projection/kernel" not in weights_of(wide)


def weights_of(config: electra.ElectraConfig) -> dict[str, Any]:
    return parameters.flatten(parameters.abstract(config)[1])


@pytest.mark.parametrize("task", sorted(set(ELECTRA.classes.values())))
def test_every_task_has_a_name_for_every_weight(task: Any) -> None:
    config = replace(ELECTRA.from_hugging_face(FIELDS), task=task)
    rows = ELECTRA.hugging_face_weights(config)
    assert {path for row in rows for path in row.paths} == set(weights_of(config))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"surprise": 3}, "surprise = 3 is not known"),
        ({"summary_type": "mean"}, "summary_type is 'mean'; only 'first'"),
        ({"architectures": ["ElectraForCausalLM"]}, "no head for ElectraForCausalLM"),
    ],
)
def test_what_the_model_cannot_express_is_refused_by_name(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ELECTRA.from_hugging_face(FIELDS | changed)


@pytest.mark.parametrize("name", ["electra_disc", "electra_gen"])
def test_written_fields_are_read_as_they_were(golden: Path, name: str) -> None:
    config = ELECTRA.from_hugging_face(fields_of(golden / "models" / name))
    assert ELECTRA.from_hugging_face(ELECTRA.to_hugging_face(config)) == config


def test_weights_are_drawn_as_wide_as_initializer_range_says() -> None:
    config = ELECTRA.from_hugging_face(FIELDS | {"initializer_range": 0.5, "vocab_size": 500})
    assert ELECTRA.to_hugging_face(config)["initializer_range"] == 0.5
    leaves = parameters.flatten(parameters.split(config.build(jax.random.key(0)))[1])
    for path in ("embedding/tokens/table", "encoder/layers/0/feed_forward/up/kernel"):
        drawn = np.asarray(leaves[path])
        assert np.std(drawn[drawn != 0]) == pytest.approx(0.5, rel=0.2), path
