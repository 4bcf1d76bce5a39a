"""T5: every trait matters, no field of its config.json is overlooked, and what is read is written."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.families.encoder_decoder import EncoderDecoder
from t5x_like.model.layers.norm import LayerNormConfig, RMSNormConfig
from t5x_like.model.layers.positions import RelativeBuckets
from t5x_like.model.zoo import t5
from t5x_like.model.zoo.t5 import T5
from tests.model.zoo.golden_encoder_decoders import (
    with_attention,
    with_blocks,
    with_feed_forward,
    with_stacks,
    worst_difference,
)
from tests.model.zoo.golden_models import GoldenModel, fields_of, read_golden

FIELDS: dict[str, Any] = {
    "model_type": "t5",
    "vocab_size": 8,
    "d_model": 8,
    "d_ff": 16,
    "d_kv": 4,
    "num_heads": 2,
    "num_layers": 1,
}
TINY = t5.T5Config(
    vocab_size=8,
    model_dim=8,
    mlp_dim=12,
    num_heads=2,
    head_dim=4,
    num_encoder_layers=2,
    num_decoder_layers=2,
)


CENTRED = LayerNormConfig(epsilon=1e-6, bias=False)


@pytest.fixture(scope="module")
def model(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/t5_v11", T5, lambda config: config.encoder_decoder)


def test_unchanged_traits_give_the_recorded_scores(model: GoldenModel) -> None:
    assert worst_difference(model, model.family) < 2e-5


def with_buckets(family: Any, **changes: Any) -> Any:
    return with_stacks(
        family,
        lambda stack: dataclasses.replace(stack, relative_positions=RelativeBuckets(**changes)),
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_attention(family, attention_scale=None),
        lambda family: with_buckets(family, max_distance=64),
        lambda family: with_feed_forward(family, activation="gelu"),
        lambda family: with_stacks(family, lambda stack: dataclasses.replace(stack, final_norm=CENTRED)),
        lambda family: with_blocks(
            family, lambda block: dataclasses.replace(block, norm=RMSNormConfig(zero_centered=True))
        ),
    ],
    ids=["scaled", "another distance", "exact GELU", "a final norm that centres", "scales from one"],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 3e-4


def test_a_tied_head_scores_smaller_vectors(golden: Path) -> None:
    tied = read_golden(golden / "models/t5_v10", T5, lambda config: config.encoder_decoder)
    words = dataclasses.replace(tied.family.heads.lm_head, scale=1.0)
    heads = dataclasses.replace(tied.family.heads, lm_head=words)
    assert worst_difference(tied, dataclasses.replace(tied.family, heads=heads)) > 1e-3


def test_epsilon_matters(golden: Path) -> None:
    directory = golden / "models/eps_t5"
    model = read_golden(directory, T5, lambda config: config.encoder_decoder)
    other = dataclasses.replace(T5.from_hugging_face(fields_of(directory)), norm_epsilon=1e-5)
    assert worst_difference(model, other.encoder_decoder) > 5e-4


def test_the_encoder_alone_is_the_encoder_of_both() -> None:
    both = EncoderDecoder(TINY.encoder_decoder, key=jax.random.key(0))
    alone = dataclasses.replace(TINY, task="encoding")
    flat = parameters.flatten(parameters.split(both)[1])
    graphdef, shapes, _ = parameters.abstract(alone)
    params = {name: flat[name] for name in parameters.flatten(shapes)}
    ids = jnp.asarray(np.random.default_rng(0).integers(1, 8, (2, 6)))
    segments = jnp.asarray([[1] * 6, [1] * 4 + [0] * 2])
    batch = Batch(encoder_input_tokens=ids, encoder_segment_ids=segments)
    result = parameters.merge(graphdef, parameters.unflatten(params))(batch).encoder_output
    np.testing.assert_array_equal(result, both.encode(ids, segments))


@pytest.mark.parametrize(
    ("architecture", "task", "written"),
    [
        ("T5ForConditionalGeneration", "sequence_to_sequence_lm", "T5ForConditionalGeneration"),
        ("MT5ForConditionalGeneration", "sequence_to_sequence_lm", "T5ForConditionalGeneration"),
        ("T5WithLMHeadModel", "sequence_to_sequence_lm", "T5ForConditionalGeneration"),
        ("MT5EncoderModel", "encoding", "T5EncoderModel"),
        ("T5Model", "base", "T5Model"),
        ("T5ForSequenceClassification", "sequence_classification", "T5ForSequenceClassification"),
    ],
)
def test_a_class_of_transformers_is_a_task(architecture: str, task: str, written: str) -> None:
    config = T5.from_hugging_face({**FIELDS, "architectures": [architecture]})
    assert config.task == task
    assert T5.to_hugging_face(config)["architectures"] == [written]
    named = {path for row in T5.hugging_face_weights(config) for path in row.paths}
    assert named == set(parameters.flatten(parameters.abstract(config)[1]))


def test_names_of_a_classifier_have_a_prefix() -> None:
    config = dataclasses.replace(TINY, task="sequence_classification")
    names = {row.hf_name for row in T5.hugging_face_weights(config)}
    assert {"transformer.shared.weight", "classification_head.out_proj.bias"} <= names


def test_mt5_has_other_defaults() -> None:
    first, multilingual = (T5.from_hugging_face({**FIELDS, "model_type": name}) for name in ("t5", "mt5"))
    assert (first.feed_forward, first.tie_word_embeddings) == ("relu", True)
    assert (multilingual.feed_forward, multilingual.tie_word_embeddings) == ("gated_gelu", False)
    assert first.num_decoder_layers == first.num_encoder_layers == 1


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("feed_forward", ["relu", "gated_gelu"])
def test_what_is_written_is_read(tied: bool, feed_forward: Any) -> None:
    config = dataclasses.replace(
        TINY, tie_word_embeddings=tied, feed_forward=feed_forward, num_labels=3, dropout_rate=0.1
    )
    assert T5.from_hugging_face(T5.to_hugging_face(config)) == config


def test_an_encoder_alone_is_no_encoder_decoder() -> None:
    alone = {**FIELDS, "architectures": ["T5EncoderModel"]}
    assert T5.from_hugging_face({**alone, "is_encoder_decoder": False}) == T5.from_hugging_face(alone)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"architectures": ["T5ForMultipleChoice"]}, "no head for T5ForMultipleChoice"),
        ({"feed_forward_proj": "gated-silu"}, "feed_forward_proj='gated-silu'"),
        ({"feed_forward_proj": "twice-relu"}, "feed_forward_proj is 'twice-relu'"),
        ({"dense_act_fn": "gelu"}, "dense_act_fn='gelu'"),
        ({"is_encoder_decoder": False}, "is_encoder_decoder is False"),
        ({"sparse_layers": 2}, "sparse_layers = 2 is not known"),
        ({"d_kv": None}, "lacks d_kv"),
    ],
)
def test_what_we_cant_express_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        T5.from_hugging_face({**FIELDS, **wrong})
