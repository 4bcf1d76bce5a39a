"""Rematerialization policies keep the values that their names say."""

import re

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from jax.ad_checkpoint import print_saved_residuals

from t5x_like.model import parameters
from t5x_like.model.layers.attention import Attention, AttentionConfig
from t5x_like.model.layers.feed_forward import FeedForward, FeedForwardConfig
from t5x_like.model.layers.remat import with_remat


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        ("minimal", {"qkv_proj": 3, "out_proj": 1, "mlp_in": 2, "mlp_out": 1}),
        ("save_dot_except_mlp", {"qkv_proj": 3, "out_proj": 1}),
        ("save_qkv_proj", {"qkv_proj": 3}),
        ("save_out_proj", {"out_proj": 1}),
        ("full", {}),
    ],
)
def test_values_that_a_layer_keeps(policy, kept, capsys):
    attention = Attention(AttentionConfig(num_heads=2, head_dim=4), 8, key=jax.random.key(0))
    feed_forward = FeedForward(
        FeedForwardConfig(mlp_dim=12, activation="relu", gated=True), 8, key=jax.random.key(1)
    )
    graphdef, params = parameters.split(nnx.Dict(attention=attention, feed_forward=feed_forward))

    def layer(params, x):
        layers = parameters.merge(graphdef, params)
        x = jnp.tanh(layers["attention"](x, layers["attention"].project_keys_values(x)))
        return jnp.tanh(layers["feed_forward"](x))

    print_saved_residuals(with_remat(layer, policy), params, jnp.ones((2, 3, 8)))
    residuals = [line for line in capsys.readouterr().out.splitlines() if "from the argument" not in line]
    results = [re.search(r"named '(\w+)'|output of (\w+)", line) for line in residuals]
    names = [match[1] or match[2] for match in results if match]
    assert {name: names.count(name) for name in names} == kept
