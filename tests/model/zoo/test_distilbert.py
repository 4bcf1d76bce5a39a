"""DistilBERT: every trait matters, and no field of its config.json is overlooked."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from t5x_like.model import parameters
from t5x_like.model.zoo.distilbert import DISTILBERT
from tests.model.zoo.golden_encoders import (
    with_pooler,
    with_pooler_activation,
    with_words,
    worst_difference,
)
from tests.model.zoo.golden_models import (
    GoldenModel,
    fields_of,
    read_golden,
    with_attention,
    with_feed_forward,
)

FIELDS: dict[str, Any] = {"vocab_size": 8, "dim": 8, "hidden_dim": 16, "n_heads": 2, "n_layers": 1}


@pytest.fixture(scope="module")
def model(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/distilbert_mlm", DISTILBERT, lambda config: config.encoder)


@pytest.fixture(scope="module")
def classifier(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/distilbert_seqcls", DISTILBERT, lambda config: config.encoder)


def test_unchanged_traits_give_the_recorded_scores(model: GoldenModel, classifier: GoldenModel) -> None:
    assert worst_difference(model, model.family) < 2e-5
    assert worst_difference(classifier, classifier.family) < 2e-5


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_attention(family, attention_scale=1.0),
        lambda family: with_feed_forward(family, activation="gelu_tanh"),
        lambda family: with_words(family, activation="relu"),
    ],
    ids=["unscaled", "tanh GELU", "words by a relu"],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 5e-4


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_pooler(family, pooling="last"),
        lambda family: with_pooler_activation(family, "tanh"),
    ],
    ids=["pools the last", "pools by a tanh"],
)
def test_every_trait_of_the_classifier_matters(classifier: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(classifier, change(classifier.family)) > 1e-2


@pytest.mark.parametrize("task", sorted(set(DISTILBERT.classes.values())))
def test_every_task_has_a_name_for_every_weight(task: Any) -> None:
    config = replace(DISTILBERT.from_hugging_face(FIELDS), task=task)
    named = {path for row in DISTILBERT.hugging_face_weights(config) for path in row.paths}
    assert named == set(parameters.flatten(parameters.abstract(config)[1]))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"surprise": 3}, "surprise = 3 is not known"),
        ({"activation": "mish"}, "activation is 'mish'"),
        ({"tie_weights_": False}, "only True is supported"),
        ({"architectures": ["DistilBertForPreTraining"]}, "no head for DistilBertForPreTraining"),
    ],
)
def test_what_the_model_cannot_express_is_refused_by_name(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        DISTILBERT.from_hugging_face(FIELDS | changed)


def test_sinusoidal_positions_are_a_table_like_any() -> None:
    sinusoidal = DISTILBERT.from_hugging_face(FIELDS | {"sinusoidal_pos_embds": True})
    assert sinusoidal == DISTILBERT.from_hugging_face(FIELDS)


def test_written_fields_are_read_as_they_were(golden: Path) -> None:
    config = DISTILBERT.from_hugging_face(fields_of(golden / "models/distilbert_seqcls"))
    assert DISTILBERT.from_hugging_face(DISTILBERT.to_hugging_face(config)) == config
