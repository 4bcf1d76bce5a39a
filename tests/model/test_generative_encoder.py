"""Generative encoders: a step with a cache equals a whole pass over the text with a mask at its end."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.inference.generator import GenerationConfig, Generator
from t5x_like.inference.scorer import LikelihoodRequest, Scorer, masked_scoring_batch
from t5x_like.model import parameters
from t5x_like.model.zoo.albert import AlbertConfig
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.modernbert import ModernBertConfig
from t5x_like.model.zoo.roberta import RobertaConfig
from t5x_like.partitioning.mesh import MeshConfig
from tests.slow_cases import slow_except

MASK, NEW = 4, 4
_SIZE: dict[str, Any] = {
    "vocab_size": 50,
    "model_dim": 16,
    "num_heads": 2,
    "mlp_dim": 32,
    "task": "masked_lm",
}
CONFIGS = {
    "bert": BertConfig(**_SIZE, num_layers=2, max_position_embeddings=16),
    "albert": AlbertConfig(**_SIZE, num_layers=2, max_position_embeddings=16, embed_dim=8),
    "roberta": RobertaConfig(**_SIZE, num_layers=1, max_position_embeddings=16),
    "modernbert": ModernBertConfig(**_SIZE, num_layers=4, local_attention=4),
}
PROMPTS = [[2, 9, 10, 11, 12, 3], [2, 5, 3], [2, 20, 21, 22, 3]]


def built(name):
    model = CONFIGS[name].build(jax.random.key(0))
    # Fresh scores hardly differ; larger ones make choices that depend on everything.
    graphdef, params = parameters.split(model)
    params = jax.tree.map(lambda leaf: leaf * (8.0 if leaf.ndim > 1 else 1.0), params)
    return parameters.merge(graphdef, params), graphdef, params


def scores_after(model, prompt, written):
    """Scores at a mask after the text, by one pass over one row."""
    tokens = jnp.array([[*prompt, *written, MASK]], jnp.int32)
    places = jnp.arange(tokens.shape[1])
    ranks = jnp.maximum(places - len(prompt) + 1, 0)[None]
    types = (places >= len(prompt)).astype(jnp.int32)[None]
    batch = Batch(encoder_input_tokens=tokens, ranks=ranks, token_types=types)
    return np.asarray(model(batch).logits[0, -1])


def by_a_slow_loop(model, prompt, number):
    written = []
    for _ in range(number):
        written.append(int(scores_after(model, prompt, written).argmax()))
    return written


@pytest.mark.parametrize("name", slow_except(CONFIGS, ()))
def test_a_batch_of_padded_prompts_is_continued_as_by_a_slow_loop(name):
    model, graphdef, params = built(name)
    generator = Generator(graphdef, MeshConfig().build(), is_decoder=False, start_id=MASK)
    config = GenerationConfig(max_new_tokens=NEW)
    result = generator(params, PROMPTS, config, end_ids=(), batch_size=8, limit=8)
    assert result == [by_a_slow_loop(model, prompt, NEW) for prompt in PROMPTS]


@pytest.mark.parametrize(
    "name",
    ["bert", *(pytest.param(name, marks=pytest.mark.slow) for name in ("albert", "roberta", "modernbert"))],
)
def test_steps_with_a_cache_have_the_scores_of_whole_passes(name):
    model, *_ = built(name)
    prompts = jnp.array([[*PROMPTS[0], 0], [0, *PROMPTS[1], 0, 0, 0]], jnp.int32)
    written = [30, 7, 8]
    tokens, cache = model.start_cache(
        prompts, (prompts > 0).astype(jnp.int32), max_new_tokens=3, mask_id=MASK
    )
    for index in range(3):
        logits, cache = model.decode_step(tokens, cache)
        for row in (0, 1):
            expected = scores_after(model, PROMPTS[row], written[:index])
            np.testing.assert_allclose(logits[row], expected, atol=1e-4)
        tokens = jnp.full(2, written[index], jnp.int32)


@pytest.mark.slow
def test_one_beam_of_a_search_is_greedy_and_more_find_no_less_likely_texts():
    model, graphdef, params = built("bert")
    generator = Generator(graphdef, MeshConfig().build(), is_decoder=False, start_id=MASK)
    settings = {"end_ids": (), "batch_size": 8, "limit": 8}
    greedy, beams = (
        generator(params, PROMPTS, GenerationConfig(max_new_tokens=3, num_beams=number), **settings)
        for number in (1, 4)
    )
    for prompt, one, other in zip(PROMPTS, greedy, beams, strict=True):
        assert likelihood(model, prompt, other) >= likelihood(model, prompt, one) - 1e-4


def likelihood(model, prompt, target):
    log_probs = [
        jax.nn.log_softmax(scores_after(model, prompt, target[:index]))[token]
        for index, token in enumerate(target)
    ]
    return float(np.sum(log_probs))


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_targets_are_scored_in_one_pass_as_token_by_token(name):
    model, graphdef, params = built(name)
    requests = [LikelihoodRequest(PROMPTS[0], [7, 8, 3]), LikelihoodRequest(PROMPTS[1], [30])]
    batch = masked_scoring_batch(requests, mask_id=MASK, batch_size=8, limit=8)
    result = Scorer(graphdef, MeshConfig().build(), vocab_size=50)(params, batch)
    expected = [likelihood(model, *request) for request in requests]
    np.testing.assert_allclose(result.log_likelihoods[:2], expected, rtol=1e-4)


def test_bfloat16_writes_without_nan():
    config = BertConfig(**_SIZE, num_layers=1, max_position_embeddings=16, compute_dtype="bfloat16")
    model = config.build(jax.random.key(0))
    prompts, mask = jnp.array([[2, 5, 3, 0], [2, 5, 6, 3]]), jnp.array([[1, 1, 1, 0], [1, 1, 1, 1]])
    token, cache = model.start_cache(prompts, mask, max_new_tokens=2, mask_id=MASK)
    assert token.tolist() == [3, 3]
    logits, cache = model.decode_step(token, cache)
    assert logits.dtype == jnp.float32
    assert not jnp.isnan(logits).any()


def test_more_new_tokens_than_positions_are_refused():
    model = CONFIGS["bert"].build(jax.random.key(0))
    with pytest.raises(
        ValueError, match="max_new_tokens is 16; the model has 16 learned positions, also for"
    ):
        model.start_cache(jnp.ones((1, 3), jnp.int32), max_new_tokens=16, mask_id=MASK)
