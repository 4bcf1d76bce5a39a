from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from t5x_like.partitioning.activations import (
    constrain_inner,
    constrain_rows,
    constrain_state,
    constrain_tokens,
    gather_output,
    gather_tokens,
    gather_weight,
)
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.rules import BATCH_MESH_AXES, sharding_for
from t5x_like.partitioning.shard import batch_sharding

MESH = MeshConfig(data=2, fsdp=2, model=2).build()
LONG = MeshConfig(data=2, context=2, model=2).build()


def test_rows_stay_where_the_batch_is_while_weights_are_gathered():
    weights = jax.device_put(np.ones((8, 8), np.float32), sharding_for(("embed", "mlp"), (8, 8), MESH))
    rows = jax.device_put(np.ones((8, 8), np.float32), batch_sharding(MESH))
    with jax.set_mesh(MESH):
        out = jax.jit(lambda rows, weights: constrain_rows(rows @ weights))(rows, weights)
    assert out.sharding.spec[0] == ("data", "fsdp")  # XLA leaves out axes of one device


def test_constraining_rows_does_nothing_without_a_mesh_or_an_even_cut():
    assert jax.jit(constrain_rows)(jnp.ones((3, 2))).shape == (3, 2)
    with jax.set_mesh(MESH):
        assert jax.jit(constrain_rows)(jnp.ones((3, 2))).shape == (3, 2)


def _sharded(function, *arguments, mesh=MESH):
    with jax.set_mesh(mesh):
        return jax.jit(function)(*arguments)


@pytest.mark.parametrize(
    ("function", "length", "spec"),
    [
        (constrain_tokens, 4, P(BATCH_MESH_AXES, ("context", "model"))),
        (constrain_tokens, 6, P(BATCH_MESH_AXES, "context")),  # model doesn't divide 3 tokens
        (constrain_tokens, 3, P(BATCH_MESH_AXES)),
        (gather_tokens, 4, P(BATCH_MESH_AXES, "context")),
    ],
)
def test_tokens_of_activations_are_cut_along_context(function, length, spec):
    array = jnp.arange(8.0 * length * 6).reshape(8, length, 6)
    out = _sharded(function, array, mesh=LONG)
    assert out.sharding.is_equivalent_to(NamedSharding(LONG, spec), 3)
    np.testing.assert_array_equal(out, array)


def test_layers_leave_the_tokens_where_context_has_cut_them():
    def heads(x):
        return constrain_inner(gather_tokens(x), axis=2)

    out = _sharded(heads, jnp.zeros((8, 4, 6, 2)), mesh=LONG)
    assert out.sharding.is_equivalent_to(NamedSharding(LONG, P(BATCH_MESH_AXES, "context", "model")), 4)


def test_readers_of_an_output_split_its_gradient():
    def gradient(x):
        return jax.grad(lambda x: jnp.sum(gather_output(x) ** 2))(x)

    array = jnp.arange(8.0 * 4 * 6).reshape(8, 4, 6)
    out = _sharded(gradient, array)
    assert out.sharding.is_equivalent_to(NamedSharding(MESH, P(BATCH_MESH_AXES, "model")), 3)
    np.testing.assert_array_equal(out, 2 * array)


@pytest.mark.parametrize(
    ("function", "shape", "spec"),
    [
        (constrain_tokens, (8, 4, 6), P(BATCH_MESH_AXES, "model")),
        (constrain_tokens, (8, 3, 6), P(BATCH_MESH_AXES)),  # 2 don't divide 3 tokens
        (constrain_tokens, (7, 4, 6), P()),
        (gather_tokens, (8, 4, 6), P(BATCH_MESH_AXES)),
        (gather_output, (8, 4, 6), P(BATCH_MESH_AXES)),
        (partial(constrain_inner, axis=-1), (8, 4, 6), P(None, None, "model")),
        (partial(constrain_inner, axis=2), (8, 4, 5, 2), P()),  # nor 5 heads
        (constrain_state, (8, 4, 6), P(BATCH_MESH_AXES)),
        (constrain_state, (7, 4, 6), P()),
        (partial(gather_weight, axes=("embed", "mlp")), (8, 6), P(None, "model")),
        (partial(gather_weight, axes=("vocab", "embed")), (8, 6), P("model")),
    ],
)
def test_activations_and_weights_are_cut_by_rule_inside_of_jit(function, shape, spec):
    array = jnp.arange(np.prod(shape), dtype=jnp.float32).reshape(shape)
    out = _sharded(function, array)
    assert out.sharding.is_equivalent_to(NamedSharding(MESH, spec), len(shape))
    np.testing.assert_array_equal(out, array)
    assert jax.jit(function)(array).sharding.is_fully_replicated  # without a mesh
