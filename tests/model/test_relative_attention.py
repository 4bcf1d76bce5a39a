"""Attention by distance, clusters of words, and the two families that are made of them."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax

from t5x_like.batch import Batch
from t5x_like.model.layers.adaptive_softmax import AdaptiveConfig, AdaptiveEmbedding, AdaptiveSoftmax
from t5x_like.model.layers.relative_attention import distances_between, encode_distances, past_mask, shift
from t5x_like.model.zoo.transfo_xl import TransfoXLConfig
from t5x_like.model.zoo.xlnet import XLNetConfig
from tests.references import read_arrays

XLNET = XLNetConfig(
    vocab_size=32, model_dim=16, mlp_dim=24, num_heads=2, head_dim=8, num_layers=2, init_stddev=0.3
)
TRANSFO_XL = TransfoXLConfig(
    vocab_size=32,
    model_dim=16,
    mlp_dim=24,
    num_heads=2,
    head_dim=8,
    num_layers=2,
    memory_length=12,
    embed_dim=8,
    cutoffs=(10, 20),
    div_val=2,
    tie_projections=(False, True, True),
    init_stddev=0.3,
    projection_stddev=0.3,
)
TOKENS = jnp.asarray(np.random.default_rng(0).integers(0, 32, (2, 10)), jnp.int32)


run = jax.jit(lambda model, batch: model(batch))


@pytest.mark.parametrize(("num_queries", "num_keys"), [(5, 5), (1, 7), (1, 1), (4, 9)])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_the_shift_finds_the_distance_of_each_key(num_queries, num_keys, bidirectional):
    distances = distances_between(num_queries, num_keys, bidirectional=bidirectional)
    rows = np.broadcast_to(distances, (1, 1, num_queries, len(distances))).astype(np.float32)
    result = shift(jnp.asarray(rows), num_keys=num_keys)[0, 0]
    wanted = np.arange(num_keys - num_queries, num_keys)[:, None] - np.arange(num_keys)[None]
    seen = (wanted >= 0) | bidirectional
    assert np.array_equal(np.where(seen, result, 0), np.where(seen, wanted, 0))


def test_encoded_distances_are_those_of_transformers(golden):
    reference = read_arrays(golden / "models" / "units" / "io.npz")
    plain = np.arange(9, -6, -1)  # of 9 keys and 6 queries, with one distance more than there is
    for name, distances, longest in (
        ("bi", plain, None),
        ("bi_clamp5", plain, 5),
        ("uni", np.arange(9, -1, -1), None),
    ):
        wanted = reference[f"xlnet_pos_{name}"][:, 0]
        result = encode_distances(distances, 12, jnp.dtype("float32"), max_distance=longest)
        np.testing.assert_allclose(result, wanted, atol=1e-6)


def test_a_query_sees_itself_and_as_far_back_as_it_reaches():
    assert past_mask(2, 4, reach=1)[0, 0].tolist() == [[False, True, True, False], [False, False, True, True]]
    assert past_mask(2, 3, reach=None)[0, 0].tolist() == [[True, True, False], [True, True, True]]


@pytest.mark.parametrize("div_val", [1, 2])
def test_clusters_of_words_are_looked_up_and_scored_by_definition(div_val):
    config = AdaptiveConfig(
        vocab_size=9, embed_dim=4, cutoffs=(3, 5), div_val=div_val, stddev=1.0, projection_stddev=1.0
    )
    embedding = AdaptiveEmbedding(config, 6, key=jax.random.key(0))
    softmax = AdaptiveSoftmax(config, 6, key=jax.random.key(1))
    tables = [np.asarray(embedding.tables[str(i)].table[...]) for i in range(len(config.tables))]
    into = [np.asarray(embedding.projections[str(i)].kernel[...]) for i in range(len(config.tables))]
    rows = [0, 1, 2, 0, 1, 0, 1, 2, 3] if div_val == 2 else list(range(9))
    cluster_of = [0, 0, 0, 1, 1, 2, 2, 2, 2]
    table_of = cluster_of if div_val == 2 else [0] * 9
    words = [tables[t][row] for t, row in zip(table_of, rows, strict=True)]
    wanted = np.stack([word @ into[t] for word, t in zip(words, table_of, strict=True)])
    result = embedding(jnp.arange(9)[None], jnp.dtype("float32"))[0]
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)
    assert np.isnan(embedding(jnp.asarray([[9, -1]]), jnp.dtype("float32"))).all()
    x = np.random.default_rng(0).normal(size=6).astype(np.float32)
    out_of = [x @ np.asarray(softmax.projections[str(i)].kernel[...]) for i in range(3)]
    scores = np.asarray([out_of[c] @ word for c, word in zip(cluster_of, words, strict=True)])
    head = log_softmax(np.concatenate([scores[:3], out_of[0] @ np.asarray(softmax.clusters.kernel[...])]))
    wanted = np.concatenate([head[:3], head[3] + log_softmax(scores[3:5]), head[4] + log_softmax(scores[5:])])
    np.testing.assert_allclose(
        softmax(jnp.asarray(x)[None, None], embedding)[0, 0], wanted, rtol=1e-5, atol=1e-5
    )


def test_a_query_does_not_know_its_own_token_nor_those_after_it_in_the_order():
    order = np.random.default_rng(1).permutation(10)
    earlier = np.argsort(order)[None, :, None] > np.argsort(order)[None, None, :]  # who comes before whom
    mask = jnp.broadcast_to(earlier, (2, 10, 10))
    model = XLNET.build(jax.random.key(0))
    batch = Batch(encoder_input_tokens=TOKENS, attention_mask=mask)
    before = run(model, batch).logits
    for place in (0, 4, 9):
        other = TOKENS.at[:, order[place]].set((TOKENS[:, order[place]] + 1) % 32)
        moved = (
            np.abs(run(model, batch._replace(encoder_input_tokens=other)).logits - before).max((0, 2)) > 1e-6
        )
        assert sorted(np.flatnonzero(moved)) == sorted(order[place + 1 :])


def test_without_an_order_every_token_is_known():
    model = XLNET.build(jax.random.key(0))
    batch = Batch(encoder_input_tokens=TOKENS, encoder_segment_ids=jnp.ones_like(TOKENS))
    other = batch._replace(encoder_input_tokens=TOKENS.at[:, 3].set((TOKENS[:, 3] + 1) % 32))
    assert np.abs(run(model, batch).logits - run(model, other).logits).max(-1).min() > 1e-6


def test_packed_examples_are_predicted_as_alone():
    model, order = XLNET.build(jax.random.key(0)), jnp.tri(10, k=-1, dtype=bool)[None]
    packed = Batch(
        encoder_input_tokens=TOKENS.reshape(1, 20),
        encoder_segment_ids=jnp.repeat(jnp.asarray([[1, 2]]), 10, axis=1),
        attention_mask=jnp.tri(20, k=-1, dtype=bool)[None],
    )
    alone = Batch(encoder_input_tokens=TOKENS, attention_mask=jnp.repeat(order, 2, axis=0))
    np.testing.assert_allclose(
        run(model, packed).logits.reshape(2, 10, -1), run(model, alone).logits, atol=1e-5
    )


@pytest.mark.slow
def test_xlnet_learns_through_the_query_stream():
    model = replace(XLNET, dropout_rate=0.1, remat="full").build(jax.random.key(0))
    mask = jnp.broadcast_to(jnp.tri(10, k=-1, dtype=bool), (2, 10, 10))
    batch = Batch(encoder_input_tokens=TOKENS, attention_mask=mask)

    def loss(model):
        return -jax.nn.log_softmax(model(batch, dropout_key=jax.random.key(1)).logits)[:, 1:, 3].mean()

    gradients = jax.jit(jax.grad(loss))(model)
    assert all(np.isfinite(gradient).all() for gradient in jax.tree.leaves(gradients))
    assert np.abs(gradients.query_embedding[...]).max() > 0


@pytest.mark.parametrize("same_length", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_segment_with_memory_sees_the_past(same_length):
    model = replace(TRANSFO_XL, same_length=same_length).build(jax.random.key(0))
    whole = model.read(TOKENS).output
    first = model.read(TOKENS[:, :6], keep_memory=True)
    second = model.read(TOKENS[:, 6:], memory=first.memory)
    np.testing.assert_allclose(second.output, whole[:, 6:], rtol=1e-5, atol=1e-5)
    assert np.abs(model.read(TOKENS[:, 6:]).output - whole[:, 6:]).max() > 1e-3


def test_xlnet_reads_a_past_of_any_length():
    model = replace(XLNET, direction="unidirectional").build(jax.random.key(0))
    whole = model.read(TOKENS, token_types=jnp.zeros_like(TOKENS)).output
    first = model.read(TOKENS[:, :6], keep_memory=True, token_types=jnp.zeros_like(TOKENS[:, :6]))
    second = model.read(TOKENS[:, 6:], memory=first.memory, token_types=jnp.zeros_like(TOKENS[:, 6:]))
    np.testing.assert_allclose(second.output, whole[:, 6:], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm_first", [pytest.param(False, marks=pytest.mark.slow), True])
def test_decoding_with_memory_scores_as_one_pass(norm_first):
    model = replace(TRANSFO_XL, norm_first=norm_first).build(jax.random.key(0))
    whole = run(model, Batch(decoder_input_tokens=TOKENS)).logits
    token, cache = model.start_cache(TOKENS[:, :4])
    step = jax.jit(model.decode_step)
    for place in range(3, 10):
        scores, cache = step(token, cache)
        np.testing.assert_allclose(scores, whole[:, place], rtol=1e-5, atol=1e-5)
        token = TOKENS[:, min(place + 1, 9)]


def test_padding_before_a_prompt_changes_nothing():
    model = TRANSFO_XL.build(jax.random.key(0))
    padded = jnp.pad(TOKENS[:, :5], ((0, 0), (3, 0)))
    alone, padded = (
        model.decode_step(*model.start_cache(*arguments))[0]
        for arguments in ((TOKENS[:, :5],), (padded, jnp.tile(jnp.arange(8) > 2, (2, 1)).astype(int)))
    )
    np.testing.assert_allclose(alone, padded, rtol=1e-5, atol=1e-5)


def test_beams_take_their_memory_along():
    model = TRANSFO_XL.build(jax.random.key(0))
    _, cache = model.start_cache(TOKENS[:, :4])
    cache = model.reorder_cache(cache, jnp.zeros((2, 3), int))
    _, cache = model.decode_step(jnp.asarray([1, 2, 3, 4, 5, 6]), cache)
    moved = model.reorder_cache(cache, jnp.asarray([[2, 0], [1, 1]]))
    assert np.array_equal(moved.memory, cache.memory[:, np.asarray([2, 0, 4, 4])])


def test_probabilities_of_all_words_sum_to_one():
    logits = run(TRANSFO_XL.build(jax.random.key(0)), Batch(decoder_input_tokens=TOKENS)).logits
    assert logits.shape == (2, 10, 32)
    np.testing.assert_allclose(np.exp(logits).sum(-1), 1.0, rtol=1e-5, atol=1e-5)
