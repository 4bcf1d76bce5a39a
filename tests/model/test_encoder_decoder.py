"""Properties that any attention must have, and traits that must matter."""

import functools
from dataclasses import replace
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.layers.remat import Remat
from t5x_like.model.zoo.t5 import T5Config

TINY = T5Config(
    vocab_size=40,
    model_dim=16,
    mlp_dim=24,
    num_heads=2,
    head_dim=8,
    num_encoder_layers=2,
    num_decoder_layers=3,
    dropout_rate=0.2,
)


def tokens(seed: int, rows: int, length: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).integers(1, 40, (rows, length)), jnp.int32)


def batch(rows: int = 2, inputs: int = 9, targets: int = 7) -> Batch:
    return Batch(encoder_input_tokens=tokens(0, rows, inputs), decoder_input_tokens=tokens(1, rows, targets))


@pytest.fixture(scope="module")
def model():
    return TINY.build(jax.random.key(0))


@pytest.fixture(scope="module")
def logits(model):
    """The compiled function from a batch to logits, without dropout."""
    graphdef, params = parameters.split(model)
    compiled = jax.jit(lambda params, batch: parameters.merge(graphdef, params)(batch).logits)
    return lambda batch: np.asarray(compiled(params, batch))


def test_no_target_sees_the_ones_after_it(logits):
    before = batch()
    after = before._replace(decoder_input_tokens=before.decoder_input_tokens.at[:, 4].set(3))
    changed = np.abs(logits(before) - logits(after)).max(axis=(0, 2)) > 0
    assert changed.tolist() == [False] * 4 + [True] * 3


def test_padding_changes_nothing(logits):
    plain = batch()
    padded = Batch(
        encoder_input_tokens=jnp.pad(plain.encoder_input_tokens, ((0, 0), (0, 3))),
        encoder_segment_ids=jnp.pad(jnp.ones((2, 9), jnp.int32), ((0, 0), (0, 3))),
        decoder_input_tokens=plain.decoder_input_tokens,
    )
    np.testing.assert_allclose(logits(padded), logits(plain), atol=2e-6)


def test_examples_packed_into_a_row_score_as_alone(logits):
    left, right = batch(rows=1, inputs=5, targets=4), batch(rows=1, inputs=4, targets=3)
    packed = Batch(
        encoder_input_tokens=jnp.concatenate([left.encoder_input_tokens, right.encoder_input_tokens], axis=1),
        encoder_segment_ids=jnp.asarray([[1] * 5 + [2] * 4]),
        decoder_input_tokens=jnp.concatenate([left.decoder_input_tokens, right.decoder_input_tokens], axis=1),
        decoder_segment_ids=jnp.asarray([[1] * 4 + [2] * 3]),
    )
    alone = np.concatenate([logits(left), logits(right)], axis=1)
    np.testing.assert_allclose(logits(packed), alone, atol=2e-6)


def test_decoding_token_by_token_scores_as_reading_all_at_once(model, logits):
    whole = batch()._replace(encoder_segment_ids=jnp.asarray([[1] * 9, [1] * 6 + [0] * 3]))
    encoded = model.encode(whole.encoder_input_tokens, whole.encoder_segment_ids)
    cache = model.start_cache(encoded, whole.encoder_segment_ids, max_length=7)
    step, stepped = jax.jit(model.decode_step), []
    for place in range(7):
        scores, cache = step(whole.decoder_input_tokens[:, place], cache)
        stepped.append(scores)
    np.testing.assert_allclose(np.stack(stepped, axis=1), logits(whole), atol=2e-6)


def test_dropout_is_drawn_from_its_key_alone(model):
    run = jax.jit(lambda key: model(batch(), dropout_key=key).logits)
    first, again, other = run(jax.random.key(1)), run(jax.random.key(1)), run(jax.random.key(2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.01


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(policy, marks=() if policy == "minimal_offloaded" else pytest.mark.slow)
        for policy in get_args(Remat)[1:]
    ],
)
def test_remat_changes_memory_and_not_gradients(model, policy):
    params = parameters.split(model)[1]

    def gradient(kept):
        graphdef, _, _ = parameters.abstract(replace(TINY, remat=kept))

        def loss(params):
            return jnp.sum(
                parameters.merge(graphdef, params)(batch(), dropout_key=jax.random.key(3)).logits ** 2
            )

        return jax.jit(jax.grad(loss))(params)

    plain = gradient("none")
    close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4)
    jax.tree.map(close, gradient(policy), plain)


@pytest.mark.parametrize(
    "mutation",
    [
        pytest.param({"feed_forward": "relu"}, marks=pytest.mark.slow),
        {"tie_word_embeddings": True},
        {"max_relative_distance": 20},
        {"num_relative_buckets": 16},
        {"norm_epsilon": 1e-2},
    ],
    ids=str,
)
def test_every_trait_matters(model, logits, mutation):
    mutated = parameters.abstract(replace(TINY, **mutation))
    flat = parameters.flatten(parameters.split(model)[1])
    shapes = parameters.flatten(mutated[1])
    fitting = {name: flat[name][tuple(map(slice, leaf.shape))] for name, leaf in shapes.items()}
    long = batch(inputs=30)
    scores = parameters.merge(mutated[0], parameters.unflatten(fitting))(long).logits
    assert np.abs(np.asarray(scores) - logits(long)).max() > 1e-3


def test_dividing_scores_by_the_root_of_the_head_width_would_change_them(logits, model):
    graphdef, params = parameters.split(model)
    scaled = parameters.flatten(params)
    for path in [path for path in scaled if path.endswith("query/kernel")]:
        scaled[path] = scaled[path] * TINY.head_dim**-0.5
    scores = parameters.merge(graphdef, parameters.unflatten(scaled))(batch()).logits
    assert np.abs(np.asarray(scores) - logits(batch())).max() > 1e-3


def test_bfloat16_computes_the_same_more_coarsely(model, logits):
    graphdef, _, _ = parameters.abstract(replace(TINY, compute_dtype="bfloat16"))
    coarse = parameters.merge(graphdef, parameters.split(model)[1])(batch()).logits
    assert coarse.dtype == jnp.float32
    coarse, fine = (scores[..., : TINY.vocab_size] for scores in (coarse, logits(batch())))
    assert np.abs(coarse - fine).max() < 0.05 * np.abs(fine).max()


def test_it_runs_in_nnx_tree_mode():
    nnx.set_graph_mode(False)
    try:
        graphdef, params = parameters.split(TINY.build(jax.random.key(0)))
        assert parameters.merge(graphdef, params)(batch()).logits.shape == (2, 7, 128)
    finally:
        nnx.set_graph_mode(True)


def test_weights_and_axis_names_have_the_same_tree():
    _, shapes, axes = parameters.abstract(TINY)
    named = parameters.flatten(axes)
    for path, leaf in parameters.flatten(shapes).items():
        assert len(named[path]) == len(leaf.shape), path
        assert ("layers" in named[path]) == ("/layers/" in path), path
