"""ModernBERT: every trait matters, its classifiers read what they should, and no field is overlooked."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.families.encoder import EncoderConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.rotary import Rotary
from t5x_like.model.zoo.modernbert import MODERNBERT, ModernBertConfig
from tests.model.zoo.golden_models import (
    GoldenModel,
    fields_of,
    read_golden,
    with_blocks,
    with_feed_forward,
    worst_difference,
)

FIELDS: dict[str, Any] = {
    "vocab_size": 8,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_attention_heads": 4,
    "num_hidden_layers": 4,
}


@pytest.fixture(scope="module")
def model(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/modernbert", MODERNBERT, lambda config: config.encoder)


def with_local(family: EncoderConfig, **changes: Any) -> EncoderConfig:
    """The same with the attention of local layers changed."""

    def change(block: BlockConfig) -> BlockConfig:
        if block.attention.window is None:
            return block
        return dataclasses.replace(block, attention=dataclasses.replace(block.attention, **changes))

    return with_blocks(family, change)


def with_global_theta(family: EncoderConfig) -> EncoderConfig:
    def change(block: BlockConfig) -> BlockConfig:
        if block.attention.window is not None:
            return block
        positions = Rotary(rotated_dim=12, rope_theta=10_000.0)
        return dataclasses.replace(block, attention=dataclasses.replace(block.attention, positions=positions))

    return with_blocks(family, change)


def test_unchanged_traits_give_the_recorded_logits(model: GoldenModel) -> None:
    assert worst_difference(model, model.family) < 5e-5


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda family: with_local(family, window=SlidingWindow(left=3, right=3)), marks=pytest.mark.slow
        ),
        pytest.param(
            lambda family: with_local(family, window=SlidingWindow(left=5, right=5)), marks=pytest.mark.slow
        ),
        lambda family: with_local(family, window=SlidingWindow(left=4)),
        pytest.param(
            lambda family: with_local(family, positions=Rotary(rotated_dim=12, rope_theta=160_000.0)),
            marks=pytest.mark.slow,
        ),
        with_global_theta,
        lambda family: with_feed_forward(family, activation="silu"),
    ],
    ids=[
        "a token less",
        "a token more",
        "one side",
        "global theta everywhere",
        "local theta everywhere",
        "silu",
    ],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 1e-3


def test_the_older_form_of_the_configuration_is_the_same(golden: Path) -> None:
    newer = fields_of(golden / "models/modernbert")
    older = {name: value for name, value in newer.items() if name not in ("rope_parameters", "layer_types")}
    older |= {"global_rope_theta": 160_000.0, "local_rope_theta": 10_000.0}
    assert MODERNBERT.from_hugging_face(older) == MODERNBERT.from_hugging_face(newer)


def test_what_is_read_is_written() -> None:
    wanted = {"global_rope_theta": 5e4, "local_rope_theta": None, "classifier_pooling": "mean"}
    config = MODERNBERT.from_hugging_face({**FIELDS, **wanted, "tie_word_embeddings": False})
    assert (config.global_rope_theta, config.local_rope_theta, config.classifier_pooling) == (
        5e4,
        5e4,
        "mean",
    )
    assert MODERNBERT.from_hugging_face(MODERNBERT.to_hugging_face(config)) == config
    names = {
        row.hf_name for row in MODERNBERT.hugging_face_weights(dataclasses.replace(config, task="masked_lm"))
    }
    assert "decoder.weight" in names


@pytest.mark.parametrize("task", sorted(set(MODERNBERT.classes.values())))
def test_every_task_has_a_name_for_every_weight(task: Any) -> None:
    biases = {f"{part}_bias": True for part in ("attention", "mlp", "norm", "classifier")}
    config = dataclasses.replace(MODERNBERT.from_hugging_face({**FIELDS, **biases}), task=task)
    assert MODERNBERT.from_hugging_face(MODERNBERT.to_hugging_face(config)) == config
    named = {path for row in MODERNBERT.hugging_face_weights(config) for path in row.paths}
    assert named == set(parameters.flatten(parameters.abstract(config)[1]))


def test_published_sizes_lie_in_four_slots() -> None:
    config = ModernBertConfig(vocab_size=8, model_dim=8, mlp_dim=8, num_heads=2, num_layers=22)
    first, *pattern = config.encoder.stack.layer_pattern.slots
    assert first == (0,)
    assert [layers[:2] for layers in pattern] == [(1, 4), (2, 5), (3, 6)]


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_sequences_are_classified_by_the_transformed_pool(pooling: Any) -> None:
    answer, heads = _run("sequence_classification", pooling)
    hidden = np.asarray(answer.encoder_output)
    pooled = hidden[:, 0] if pooling == "cls" else np.stack([hidden[0].mean(0), hidden[1, :3].mean(0)])
    wanted = (
        _transformed(pooled, heads["pooler"]["transform"])
        @ heads["scores"]["sequence_classification"]["projection"]["kernel"]
    )
    np.testing.assert_allclose(answer.heads["sequence_classification"], wanted, rtol=1e-5, atol=1e-5)


def test_tokens_are_classified_one_by_one() -> None:
    answer, heads = _run("token_classification", "cls")
    head = heads["scores"]["token_classification"]
    wanted = _transformed(np.asarray(answer.encoder_output), head["transform"]) @ head["projection"]["kernel"]
    np.testing.assert_allclose(answer.heads["token_classification"], wanted, rtol=1e-5, atol=1e-5)


def _run(task: Any, pooling: Any) -> tuple[Any, Any]:
    """The predictions of a fresh model for two rows, of 5 and of 3 real tokens, and its heads' weights."""
    config = ModernBertConfig(
        vocab_size=8,
        model_dim=8,
        mlp_dim=8,
        num_heads=2,
        num_layers=1,
        task=task,
        num_labels=3,
        classifier_pooling=pooling,
    )
    model = config.build(jax.random.key(0))
    batch = Batch(
        encoder_input_tokens=jnp.asarray([[1, 2, 3, 4, 5], [6, 7, 1, 0, 0]]),
        encoder_segment_ids=jnp.asarray([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]),
    )
    return jax.jit(lambda batch: model(batch))(batch), nnx.to_pure_dict(nnx.state(model))["heads"]


def _transformed(x: np.ndarray, transform: Any) -> np.ndarray:
    x = np.asarray(jax.nn.gelu(x @ transform["dense"]["kernel"], approximate=False))
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"classifier_pooling": "max"}, "classifier_pooling is 'max'; cls, mean"),
        ({"layer_types": ["full_attention"] * 4}, "layer_types is"),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0}}},
            "only theta may vary",
        ),
        ({"rope_parameters": {"rope_theta": {}}}, "rope_parameters of rope_theta are not known"),
        ({"architectures": ["ModernBertForPreTraining"]}, "no head for ModernBertForPreTraining"),
        ({"unpad": "x"}, "unpad = 'x' is not known"),
    ],
)
def test_what_we_cant_express_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MODERNBERT.from_hugging_face({**FIELDS, **wrong})
