"""Shared layers: the same as a stack of copies, with the gradients of all copies added up."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.layers.self_attention import AttentionContext
from t5x_like.model.layers.sharing import Sharing
from t5x_like.model.layers.stack import Stack, StackConfig
from t5x_like.model.zoo.bert_like import post_norm_block

BLOCK = post_norm_block(
    model_dim=8, mlp_dim=12, num_heads=2, activation="gelu", norm_epsilon=1e-5, dropout_rate=0.0
)


def build(sharing: Sharing | None, num_layers: int = 4) -> Stack:
    return Stack(StackConfig(blocks=(BLOCK,) * num_layers, sharing=sharing), key=jax.random.key(0))


def number_of(path: str, sharing: Sharing) -> np.ndarray:
    return np.asarray(sharing.attention if "attention" in path else sharing.feed_forward)


@pytest.mark.parametrize(
    "sharing",
    [
        pytest.param(Sharing(attention=(0, 0, 0, 0), feed_forward=(0, 0, 0, 0)), marks=pytest.mark.slow),
        pytest.param(Sharing(attention=(0, 1, 0, 1), feed_forward=(0, 1, 2, 3)), marks=pytest.mark.slow),
        Sharing(attention=(0, 1, 2, 3), feed_forward=(0, 0, 1, 1)),
    ],
    ids=["all", "attention in turns", "feed-forward in groups"],
)
def test_shared_layers_compute_and_learn_as_copies_would(sharing: Sharing) -> None:
    x = jax.random.normal(jax.random.key(1), (2, 3, 8))
    few, params = parameters.split(build(sharing))
    many, _ = parameters.split(jax.eval_shape(lambda: build(None)))
    shared = parameters.flatten(params)
    copied = {path: array[number_of(path, sharing)] for path, array in shared.items()}

    def loss(graphdef, params):
        stack = parameters.merge(graphdef, parameters.unflatten(params))
        return jnp.sum(jnp.sin(3 * stack(x, AttentionContext()).output))

    value, gradients = jax.jit(jax.value_and_grad(lambda params: loss(few, params)))(shared)
    wanted, of_copies = jax.jit(jax.value_and_grad(lambda params: loss(many, params)))(copied)
    np.testing.assert_allclose(value, wanted, rtol=1e-5)
    for path, gradient in gradients.items():
        summed = jax.ops.segment_sum(of_copies[path], jnp.asarray(number_of(path, sharing)))
        assert gradient.shape == summed.shape
        np.testing.assert_allclose(gradient, summed, atol=2e-4, err_msg=path)


def test_numbers_of_weights_that_leave_gaps_are_refused() -> None:
    with pytest.raises(ValueError, match=r"sharing \(0, 2\) among 2 layers"):
        build(Sharing(attention=(0, 2), feed_forward=(0, 0)), num_layers=2)
