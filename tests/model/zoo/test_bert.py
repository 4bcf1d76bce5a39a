"""BERT: every trait matters, and no field of its config.json is overlooked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.zoo import bert
from t5x_like.model.zoo.bert import BERT
from tests.model.zoo.golden_encoders import (
    with_epsilon,
    with_pooler,
    with_pooler_activation,
    with_words,
    worst_difference,
)
from tests.model.zoo.golden_models import (
    SMALL_FIELDS,
    GoldenModel,
    fields_of,
    read_golden,
    with_attention,
    with_feed_forward,
)

FIELDS: dict[str, Any] = SMALL_FIELDS


@pytest.fixture(scope="module")
def model(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/bert_pretraining", BERT, lambda config: config.encoder)


def test_unchanged_traits_give_the_recorded_scores(model: GoldenModel) -> None:
    assert worst_difference(model, model.family) < 2e-5


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_attention(family, attention_scale=1.0),
        lambda family: with_feed_forward(family, activation="gelu_tanh"),
        lambda family: with_words(family, activation="tanh"),
        lambda family: with_pooler(family, pooling="last"),
        lambda family: with_pooler_activation(family, "relu"),
    ],
    ids=["unscaled", "tanh GELU", "words by a tanh", "pools the last", "pools by a relu"],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 5e-4


@pytest.mark.parametrize("field", ["token_types", "encoder_segment_ids"])
def test_types_and_padding_matter(model: GoldenModel, field: str) -> None:
    ones = np.ones_like(model.recorded["in_input_ids"])
    assert worst_difference(model, model.family, **{field: ones}) > 0.1


def test_the_epsilon_of_norms_matters(golden: Path) -> None:
    model = read_golden(golden / "models/eps_bert", BERT, lambda config: config.encoder)
    assert worst_difference(model, with_epsilon(model.family, 1e-5)) > 1e-3


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"surprise": 3}, "surprise = 3 is not known"),
        ({"position_embedding_type": "relative_key"}, "only 'absolute' is supported"),
        ({"tie_word_embeddings": False}, "only True is supported"),
        ({"hidden_act": "mish"}, "hidden_act is 'mish'; relu, gelu,"),
        ({"is_decoder": True}, "is_decoder is True; only False"),
        ({"architectures": ["BertLMHeadModel"]}, "no head for BertLMHeadModel"),
        ({"problem_type": "ranking"}, "problem_type is 'ranking'"),
        ({"vocab_size": None}, "lacks vocab_size"),
    ],
)
def test_what_the_model_cannot_express_is_refused_by_name(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        BERT.from_hugging_face(FIELDS | changed)


def test_absent_fields_have_the_defaults_of_transformers() -> None:
    config = BERT.from_hugging_face(FIELDS)
    assert (config.task, config.max_position_embeddings, config.num_token_types) == ("base", 512, 2)
    assert (config.activation, config.norm_epsilon, config.dropout_rate) == ("gelu", 1e-12, 0.1)


def test_fields_without_effect_in_the_first_release_are_passed_over() -> None:
    first = {"directionality": "bidi", "pooler_fc_size": 768, "pooler_type": "first_token_transform"}
    assert BERT.from_hugging_face(FIELDS | first) == BERT.from_hugging_face(FIELDS)


def test_what_transformers_5_writes_is_read_as_what_4_wrote() -> None:
    older = {"torch_dtype": "float32", "position_embedding_type": "absolute", "use_cache": True}
    newer = {
        "dtype": "float32",
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "add_cross_attention": False,
    }
    assert BERT.from_hugging_face(FIELDS | newer) == BERT.from_hugging_face(FIELDS | older)


@pytest.mark.parametrize("name", ["bert_pretraining", "bert_qa", "bert_seqcls", "bert_tokcls", "bert_mc"])
def test_written_fields_are_read_as_they_were(golden: Path, name: str) -> None:
    config = BERT.from_hugging_face(fields_of(golden / "models" / name))
    assert BERT.from_hugging_face(BERT.to_hugging_face(config)) == config


@pytest.mark.parametrize("task", sorted(set(BERT.classes.values())))
def test_every_task_has_a_name_for_every_weight(task: Any) -> None:
    config = bert.BertConfig(vocab_size=8, model_dim=8, mlp_dim=16, num_heads=2, num_layers=2, task=task)
    named = {path for row in BERT.hugging_face_weights(config) for path in row.paths}
    assert named == set(parameters.flatten(parameters.abstract(config)[1]))


def test_a_width_that_heads_cannot_divide_is_refused() -> None:
    with pytest.raises(ValueError, match="model_dim=10 doesn't divide among num_heads=4"):
        bert.BertConfig(vocab_size=8, model_dim=10, mlp_dim=16, num_heads=4, num_layers=1)
