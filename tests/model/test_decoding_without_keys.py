"""Families whose decoding keeps a memory, or nothing: greedy and beams, padded prompts, one token as a whole pass."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from tests.model.zoo.tiny_models import TINY

PROMPTS = np.array([[5, 6, 7, 8, 9], [11, 12, 13, 14, 15]], np.int32)


@pytest.fixture(scope="module")
def xlnet():
    config = TINY["xlnet"]
    return Pretrained(Checkpoint.in_memory(jax.jit(config.build)(jax.random.key(0)), config))


def test_xlnet_scores_the_next_token_by_a_query_at_its_place(xlnet):
    model = xlnet.model
    last, cache = model.start_cache(jnp.asarray(PROMPTS), max_new_tokens=2)
    first, cache = model.decode_step(last, cache)
    second, _ = model.decode_step(jnp.array([20, 21]), cache)
    for length, logits in ((5, first), (6, second)):
        tokens = np.concatenate([PROMPTS, [[20], [21]]], axis=1)[:, :length]
        tokens = np.pad(tokens, ((0, 0), (0, 1)))  # the token to be predicted, which nobody sees
        seen = np.broadcast_to(np.arange(length + 1) < length, (2, length + 1, length + 1))
        whole = model(Batch(encoder_input_tokens=jnp.asarray(tokens), attention_mask=jnp.asarray(seen)))
        np.testing.assert_allclose(logits, whole.logits[:, -1], rtol=1e-5, atol=1e-5)


def test_a_padded_prompt_goes_on_as_it_does_alone(xlnet):
    padded = np.concatenate([np.zeros((1, 3), np.int32), PROMPTS[:1, :2]], axis=1)
    mask = np.array([[0, 0, 0, 1, 1]])
    alone = xlnet.generate(PROMPTS[:1, :2], np.ones((1, 2)), max_new_tokens=4, eos_token_id=60)
    together = xlnet.generate(padded, mask, max_new_tokens=4, eos_token_id=60)
    np.testing.assert_array_equal(alone[:, 2:], together[:, 5:])


@pytest.mark.parametrize("name", ["xlnet", pytest.param("transfo_xl", marks=pytest.mark.slow)])
def test_beams_are_at_least_as_likely_as_the_greedy_way(name):
    config = TINY[name]
    model = Pretrained(Checkpoint.in_memory(jax.jit(config.build)(jax.random.key(1)), config))
    options = {"max_new_tokens": 3, "eos_token_id": 60, "length_penalty": 0.0}
    best = model.generate(PROMPTS, **options, num_beams=61, return_dict_in_generate=True)
    greedy = model.generate(PROMPTS, **options)
    assert best.sequences.shape[1] <= 8
    some = model.generate(PROMPTS, **options, num_beams=2, return_dict_in_generate=True)
    assert (best.sequences_scores >= some.sequences_scores - 1e-5).all()
    assert greedy.shape == (2, 8)
