"""T5Gemma: every trait matters, both stacks may differ, and no field of its config.json is overlooked."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.families.encoder_decoder import EncoderDecoderConfig
from t5x_like.model.families.family import with_decoder_stream
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.norm import RMSNormConfig
from t5x_like.model.layers.rotary import LinearScaling
from t5x_like.model.zoo.t5gemma import T5GEMMA, T5GemmaConfig
from t5x_like.model.zoo.t5gemma_stack import T5GemmaStackConfig
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from tests.model.zoo.golden_encoder_decoders import (
    batch_of,
    stepwise_difference,
    with_attention,
    with_blocks,
    with_feed_forward,
    with_stacks,
    worst_difference,
)
from tests.model.zoo.golden_models import GoldenModel, fields_of, read_golden
from tests.model.zoo.test_bart import with_embeddings
from tests.references import FIXTURES

FOLDER = FIXTURES / "models/t5gemma"
STACK = T5GemmaStackConfig(model_dim=16, mlp_dim=24, num_heads=2, num_kv_heads=1, num_layers=2, head_dim=8)
SIZE: dict[str, Any] = {"vocab_size": 8, "encoder": STACK, "decoder": STACK}


@pytest.fixture(scope="module")
def model() -> GoldenModel:
    return read_golden(FOLDER, T5GEMMA, lambda config: config.parts)


def with_cross_attention(family: EncoderDecoderConfig, **changes: Any) -> EncoderDecoderConfig:
    def change(block: Any) -> Any:
        cross = block.cross_attention
        return dataclasses.replace(block, cross_attention=cross and dataclasses.replace(cross, **changes))

    return with_blocks(family, change)


def with_window(family: EncoderDecoderConfig, window: SlidingWindow, stack: str) -> EncoderDecoderConfig:
    own = getattr(family, stack)

    def change(block: Any) -> Any:
        is_full = block.attention.window is None
        attention = block.attention if is_full else dataclasses.replace(block.attention, window=window)
        return dataclasses.replace(block, attention=attention)

    changed = dataclasses.replace(own, blocks=tuple(map(change, own.blocks)))
    return dataclasses.replace(family, **{stack: changed})


def with_plain_scales(family: EncoderDecoderConfig) -> EncoderDecoderConfig:
    family = with_blocks(family, lambda block: dataclasses.replace(block, norm=RMSNormConfig()))
    return with_stacks(family, lambda stack: dataclasses.replace(stack, final_norm=RMSNormConfig()))


def without_cap(family: EncoderDecoderConfig) -> EncoderDecoderConfig:
    assert family.heads.lm_head is not None
    head = dataclasses.replace(family.heads.lm_head, final_logit_soft_cap=None)
    return dataclasses.replace(family, heads=dataclasses.replace(family.heads, lm_head=head))


def test_unchanged_traits_give_the_recorded_scores(model: GoldenModel) -> None:
    assert worst_difference(model, model.family) < 5e-5


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_attention(family, attention_logit_soft_cap=None),
        lambda family: with_cross_attention(family, attention_logit_soft_cap=None),
        lambda family: with_attention(family, attention_scale=1.0),
        lambda family: with_cross_attention(family, attention_scale=1.0),
        lambda family: with_attention(family, positions=None),
        lambda family: with_window(family, SlidingWindow(left=4, right=3), "encoder"),
        lambda family: with_window(family, SlidingWindow(left=5), "decoder"),
        lambda family: with_embeddings(family, scale=1.0),
        lambda family: with_feed_forward(family, activation="gelu"),
        with_plain_scales,
        without_cap,
    ],
    ids=[
        *("no score cap", "no cap across", "another scale", "another scale across", "no positions"),
        *("a token less after", "a token more before", "small words", "exact gelu", "scales from zero"),
        "no logit cap",
    ],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 4e-4


def test_one_token_at_a_time_is_all_at_once(model: GoldenModel) -> None:
    config = T5GEMMA.from_hugging_face(fields_of(FOLDER))
    assert stepwise_difference(config, model.params, batch_of(model)) < 1e-5


def test_absent_fields_have_the_defaults_of_transformers() -> None:
    config = T5GEMMA.from_hugging_face({"model_type": "t5gemma", "encoder": {}, "decoder": {}})
    stack = T5GemmaStackConfig(model_dim=2304, mlp_dim=9216, num_heads=8, num_kv_heads=4, num_layers=26)
    assert config == T5GemmaConfig(
        vocab_size=256_000, encoder=stack, decoder=stack, classifier_dropout_rate=0.0
    )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"decoder": dataclasses.replace(STACK, model_dim=24, attention_logit_soft_cap=None)},
        {"encoder": dataclasses.replace(STACK, attention_bias=True, rope_scaling=LinearScaling(factor=2.0))},
        {"tie_word_embeddings": False, "final_logit_soft_cap": None},
        {"task": "token_classification", "has_decoder": False, "num_labels": 5},
        {"task": "sequence_classification", "decoder_start_token_id": 5},
        {"task": "encoding"},
    ],
)
def test_an_export_says_all_and_names_all_weights(changes: dict[str, Any]) -> None:
    options: dict[str, Any] = {**SIZE, "classifier_dropout_rate": 0.25, **changes}
    config = T5GemmaConfig(**options)
    assert T5GEMMA.from_hugging_face(T5GEMMA.to_hugging_face(config)) == config
    named = {path for row in T5GEMMA.hugging_face_weights(config) for path in row.paths}
    assert named == set(parameters.flatten(parameters.abstract(config)[1]))


def test_heads_read_vectors_of_their_stacks_width() -> None:
    wide = dataclasses.replace(STACK, model_dim=24)
    options: dict[str, Any] = {**SIZE, "encoder": wide}
    config = T5GemmaConfig(**options)
    assert config.model_dim == 16
    assert dataclasses.replace(config, task="encoding").model_dim == 24


def test_the_decoder_that_reads_the_input_again_has_read_its_last_token() -> None:
    tokens, segments = jnp.array([[5, 6, 7, 0, 0], [5, 6, 7, 8, 9]]), jnp.array([[1, 1, 1, 0, 0], [1] * 5])
    batch = Batch(encoder_input_tokens=tokens, encoder_segment_ids=segments)
    read = with_decoder_stream(batch, 2, rereads_all=True)
    np.testing.assert_array_equal(read.decoder_input_tokens, [[2, 5, 6, 7, 0], [2, 5, 6, 7, 8]])
    np.testing.assert_array_equal(read.decoder_segment_ids, [[1, 1, 1, 1, 0], [1] * 5])
    usual = with_decoder_stream(batch, 2)
    np.testing.assert_array_equal(usual.decoder_segment_ids, segments)


def test_a_sequence_is_classified_without_an_end_as_in_training() -> None:
    config = T5GemmaConfig(**SIZE, task="sequence_classification", num_labels=3)
    special = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}
    classifier = Pretrained(Checkpoint.in_memory(config.build(jax.random.key(0)), config, special))
    ids, mask = np.array([[5, 6, 7, 0]]), np.array([[1, 1, 1, 0]])
    scores = classifier(input_ids=ids, attention_mask=mask).logits
    batch = Batch(encoder_input_tokens=jnp.asarray(ids), encoder_segment_ids=jnp.asarray(mask))
    heads = classifier.model(batch).heads
    np.testing.assert_allclose(scores, heads["sequence_classification"], atol=1e-6)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"decoder": {"vocab_size": 9}}, "vocab_size is 256000 in encoder and 9 in decoder"),
        (
            {"is_encoder_decoder": False},
            "has_decoder is false, and the task 'sequence_to_sequence_lm'",
        ),
        (
            {"encoder": {"use_bidirectional_attention": True}},
            "use_bidirectional_attention = True is not known",
        ),
        ({"encoder": {"sliding_window": None}}, "sliding_window is null"),
        (
            {"decoder": {"layer_types": ["full_attention"]}},
            "layer_types is .'full_attention'.; .* of 26 layers",
        ),
        ({"architectures": ["T5GemmaForCausalLM"]}, "no head for T5GemmaForCausalLM"),
    ],
)
def test_what_we_cant_express_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        T5GEMMA.from_hugging_face({"model_type": "t5gemma", "encoder": {}, "decoder": {}, **wrong})


def test_a_stack_without_types_of_layers_is_refused() -> None:
    with pytest.raises(ValueError, match="layer_types is empty"):
        dataclasses.replace(STACK, layer_types=())


def test_there_are_no_masked_words() -> None:
    with pytest.raises(ValueError, match="T5Gemma has no head for the task 'masked_lm'"):
        T5GemmaConfig(**SIZE, task="masked_lm")
