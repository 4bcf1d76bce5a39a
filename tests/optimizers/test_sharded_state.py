import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from t5x_like.optimizers.lamb import Lamb
from t5x_like.optimizers.lion import Lion
from t5x_like.optimizers.muon import Muon
from t5x_like.optimizers.optax_optimizer import OptaxOptimizer
from t5x_like.optimizers.optimizers import Adafactor, AdamW
from t5x_like.optimizers.schedule_free import ScheduleFreeAdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.optimizers.stable_adamw import StableAdamW
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.shard import tree_shardings

AXES = {
    "wi": ("layers", "embed", "mlp"),
    "wo": ("layers", "mlp", "embed"),
    "table": ("vocab", "embed"),
    "scale": ("layers", "norm"),
}
RATE = Constant(value=0.1)


def draw_params(seed):
    draw = np.random.default_rng(seed)
    shapes = {"wi": (2, 8, 16), "wo": (2, 16, 8), "table": (24, 8), "scale": (2, 8)}
    return {name: jnp.asarray(draw.normal(size=shape), jnp.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize(
    "optimizer",
    [
        Adafactor(learning_rate=RATE, min_dim_size_to_factor=8, momentum=0.9),
        AdamW(learning_rate=RATE),
        AdamW(learning_rate=RATE, multiply_by_parameter_scale=True),
        StableAdamW(learning_rate=RATE),
        ScheduleFreeAdamW(learning_rate=RATE),
        Lamb(learning_rate=RATE),
        Lion(learning_rate=RATE),
        Muon(learning_rate=RATE),
        AdamW(learning_rate=optax.cosine_decay_schedule(0.1, 10)),
        OptaxOptimizer(transformation=optax.adamw(0.1)),
        OptaxOptimizer(transformation=optax.adafactor(0.1, min_dim_size_to_factor=8, momentum=0.9)),
        OptaxOptimizer(transformation=optax.inject_hyperparams(optax.lion)(learning_rate=0.1)),
    ],
)
def test_a_state_cut_over_eight_devices_trains_as_a_whole_one(optimizer):
    mesh = MeshConfig(data=2, fsdp=2, model=2).build()
    transformation = optimizer.build(AXES)
    params, gradients = draw_params(0), draw_params(1)
    abstract = jax.eval_shape(transformation.init, params)
    state_shardings = tree_shardings(optimizer.state_axes(abstract, AXES), abstract, mesh)
    param_shardings = tree_shardings(AXES, params, mesh)

    def train(params, state, gradients):
        updates, state = transformation.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    whole = params, transformation.init(params)
    cut = (
        jax.device_put(params, param_shardings),
        jax.jit(transformation.init, out_shardings=state_shardings)(params),
    )
    step = jax.jit(train, out_shardings=(param_shardings, state_shardings))
    for _ in range(3):
        whole = jax.jit(train)(*whole, gradients)
        cut = step(*cut, jax.device_put(gradients, param_shardings))
    for name in AXES:
        np.testing.assert_allclose(cut[0][name], whole[0][name], rtol=1e-5, atol=1e-7)


def test_rows_and_columns_are_cut_as_their_weight_is():
    mesh = MeshConfig(data=2, fsdp=2, model=2).build()
    optimizer = Adafactor(min_dim_size_to_factor=8)
    abstract = jax.eval_shape(optimizer.build(AXES).init, draw_params(0))
    shardings = tree_shardings(optimizer.state_axes(abstract, AXES), abstract, mesh)
    weight = tree_shardings(AXES, draw_params(0), mesh)["wi"].spec
    assert tuple(shardings.v_row["wi"].spec) == (weight[0], weight[1])
    assert tuple(shardings.v_col["wi"].spec) == (weight[0], weight[2])


def test_averages_of_a_bare_transformation_are_cut_as_their_weight_is():
    mesh = MeshConfig(data=2, fsdp=2, model=2).build()
    optimizer = OptaxOptimizer(transformation=optax.adamw(0.1))
    params = draw_params(0)
    abstract = jax.eval_shape(optimizer.build(AXES).init, params)
    shardings = tree_shardings(optimizer.state_axes(abstract, AXES), abstract, mesh)
    assert shardings[0].mu == shardings[0].nu == tree_shardings(AXES, params, mesh)
    assert shardings[0].count.is_fully_replicated
