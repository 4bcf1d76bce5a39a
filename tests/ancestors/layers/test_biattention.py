"""Biattentive classification networks: attention, pooling and maxout against their formulas."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.ancestors.layers.biattention import Biattention, BiattentionConfig
from t5x_like.ancestors.zoo.bcn import BCNConfig
from t5x_like.ancestors.zoo.bilstm import BiLSTMConfig
from t5x_like.batch import Batch
from t5x_like.model.layers.pooler import Pooler, PoolerConfig
from t5x_like.model.layers.transform import Maxout, Transform, TransformConfig

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
RNG = np.random.default_rng(0)
CONFIG = BCNConfig(
    vocab_size=30,
    model_dim=8,
    input_dim=6,
    hidden_dim=5,
    integrator_dim=4,
    maxout_dims=(6, 3),
    num_labels=4,
    pad_vocab_to_multiple_of=1,
)
LENGTHS = np.array([5, 3, 0])
SEGMENT_IDS = (np.arange(5) < LENGTHS[:, None]).astype(np.int32)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_the_integrator_reads_tokens_and_what_they_attend_to_in_their_segment():
    layer = Biattention(BiattentionConfig(hidden_dim=3), 4, key=jax.random.key(0))
    x = RNG.normal(size=(1, 5, 4)).astype(np.float32)
    ids = np.array([[1, 1, 2, 2, 0]], np.int32)
    contexts = np.zeros_like(x)
    for places in ([0, 1], [2, 3]):
        part = x[0, places]
        contexts[0, places] = softmax(part @ part.T) @ part
    inputs = np.concatenate([x, x - contexts, x * contexts], axis=-1)
    wanted = layer.integrator(jnp.asarray(inputs), jnp.asarray(ids)).output
    result = layer(jnp.asarray(x), jnp.asarray(ids))
    np.testing.assert_allclose(result[:, :4], wanted[:, :4], **CLOSE)
    assert not np.allclose(layer(jnp.asarray(x), jnp.ones((1, 5), jnp.int32))[:, :4], result[:, :4])


def test_self_attentive_pooling_concatenates_maximum_mean_minimum_and_weighted_mean():
    pooler = Pooler(PoolerConfig(pooling="self_attentive"), 4, key=jax.random.key(1))
    x = RNG.normal(size=(3, 5, 4)).astype(np.float32)
    kernel = np.asarray(pooler.score.kernel[...])
    result = np.asarray(pooler(jnp.asarray(x), jnp.asarray(SEGMENT_IDS)))
    for row, length in enumerate(LENGTHS[:2]):
        real = x[row, :length]
        weights = softmax((real @ kernel)[:, 0])
        wanted = np.concatenate([real.max(0), real.mean(0), real.min(0), weights @ real])
        np.testing.assert_allclose(result[row], wanted, **CLOSE)
    np.testing.assert_array_equal(result[2, :12], 0)  # a row of padding has no tokens
    assert np.isfinite(result).all()


def test_maxout_takes_the_largest_of_its_pieces():
    config = TransformConfig(dim=3, activation=Maxout(num_pieces=2))
    layer = Transform(config, 4, key=jax.random.key(2))
    x = RNG.normal(size=(5, 4)).astype(np.float32)
    pieces = (x @ np.asarray(layer.dense.kernel[...])).reshape(5, 3, 2)
    np.testing.assert_allclose(layer(jnp.asarray(x)), pieces.max(-1), **CLOSE)


@pytest.mark.slow
def test_padding_changes_no_score_and_gradients_stay_finite():
    model = CONFIG.build(jax.random.key(3))
    tokens = RNG.integers(1, 30, (3, 5)).astype(np.int32)

    def scores(model, ids, segment_ids):
        batch = Batch(encoder_input_tokens=jnp.asarray(ids), encoder_segment_ids=jnp.asarray(segment_ids))
        return model(batch).heads["sequence_classification"]

    whole = scores(model, tokens, SEGMENT_IDS)
    short = scores(model, tokens[1:2, :3], SEGMENT_IDS[1:2, :3])
    np.testing.assert_allclose(whole[1:2], short, **CLOSE)
    gradients = jax.grad(lambda model: jnp.sum(scores(model, tokens, SEGMENT_IDS) ** 2))(model)
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(gradients))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "causal_lm"}, "BCN has no head for the task 'causal_lm'"),
        ({"maxout_dims": (6, 0)}, r"maxout_dims are \(6, 0\)"),
        ({"num_pieces": 0}, "num_pieces of Maxout is 0"),
    ],
)
def test_sizes_and_tasks_that_it_cannot_have_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(CONFIG, **changes)


def test_a_bilstm_of_the_same_width_has_heads_on_both_layers_still():
    config = BiLSTMConfig(vocab_size=30, model_dim=8, hidden_dim=5, num_labels=4)
    assert config.parts.outputs_dim == 20
    assert CONFIG.parts.outputs_dim == 8
