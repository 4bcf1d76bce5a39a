"""A cache out of which inputs were taken scores the others as before."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model.families.ensemble import Ensemble
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.model.zoo.transfo_xl import TransfoXLConfig
from t5x_like.model.zoo.xlnet import XLNetConfig

GPT2 = GPT2Config(
    vocab_size=30, model_dim=8, num_heads=2, mlp_dim=16, num_layers=1, max_position_embeddings=16
)
CONFIGS = {
    "decoder": GPT2,
    "encoder_decoder": T5Config(
        vocab_size=30, model_dim=8, mlp_dim=16, num_heads=2, head_dim=4, num_encoder_layers=1, num_decoder_layers=1
    ),
    "recurrent": TransfoXLConfig(
        embed_dim=8,
        vocab_size=30, model_dim=8, num_heads=2, head_dim=4, mlp_dim=16, num_layers=1, memory_length=6, cutoffs=()
    ),
    "two_stream": XLNetConfig(vocab_size=30, model_dim=8, num_heads=2, head_dim=4, mlp_dim=16, num_layers=1),
}  # fmt: skip


@pytest.mark.parametrize("which", [*CONFIGS, "ensemble"])
def test_a_cache_of_some_inputs_scores_them_as_the_whole_one(which):
    if which == "ensemble":
        model = Ensemble([GPT2.build(jax.random.key(seed)) for seed in (0, 1)])
    else:
        model = CONFIGS[which].build(jax.random.key(0))
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

    expected, found = scores()
    assert np.abs(expected[0] - expected[2]).max() > 1e-5
    np.testing.assert_allclose(found, expected, atol=1e-6)
