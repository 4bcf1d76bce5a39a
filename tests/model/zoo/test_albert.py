"""ALBERT: every trait matters, layers share what the configuration says, and only that goes into files."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.layers.sharing import Sharing
from t5x_like.model.zoo import albert
from t5x_like.model.zoo.albert import ALBERT
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
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

FIELDS: dict[str, Any] = {
    "vocab_size": 8,
    "embedding_size": 4,
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 4,
}


def with_layers(family: Any, num_layers: int) -> Any:
    sharing = Sharing(attention=(0,) * num_layers, feed_forward=(0,) * num_layers)
    stack = replace(family.stack, blocks=family.stack.blocks[:1] * num_layers, sharing=sharing)
    return replace(family, stack=stack)


@pytest.fixture(scope="module")
def model(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/albert_pretraining", ALBERT, lambda config: config.encoder)


def test_unchanged_traits_give_the_recorded_scores(model: GoldenModel) -> None:
    assert worst_difference(model, model.family) < 2e-5


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_attention(family, attention_scale=1.0),
        lambda family: with_feed_forward(family, activation="gelu"),
        lambda family: with_words(family, activation="tanh"),
        lambda family: with_pooler(family, pooling="last"),
        lambda family: with_pooler_activation(family, "gelu"),
        lambda family: with_layers(family, 4),
    ],
    ids=["unscaled", "exact GELU", "words by a tanh", "pools the last", "pools by a GELU", "a layer more"],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 5e-4


def config_of(**changes: Any) -> albert.AlbertConfig:
    return replace(ALBERT.from_hugging_face(FIELDS), **changes)


def test_hidden_states_are_those_between_groups() -> None:
    config = config_of(num_layers=2, inner_group_num=2, num_hidden_groups=2)
    pretrained = Pretrained(Checkpoint.in_memory(config.build(jax.random.key(0)), config))
    answers = pretrained(input_ids=np.ones((1, 3), np.int32), output_hidden_states=True)
    assert len(answers.hidden_states) == 3
    np.testing.assert_array_equal(answers.hidden_states[-1], answers.last_hidden_state)


def test_runs_of_layers_belong_to_a_group() -> None:
    sharing = config_of(num_hidden_groups=2).encoder.stack.sharing
    assert sharing == Sharing(attention=(0, 0, 1, 1), feed_forward=(0, 0, 1, 1))


def test_blocks_of_a_group_differ() -> None:
    sharing = config_of(num_layers=2, inner_group_num=3, num_hidden_groups=1).encoder.stack.sharing
    assert sharing == Sharing(attention=(0, 1, 2) * 2, feed_forward=(0, 1, 2) * 2)


def test_a_part_of_each_block_can_be_shared_alone() -> None:
    own, one = (0, 1, 2, 3), (0, 0, 0, 0)
    assert config_of(sharing="attention").encoder.stack.sharing == Sharing(attention=one, feed_forward=own)
    assert config_of(sharing="feed_forward").encoder.stack.sharing == Sharing(attention=own, feed_forward=one)
    assert config_of(sharing="none").encoder.stack.sharing is None


@pytest.mark.parametrize("sharing", ["attention", "feed_forward", "none"])
def test_what_files_cannot_say_is_not_written(sharing: Any) -> None:
    config = config_of(sharing=sharing)
    for write in (ALBERT.to_hugging_face, ALBERT.hugging_face_weights):
        with pytest.raises(ValueError, match=f"sharing='{sharing}' has no form in Hugging Face's files"):
            write(config)


@pytest.mark.parametrize("task", sorted(set(ALBERT.classes.values())))
def test_every_task_has_a_name_for_every_weight(task: Any) -> None:
    config = config_of(task=task, num_hidden_groups=2, inner_group_num=2)
    rows = ALBERT.hugging_face_weights(config)
    shapes = parameters.flatten(parameters.abstract(config)[1])
    assert {path for row in rows for path in row.paths} == set(shapes)
    assert all(shapes[row.paths[0]].shape[0] == len(row.layers) == 4 for row in rows if row.layers)


def test_blocks_have_the_number_of_their_group_and_their_own() -> None:
    rows = ALBERT.hugging_face_weights(config_of(num_hidden_groups=2, inner_group_num=2))
    assert next(row for row in rows if row.layers).layers == (
        "0.albert_layers.0",
        "0.albert_layers.1",
        "1.albert_layers.0",
        "1.albert_layers.1",
    )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"surprise": 3}, "surprise = 3 is not known"),
        ({"num_memory_blocks": 2}, "num_memory_blocks is 2; only 0"),
        ({"num_hidden_groups": 5}, "num_hidden_groups=5 of num_layers=4"),
        ({"architectures": ["AlbertForCausalLM"]}, "no head for AlbertForCausalLM"),
    ],
)
def test_what_the_model_cannot_express_is_refused_by_name(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ALBERT.from_hugging_face(FIELDS | changed)


def test_absent_fields_have_the_defaults_of_transformers() -> None:
    config = ALBERT.from_hugging_face(FIELDS)
    assert (config.activation, config.dropout_rate) == ("gelu_tanh", 0.0)
    assert (config.num_hidden_groups, config.inner_group_num) == (1, 1)


def test_written_fields_are_read_as_they_were(golden: Path) -> None:
    config = ALBERT.from_hugging_face(fields_of(golden / "models/albert_seqcls"))
    assert ALBERT.from_hugging_face(ALBERT.to_hugging_face(config)) == config
