"""ERNIE: a BERT that may know which task it is trained on."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.zoo.ernie import ERNIE
from tests.model.zoo.golden_encoders import with_pooler_activation, with_words, worst_difference
from tests.model.zoo.golden_models import SMALL_FIELDS, GoldenModel, fields_of, read_golden, with_feed_forward

FIELDS: dict[str, Any] = SMALL_FIELDS


@pytest.fixture(scope="module")
def model(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/ernie_pretraining", ERNIE, lambda config: config.encoder)


def test_unchanged_traits_give_the_recorded_scores(model: GoldenModel) -> None:
    assert worst_difference(model, model.family) < 2e-5


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_feed_forward(family, activation="relu"),
        lambda family: with_words(family, activation="relu"),
        lambda family: with_pooler_activation(family, "relu"),
    ],
    ids=["relu", "words by a relu", "pools by a relu"],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 1e-3


@pytest.mark.parametrize("field", ["task_types", "token_types"])
def test_types_matter(model: GoldenModel, field: str) -> None:
    ones = np.ones_like(model.recorded["in_input_ids"])
    assert worst_difference(model, model.family, **{field: ones}) > 0.1


def test_task_types_are_there_only_where_they_are_used() -> None:
    assert ERNIE.from_hugging_face(FIELDS).num_task_types == 0
    assert ERNIE.from_hugging_face(FIELDS | {"use_task_id": True}).num_task_types == 3
    many = {"use_task_id": True, "task_type_vocab_size": 16}
    assert ERNIE.from_hugging_face(FIELDS | many).num_task_types == 16
    assert ERNIE.from_hugging_face(FIELDS | {"task_type_vocab_size": 16}).num_task_types == 0


@pytest.mark.parametrize("use_task_id", [True, False])
@pytest.mark.parametrize("task", ["base", "pretraining"])
def test_every_weight_has_a_name(task: Any, use_task_id: bool) -> None:
    config = replace(ERNIE.from_hugging_face(FIELDS | {"use_task_id": use_task_id}), task=task)
    named = {path for row in ERNIE.hugging_face_weights(config) for path in row.paths}
    assert named == set(parameters.flatten(parameters.abstract(config)[1]))
    assert ERNIE.from_hugging_face(ERNIE.to_hugging_face(config)) == config


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"surprise": 3}, "surprise = 3 is not known"),
        ({"architectures": ["ErnieForCausalLM"]}, "no head for ErnieForCausalLM"),
    ],
)
def test_what_the_model_cannot_express_is_refused_by_name(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ERNIE.from_hugging_face(FIELDS | changed)


def test_written_fields_are_read_as_they_were(golden: Path) -> None:
    config = ERNIE.from_hugging_face(fields_of(golden / "models/ernie_pretraining"))
    assert ERNIE.from_hugging_face(ERNIE.to_hugging_face(config)) == config
