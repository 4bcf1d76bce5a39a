"""Prefixes and virtual tokens act as the tokens that they replace would: in full passes, while decoding, and masked."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.adapters import PrefixTuning, PromptTuning
from t5x_like.model.adapters.prefix import Prefix
from t5x_like.model.layers.attention import Attention, AttentionConfig
from t5x_like.model.layers.local_attention import local_attention
from t5x_like.model.layers.masks import SlidingWindow, combine_masks, segment_mask, window_mask
from tests.model.zoo.tiny_models import TINY, VOCAB_SIZE

CLOSE: dict[str, Any] = {"rtol": 0, "atol": 2e-5}
FIRST = np.array([7, 11, 13])  # the tokens that virtual ones copy
TOKENS = np.random.default_rng(0).integers(3, VOCAB_SIZE, (2, 8)).astype(np.int32)
WITH_FIRST = np.concatenate([np.repeat(FIRST[None], 2, axis=0), TOKENS], axis=1).astype(np.int32)
DECODERS = [
    "gpt2",
    pytest.param("llama", marks=pytest.mark.slow),
    pytest.param("gemma2", marks=pytest.mark.slow),
    pytest.param("gpt_neox", marks=pytest.mark.slow),
]


def plain(name):
    config = replace(TINY[name], dropout_rate=0.0)
    return config, parameters.split(jax.jit(config.build)(jax.random.key(3)))[1]


def prompted(name):
    """A model with virtual tokens whose vectors are those of ``FIRST``."""
    config, params = plain(name)
    config = replace(config, adapter=PromptTuning(length=len(FIRST)))
    flat = parameters.flatten(params)
    flat["embedding/prompt/vectors"] = flat["embedding/tokens/table"][FIRST]
    return config, parameters.unflatten(flat)


def call(config, params, method, *inputs, **options):
    graphdef = parameters.abstract(config)[0]

    @jax.jit
    def run(params, *inputs):
        return getattr(parameters.merge(graphdef, params), method)(*inputs, **options)

    return run(params, *inputs)


@pytest.mark.parametrize(
    "name", ["bert", *(pytest.param(name, marks=pytest.mark.slow) for name in ("albert", "roberta"))]
)
def test_an_encoder_reads_virtual_tokens_as_tokens_before_its_own(name):
    segments = np.array([[1] * 8, [1] * 5 + [0] * 3], np.int32)
    ones = np.ones((2, len(FIRST)), np.int32)
    whole = Batch(
        encoder_input_tokens=WITH_FIRST, encoder_segment_ids=np.concatenate([ones, segments], axis=1)
    )
    expected = call(*plain(name), "__call__", whole)
    result = call(
        *prompted(name), "__call__", Batch(encoder_input_tokens=TOKENS, encoder_segment_ids=segments)
    )
    real = segments > 0
    np.testing.assert_allclose(
        result.encoder_output[real], expected.encoder_output[:, len(FIRST) :][real], **CLOSE
    )
    for head, scores in (result.heads or {}).items():
        assert scores.shape[0] == 2, head


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_reads_and_continues_virtual_tokens_as_tokens_before_its_own(name):
    expected = call(*plain(name), "__call__", Batch(decoder_input_tokens=WITH_FIRST)).logits[:, len(FIRST) :]
    config, params = prompted(name)
    result = call(config, params, "__call__", Batch(decoder_input_tokens=TOKENS)).logits
    np.testing.assert_allclose(result, expected, **CLOSE)
    # The second row's prompt is shorter, and padded on the left.
    prompts, mask = TOKENS[:, :4].copy(), np.ones((2, 4), np.int32)
    prompts[1], mask[1] = [0, *TOKENS[1, :3]], [0, 1, 1, 1]
    first, cache = call(config, params, "start_cache", prompts, mask, max_new_tokens=4)
    np.testing.assert_array_equal(first, [TOKENS[0, 3], TOKENS[1, 2]])
    for place in range(3):
        tokens = np.array([TOKENS[0, 3 + place], TOKENS[1, 2 + place]])
        logits, cache = call(config, params, "decode_step", tokens, cache)
        wanted = np.stack([expected[0, 3 + place], expected[1, 2 + place]])
        np.testing.assert_allclose(logits, wanted, **CLOSE)


@pytest.mark.slow
def test_an_encoder_decoders_encoder_reads_virtual_tokens():
    outputs = TOKENS[:, ::-1].copy()
    segments = np.array([[1] * 8, [1] * 5 + [0] * 3], np.int32)
    whole = np.concatenate([np.ones((2, len(FIRST)), np.int32), segments], axis=1)
    both = Batch(encoder_input_tokens=WITH_FIRST, encoder_segment_ids=whole, decoder_input_tokens=outputs)
    expected = call(*plain("t5_1_0"), "__call__", both)
    config, params = prompted("t5_1_0")
    without_prompt = Batch(
        encoder_input_tokens=TOKENS, encoder_segment_ids=segments, decoder_input_tokens=outputs
    )
    result = call(config, params, "__call__", without_prompt)
    np.testing.assert_allclose(result.logits, expected.logits, **CLOSE)
    assert result.encoder_output.shape == (2, 8, 32)
    encoded = call(config, params, "encode", TOKENS, segments)
    cache = call(config, params, "start_cache", encoded, segments, max_length=8)
    for place in range(3):
        logits, cache = call(config, params, "decode_step", outputs[:, place], cache)
        np.testing.assert_allclose(logits, expected.logits[:, place], **CLOSE)


@pytest.mark.parametrize("name", [*DECODERS[:2], pytest.param("qwen3", marks=pytest.mark.slow)])
def test_a_prefix_acts_as_the_keys_and_values_of_tokens_before(name):
    config, params = plain(name)
    expected = call(config, params, "__call__", Batch(decoder_input_tokens=WITH_FIRST)).logits
    _, cache = call(config, params, "start_cache", WITH_FIRST[:, : len(FIRST) + 1], max_new_tokens=1)
    flat = parameters.flatten(params)
    for slot, layers in enumerate(cache.layers):
        for kind in ("keys", "values"):
            array = getattr(layers.own.keys_values, kind)[:, 0, : len(FIRST)]
            flat[f"decoder/layers/{slot}/self_attention/prefix/{kind}"] = array.reshape(*array.shape[:2], -1)
    config = replace(config, adapter=PrefixTuning(length=len(FIRST), hidden_dim=None))
    params = parameters.unflatten(flat)
    positions = np.repeat(np.arange(len(FIRST), WITH_FIRST.shape[1])[None], 2, axis=0)
    batch = Batch(decoder_input_tokens=TOKENS, decoder_positions=positions)
    result = call(config, params, "__call__", batch).logits
    np.testing.assert_allclose(result, expected[:, len(FIRST) :], **CLOSE)


@pytest.mark.parametrize("name", ["t5_1_0", pytest.param("gemma2", marks=pytest.mark.slow)])
def test_prefixes_are_there_while_decoding_and_in_packed_rows(name):
    config = replace(TINY[name], dropout_rate=0.0, adapter=PrefixTuning(length=2, hidden_dim=4))
    params = parameters.split(jax.jit(config.build)(jax.random.key(3)))[1]
    segments = np.array([[1] * 5 + [2] * 3] * 2, np.int32)
    positions = np.array([[*range(5), *range(3)]] * 2, np.int32)
    streams = {"decoder_input_tokens": TOKENS}
    packed = streams | {"decoder_segment_ids": segments, "decoder_positions": positions}
    if name == "t5_1_0":
        streams |= {"encoder_input_tokens": TOKENS}
        packed |= {"encoder_input_tokens": TOKENS, "encoder_segment_ids": segments}
    expected = call(config, params, "__call__", Batch(**{k: v[:, :5] for k, v in streams.items()})).logits
    result = call(config, params, "__call__", Batch(**packed)).logits
    np.testing.assert_allclose(result[:, :5], expected, **CLOSE)
    if name == "t5_1_0":
        encoded = call(config, params, "encode", TOKENS[:, :5])
        cache = call(config, params, "start_cache", encoded, None, max_length=5)
        places = range(5)
    else:
        _, cache = call(config, params, "start_cache", TOKENS[:, :3], max_new_tokens=3)
        places = range(2, 5)
    for place in places:
        logits, cache = call(config, params, "decode_step", TOKENS[:, place], cache)
        np.testing.assert_allclose(logits, expected[:, place], **CLOSE)


@pytest.mark.slow
def test_local_attention_attends_to_prefixes_as_full_attention_does():
    config = AttentionConfig(num_heads=2, head_dim=4, window=SlidingWindow(left=2, right=2))
    attention = Attention(config, 8, key=jax.random.key(0))
    attention.prefix = nnx.data(
        jax.tree.map(
            lambda array: 20 * array,
            Prefix(PrefixTuning(length=3, hidden_dim=None), config, key=jax.random.key(1)),
        ),
    )
    x = jax.random.normal(jax.random.key(2), (2, 14, 8))
    segments = jnp.asarray([[1] * 9 + [2] * 5, [1] * 12 + [0] * 2])
    places = jnp.arange(14)
    mask = combine_masks(segment_mask(segments, segments), window_mask(places, places, config.window))
    full = attention(x, attention.project_keys_values(x), mask=mask)
    local = local_attention(attention, x, segments, block_length=3)
    real = np.asarray(segments) > 0
    np.testing.assert_allclose(local[real], full[real], **CLOSE)
    attention.prefix = None
    assert np.abs(np.asarray(local_attention(attention, x, segments, block_length=3) - local)).max() > 0.01
