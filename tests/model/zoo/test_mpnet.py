"""MPNet: its table of relative positions matters, positions follow the row of padding, and heads have their names."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import t5x_like
from t5x_like.model import parameters
from t5x_like.model.families.encoder import EncoderConfig
from t5x_like.model.layers.embedding import LearnedPositions
from t5x_like.model.zoo.mpnet import MPNET
from t5x_like.model.zoo.weights import published_shapes
from tests.model.zoo.golden_encoders import with_embeddings, with_epsilon, with_words, worst_difference
from tests.model.zoo.golden_models import SMALL_FIELDS, GoldenModel, read_golden, with_feed_forward
from tests.references import FIXTURES

FIELDS: dict[str, Any] = {**SMALL_FIELDS, "max_position_embeddings": 514}
RELATIVE = "encoder/relative_bias/table"


@pytest.fixture(scope="module")
def model() -> GoldenModel:
    return read_golden(FIXTURES / "models/mpnet", MPNET, lambda config: config.encoder)


def with_buckets(family: EncoderConfig, **changes: Any) -> EncoderConfig:
    """The same with other buckets of relative positions."""
    buckets = family.stack.relative_positions
    assert buckets is not None
    stack = replace(family.stack, relative_positions=replace(buckets, **changes))
    return replace(family, stack=stack)


def test_unchanged_traits_give_the_recorded_scores(model: GoldenModel) -> None:
    assert worst_difference(model, model.family) < 2e-5


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_buckets(family, max_distance=20),
        lambda family: with_buckets(family, num_buckets=16, num_rows=32),
        lambda family: with_epsilon(family, 0.01),
        lambda family: with_feed_forward(family, activation="gelu"),
        lambda family: with_words(family, activation="relu"),
        lambda family: with_embeddings(family, positions=LearnedPositions(max_position_embeddings=26)),
    ],
    ids=["nearer", "fewer buckets", "epsilon", "GELU", "words by a ReLU", "positions from the first row"],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 1e-3


def test_the_table_of_relative_positions_matters(model: GoldenModel) -> None:
    flat = parameters.flatten(model.params)
    without = parameters.unflatten({**flat, RELATIVE: 0 * flat[RELATIVE]})
    assert worst_difference(model._replace(params=without), model.family) > 1e-2


def test_rows_beyond_the_buckets_are_kept() -> None:
    config = MPNET.from_hugging_face({**FIELDS, "relative_attention_num_buckets": 40})
    shapes = published_shapes(MPNET.hugging_face_weights(config), parameters.abstract(config)[1])
    assert shapes["mpnet.encoder.relative_attention_bias.weight"] == (40, 2)


def test_an_untied_output_layer_has_names_of_its_own() -> None:
    config = MPNET.from_hugging_face(
        {**FIELDS, "architectures": ["MPNetForMaskedLM"], "tie_word_embeddings": False}
    )
    names = {row.hf_name for row in MPNET.hugging_face_weights(config)}
    assert {"lm_head.decoder.weight", "lm_head.decoder.bias"} <= names
    assert "lm_head.bias" not in names


def test_a_sentence_encoder_is_read_without_its_words(tmp_path: Path) -> None:
    """Files of sentence encoders name the class that they were trained from, and have no prefix."""
    weights = load_file(FIXTURES / "models/mpnet/model.safetensors")
    weights = {name.removeprefix("mpnet."): each for name, each in weights.items() if "lm_head" not in name}
    weights |= {
        "pooler.dense.weight": np.zeros((24, 24), np.float32),
        "pooler.dense.bias": np.ones(24, np.float32),
    }
    save_file(weights, tmp_path / "model.safetensors")
    shutil.copy(FIXTURES / "models/mpnet/config.json", tmp_path)
    answer = t5x_like.from_pretrained(tmp_path, task="base")(input_ids=np.array([[5, 6, 7]]))
    trained = t5x_like.from_pretrained(FIXTURES / "models/mpnet")
    wanted = trained(input_ids=np.array([[5, 6, 7]])).last_hidden_state
    np.testing.assert_allclose(answer.last_hidden_state, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(answer.pooler_output, np.tanh(1.0), atol=1e-6)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"pad_token_id": 0}, "pad_token_id is 0; only 1 is supported"),
        ({"type_vocab_size": 2}, "type_vocab_size = 2 is not known"),
        ({"relative_attention_num_buckets": 16}, "a table of 16 relative positions"),
        ({"architectures": ["MPNetForCausalLM"]}, "no head for MPNetForCausalLM"),
    ],
)
def test_what_the_model_cannot_express_is_refused_by_name(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MPNET.from_hugging_face(FIELDS | changed)


@pytest.mark.parametrize("changed", [{"num_token_types": 2}, {"pad_token_id": 0}])
def test_what_its_files_have_no_field_for_is_not_written(changed: dict[str, Any]) -> None:
    config = replace(MPNET.from_hugging_face(FIELDS), **changed)
    with pytest.raises(ValueError, match="can't be written"):
        MPNET.to_hugging_face(config)


@pytest.mark.parametrize("task", sorted(set(MPNET.classes.values())))
def test_every_task_has_a_name_for_every_weight(task: Any) -> None:
    config = replace(MPNET.from_hugging_face(FIELDS), task=task)
    assert MPNET.from_hugging_face(MPNET.to_hugging_face(config)) == config
    named = {path for row in MPNET.hugging_face_weights(config) for path in row.paths}
    assert named == set(parameters.flatten(parameters.abstract(config)[1]))
