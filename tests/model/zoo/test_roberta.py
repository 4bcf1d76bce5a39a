"""RoBERTa: positions count real tokens after the row of padding; heads and norms are its own."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import t5x_like
from t5x_like.model import parameters
from t5x_like.model.layers.embedding import LearnedPositions
from t5x_like.model.zoo.roberta import ROBERTA
from tests.model.zoo.golden_encoders import (
    with_embeddings,
    with_epsilon,
    with_pooler_activation,
    with_words,
    worst_difference,
)
from tests.model.zoo.golden_models import SMALL_FIELDS, GoldenModel, fields_of, read_golden, with_feed_forward
from tests.references import read_arrays

FIELDS: dict[str, Any] = {
    **SMALL_FIELDS,
    "max_position_embeddings": 514,
}


@pytest.fixture(scope="module")
def model(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/roberta_mlm", ROBERTA, lambda config: config.encoder)


def test_unchanged_traits_give_the_recorded_scores(model: GoldenModel) -> None:
    assert worst_difference(model, model.family) < 2e-5


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_feed_forward(family, activation="gelu_tanh"),
        lambda family: with_words(family, activation="tanh"),
        lambda family: with_embeddings(family, positions=LearnedPositions(max_position_embeddings=42)),
    ],
    ids=["tanh GELU", "words by a tanh", "positions from the first row"],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 1e-3


def test_padding_in_front_takes_no_positions(golden: Path) -> None:
    pretrained = t5x_like.from_pretrained(golden / "models/roberta_mlm")
    recorded = read_arrays(golden / "models/roberta_mlm/io.npz")
    ids, mask = recorded["in_input_ids"][:1, :10], np.ones((1, 10), np.int32)
    alone = pretrained(input_ids=ids, attention_mask=mask).logits
    in_front = ((0, 0), (3, 0))
    padded = pretrained(
        input_ids=np.pad(ids, in_front, constant_values=1), attention_mask=np.pad(mask, in_front)
    )
    np.testing.assert_allclose(padded.logits[:, 3:], alone, rtol=1e-5, atol=1e-5)


def test_the_epsilon_of_norms_matters(golden: Path) -> None:
    model = read_golden(golden / "models/eps_roberta", ROBERTA, lambda config: config.encoder)
    assert worst_difference(model, with_epsilon(model.family, 1e-12)) > 1e-3


def test_classifiers_read_the_first_token_through_a_tanh(golden: Path) -> None:
    model = read_golden(golden / "models/roberta_seqcls", ROBERTA, lambda config: config.encoder)
    assert worst_difference(model, with_pooler_activation(model.family, "gelu")) > 1e-2


def test_usable_positions_are_those_after_the_row_of_padding() -> None:
    config = ROBERTA.from_hugging_face(FIELDS)
    assert config.max_position_embeddings == 512
    assert config.embeddings.positions == LearnedPositions(max_position_embeddings=512, offset=2)
    moved = ROBERTA.from_hugging_face(FIELDS | {"pad_token_id": 0})
    assert moved.embeddings.positions == LearnedPositions(max_position_embeddings=513, offset=1)
    assert ROBERTA.to_hugging_face(moved)["max_position_embeddings"] == 514


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"surprise": 3}, "surprise = 3 is not known"),
        ({"position_embedding_type": "relative_key"}, "only 'absolute' is supported"),
        ({"architectures": ["RobertaForCausalLM"]}, "no head for RobertaForCausalLM"),
    ],
)
def test_what_the_model_cannot_express_is_refused_by_name(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ROBERTA.from_hugging_face(FIELDS | changed)


def test_xlm_r_is_a_roberta() -> None:
    multilingual = {"model_type": "xlm-roberta", "architectures": ["XLMRobertaForMaskedLM"]}
    english = {"model_type": "roberta", "architectures": ["RobertaForMaskedLM"]}
    assert ROBERTA.from_hugging_face(FIELDS | multilingual) == ROBERTA.from_hugging_face(FIELDS | english)


def test_written_fields_are_read_as_they_were(golden: Path) -> None:
    config = ROBERTA.from_hugging_face(fields_of(golden / "models/roberta_seqcls"))
    assert ROBERTA.from_hugging_face(ROBERTA.to_hugging_face(config)) == config


@pytest.mark.parametrize("task", sorted(set(ROBERTA.classes.values())))
def test_every_task_has_a_name_for_every_weight(task: Any) -> None:
    config = replace(ROBERTA.from_hugging_face(FIELDS), task=task)
    named = {path for row in ROBERTA.hugging_face_weights(config) for path in row.paths}
    assert named == set(parameters.flatten(parameters.abstract(config)[1]))
