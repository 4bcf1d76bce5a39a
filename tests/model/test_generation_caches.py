"""Caches of generation: beams that change places, and inputs that are taken out, are scored as one row alone is."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model.families.ensemble import Ensemble
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.gemma2 import Gemma2Config
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.model.zoo.transfo_xl import TransfoXLConfig
from t5x_like.model.zoo.xlnet import XLNetConfig
from tests.slow_cases import slow_except

GPT2 = GPT2Config(
    vocab_size=30, model_dim=8, num_heads=2, mlp_dim=16, num_layers=1, max_position_embeddings=16
)
CONFIGS = {
    "decoder": GPT2,
    "encoder_decoder": T5Config(
        vocab_size=30, model_dim=8, mlp_dim=16, num_heads=2, head_dim=4, num_encoder_layers=1, num_decoder_layers=1
    ),
    "windows": Gemma2Config(
        vocab_size=30, model_dim=8, mlp_dim=16, num_heads=2, num_kv_heads=1, head_dim=4, num_layers=3, sliding_window=3
    ),
    "encoder": BertConfig(
        vocab_size=30, model_dim=8, mlp_dim=16, num_heads=2, num_layers=2, task="masked_lm", max_position_embeddings=16
    ),
    "recurrent": TransfoXLConfig(
        embed_dim=8,
        vocab_size=30, model_dim=8, num_heads=2, head_dim=4, mlp_dim=16, num_layers=1, memory_length=6, cutoffs=()
    ),
    "two_stream": XLNetConfig(vocab_size=30, model_dim=8, num_heads=2, head_dim=4, mlp_dim=16, num_layers=1),
}  # fmt: skip


@functools.cache
def model_of(which: str):
    if which == "ensemble":
        return Ensemble([GPT2.build(jax.random.key(seed)) for seed in (0, 1)])
    return jax.jit(CONFIGS[which].build)(jax.random.key(0))


@pytest.mark.parametrize(
    "which",
    [
        pytest.param(name, marks=() if name == "decoder" else pytest.mark.slow)
        for name in (*CONFIGS, "ensemble")
    ],
)
def test_beams_that_change_places_twice_go_on_as_their_tokens_do(which):
    model, prompts = model_of(which), jnp.asarray(np.random.default_rng(0).integers(3, 30, (2, 5)), jnp.int32)
    mask = jnp.ones((2, 5), jnp.int32).at[1, :2].set(0)
    tokens = jnp.asarray(np.random.default_rng(1).integers(3, 30, (4, 2, 3)), jnp.int32)
    moves = jnp.asarray([[[2, 0, 0], [1, 2, 1]], [[1, 1, 0], [0, 2, 0]], [[0, 1, 2], [2, 1, 0]]])

    @jax.jit
    def scores():
        first, cache = model.prefill(prompts, mask, max_new_tokens=6, start_id=0)
        _, cache = model.decode_step(first, cache)
        beams = model.reorder_cache(cache, jnp.zeros((2, 3), jnp.int32))
        paths = jnp.zeros((2, 3, 0), jnp.int32)
        for step, written in enumerate(tokens):
            result, beams = model.decode_step(written.reshape(-1), beams)
            paths = jnp.concatenate([paths, written[..., None]], axis=-1)
            if step < len(moves):
                beams = model.reorder_cache(beams, moves[step])
                paths = jnp.take_along_axis(paths, moves[step][..., None], axis=1)
        alone = []
        for beam in range(3):
            one = cache
            for step in range(len(tokens)):
                logits, one = model.decode_step(paths[:, beam, step], one)
            alone.append(logits)
        return result, jnp.stack(alone, axis=1).reshape(result.shape)

    result, expected = scores()
    assert np.abs(expected[0] - expected[1]).max() > 1e-5
    np.testing.assert_allclose(result, expected, atol=2e-6)


def test_another_number_of_beams_is_refused():
    _, cache = model_of("decoder").prefill(
        jnp.ones((2, 5), jnp.int32), jnp.ones((2, 5), jnp.int32), max_new_tokens=2, start_id=0
    )
    cache = model_of("decoder").reorder_cache(cache, jnp.zeros((2, 3), jnp.int32))
    with pytest.raises(ValueError, match="3 beams of each input can't become 2; give as many origins"):
        model_of("decoder").reorder_cache(cache, jnp.zeros((2, 2), jnp.int32))


@pytest.mark.parametrize(
    "which", slow_except([*CONFIGS, "ensemble"], ("decoder", "encoder_decoder", "recurrent", "windows"))
)
def test_a_cache_of_some_inputs_scores_them_as_the_whole_one(which):
    model = model_of(which)
    prompts = jnp.asarray(np.random.default_rng(0).integers(3, 30, (4, 5)), jnp.int32)
    mask = jnp.ones((4, 5), jnp.int32).at[1, :2].set(0)
    inputs, tokens = jnp.asarray([3, 1]), jnp.arange(3, 11)

    @jax.jit
    def scores():
        _, cache = model.prefill(prompts, mask, max_new_tokens=3, start_id=0)
        cache = model.reorder_cache(cache, jnp.zeros((4, 2), jnp.int32))  # two beams of each
        _, cache = model.decode_step(tokens, cache)
        whole, _ = model.decode_step(tokens, cache)
        of_inputs = tokens.reshape(4, 2)[inputs].reshape(-1)
        some, _ = model.decode_step(of_inputs, model.keep_inputs(cache, inputs, 4))
        return whole.reshape(4, 2, -1)[inputs].reshape(4, -1), some

    expected, result = scores()
    assert np.abs(expected[0] - expected[2]).max() > 1e-5
    np.testing.assert_allclose(result, expected, atol=1e-6)
