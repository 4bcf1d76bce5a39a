"""Adafactor against the paper's algorithm written plainly, one matrix at a time, in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from t5x_like.optimizers.adafactor import adafactor, row_and_column_dimensions
from t5x_like.optimizers.optimizers import Adafactor, AdamW, state_axes
from t5x_like.optimizers.schedules import Constant
from tests.references import read_arrays

STEPS = 4
AXES = {
    "stack": {"wi": ("layers", "embed", "mlp"), "scale": ("layers", "norm")},
    "out": ("mlp", "embed"),
    "relpos": ("heads", "relpos_buckets"),
    "bias": ("mlp",),
}
SHAPES = {"stack": {"wi": (3, 6, 8), "scale": (3, 6)}, "out": (8, 6), "relpos": (8, 8), "bias": (8,)}


def is_shape(value):
    return isinstance(value, tuple)


def make_params_and_gradients(dtype=jnp.float32, steps=STEPS):
    draw = np.random.default_rng(7)
    # Layers of very different scale: a statistic that mixes them shows at once.
    layer = np.array([1.0, 30.0, 0.01], np.float32)

    def array(shape):
        value = draw.normal(size=shape).astype(np.float32)
        return value * layer.reshape(3, *[1] * (len(shape) - 1)) if shape[0] == 3 else value

    trees = [jax.tree.map(array, SHAPES, is_leaf=is_shape) for _ in range(steps + 1)]
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), trees[0]), trees[1:]


def run(optimizer, params, gradients):
    state = optimizer.init(params)
    update = jax.jit(optimizer.update)
    for gradient in gradients:
        updates, state = update(gradient, state, params)
        params = optax.apply_updates(params, updates)
    return params, state


def plain_adafactor(
    param,
    gradients,
    *,
    rate=0.1,
    factored=True,
    beta1=None,
    clip=1.0,
    scaled=True,
    exponent=0.8,
    decay=0.0,
    offset=0,
):
    """Shazeer and Stern 2018, algorithms 4 and 5."""
    param, v, row, column, m = param.astype(np.float64), 0.0, 0.0, 0.0, 0.0
    for step, gradient in enumerate(gradients):
        gradient = gradient.astype(np.float64)
        mix = (step - offset + 1.0) ** -exponent
        squared = gradient**2 + 1e-30
        if factored:
            row = (1 - mix) * row + mix * squared.mean(1)
            column = (1 - mix) * column + mix * squared.mean(0)
            v = np.outer(row, column) / row.mean()
        else:
            v = (1 - mix) * v + mix * squared
        update = gradient / np.sqrt(v)
        if clip:
            update /= max(1.0, np.sqrt((update**2).mean()) / clip)
        size = max(np.sqrt((param**2).mean()), 1e-3) if scaled else 1.0
        update = rate * size * update
        if beta1 is not None:
            update = m = beta1 * m + (1 - beta1) * update
        param = (1 - decay) * param - update
    return param


OPTIONS = {
    "as T5 uses it": ({}, {}),
    "momentum": ({"momentum": 0.9}, {"beta1": 0.9}),
    "momentum 0": ({"momentum": 0.0}, {"beta1": 0.0}),
    "no clipping": ({"clipping_threshold": None}, {"clip": None}),
    "tight clipping": ({"clipping_threshold": 0.3}, {"clip": 0.3}),
    "absolute rate": ({"multiply_by_parameter_scale": False}, {"scaled": False}),
    "another decay": ({"decay_rate": 0.5}, {"exponent": 0.5}),
    "weight decay": ({"weight_decay_rate": 0.02}, {"decay": 0.02}),
    "weight decay by rate": ({"weight_decay_rate_lr_exponent": 2.0}, {"decay": 0.1**2}),
    "both decays": ({"weight_decay_rate": 0.5, "weight_decay_rate_lr_exponent": 1.0}, {"decay": 0.05}),
    "earlier start": ({"step_offset": -5}, {"offset": -5}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_every_layer_and_weight_follows_the_papers_algorithm_alone(name):
    config, plain = OPTIONS[name]
    params, gradients = make_params_and_gradients()
    optimizer = adafactor(0.1, axes=AXES, min_dim_size_to_factor=6, **config)
    trained, _ = run(optimizer, params, gradients)

    def check(pick, factored):
        expected = plain_adafactor(
            np.asarray(pick(params)), [pick(g) for g in gradients], factored=factored, **plain
        )
        change = np.linalg.norm(expected - pick(params))
        assert np.linalg.norm(pick(trained) - expected) < 2e-6 * change + 1e-7 * np.linalg.norm(expected)

    for layer in range(3):
        check(lambda tree, n=layer: tree["stack"]["wi"][n], factored=True)
        check(lambda tree, n=layer: tree["stack"]["scale"][n], factored=False)
    check(lambda tree: tree["out"], factored=True)
    check(lambda tree: tree["relpos"], factored=False)
    check(lambda tree: tree["bias"], factored=False)


def test_a_stack_trains_exactly_as_its_layers_alone():
    params, gradients = make_params_and_gradients()
    stacked, _ = run(
        adafactor(0.1, axes={"w": ("layers", "embed", "mlp")}, min_dim_size_to_factor=4),
        {"w": params["stack"]["wi"]},
        [{"w": gradient["stack"]["wi"]} for gradient in gradients],
    )
    for layer in range(3):
        alone, _ = run(
            adafactor(0.1, axes={"w": ("embed", "mlp")}, min_dim_size_to_factor=4),
            {"w": params["stack"]["wi"][layer]},
            [{"w": gradient["stack"]["wi"][layer]} for gradient in gradients],
        )
        np.testing.assert_allclose(stacked["w"][layer], alone["w"], rtol=1e-6)


def test_only_matrices_of_at_least_the_minimum_size_are_factored():
    _, state = run(adafactor(0.1, axes=AXES, min_dim_size_to_factor=6), *make_params_and_gradients(steps=1))
    assert state.v_row["stack"]["wi"].shape == (3, 6)
    assert state.v_col["stack"]["wi"].shape == (3, 8)
    assert state.v["stack"]["wi"] is None
    assert state.v_row["out"].shape == (6,), "the rows are the model dimension, wherever it stands"
    assert state.v["stack"]["scale"].shape == (3, 6), "a stack of norm scales is not a matrix"
    assert state.v["relpos"].shape == (8, 8)
    assert state.m["out"] is None
    _, state = run(adafactor(0.1, axes=AXES, min_dim_size_to_factor=7), *make_params_and_gradients(steps=1))
    assert state.v["out"].shape == (8, 6)


def test_a_kernel_with_split_heads_trains_as_its_joined_form():
    draw = np.random.default_rng(0)
    param, gradient = draw.normal(size=(2, 6, 8)).astype(np.float32)
    joined, _ = run(
        adafactor(0.1, axes=("embed", "joined_heads"), min_dim_size_to_factor=6), param, [gradient]
    )
    split, state = run(
        adafactor(0.1, axes=("embed", "heads", "head_dim"), min_dim_size_to_factor=6),
        param.reshape(6, 2, 4),
        [gradient.reshape(6, 2, 4)],
    )
    np.testing.assert_allclose(split.reshape(6, 8), joined, rtol=1e-6)
    assert state.v_col.shape == (2, 4)
    assert row_and_column_dimensions(("layers", "heads", "head_dim", "embed")) == ((3,), (1, 2))


def test_bfloat16_parameters_keep_float32_statistics():
    params, gradients = make_params_and_gradients(jnp.bfloat16)
    gradients = [jax.tree.map(lambda g: jnp.asarray(g, jnp.bfloat16), gradient) for gradient in gradients]
    trained, state = run(adafactor(0.1, axes=AXES, min_dim_size_to_factor=6, momentum=0.9), params, gradients)
    assert {leaf.dtype for leaf in jax.tree.leaves(trained)} == {jnp.dtype(jnp.bfloat16)}
    assert {leaf.dtype for leaf in jax.tree.leaves(state[1:])} == {jnp.dtype(jnp.float32)}


def test_bfloat16_statistics_take_nearly_the_same_steps():
    params, gradients = make_params_and_gradients()
    options = {"axes": AXES, "min_dim_size_to_factor": 6, "momentum": 0.9}
    expected, _ = run(adafactor(0.1, **options), params, gradients)
    result, state = run(adafactor(0.1, statistics_dtype="bfloat16", **options), params, gradients)
    assert {leaf.dtype for leaf in jax.tree.leaves(state[1:])} == {jnp.dtype(jnp.bfloat16)}
    for start, exact, rounded in zip(*map(jax.tree.leaves, (params, expected, result)), strict=True):
        assert np.abs(rounded - exact).max() < 0.02 * np.abs(exact - start).max()


def test_the_learning_rate_is_asked_for_the_updates_already_done():
    seen = []
    optimizer = adafactor(lambda step: seen.append(int(step)) or 0.1, axes=("bias",))
    state = optimizer.init(jnp.ones(3))
    for _ in range(3):
        _, state = optimizer.update(jnp.ones(3), state, jnp.ones(3))
    assert seen == [0, 1, 2]


HUGGING_FACE_RUNS = {
    "const_1e3": (1e-3, {"multiply_by_parameter_scale": False}),
    "const_scaled": (1e-3, {}),
    "relative": (lambda step: jnp.minimum(1e-2, 1.0 / jnp.sqrt(step + 1.0)), {}),
    "beta1_wd": (
        1e-2,
        {
            "momentum": 0.9,
            "weight_decay_rate": 1e-2,
            "weight_decay_rate_lr_exponent": 1.0,
            "multiply_by_parameter_scale": False,
        },
    ),
}


@pytest.mark.parametrize("name", HUGGING_FACE_RUNS)
def test_hugging_faces_adafactor_gives_the_same_weights(golden, name):
    units = read_arrays(golden / "models" / "units" / "io.npz")
    params = {"p0": units["opt_p0_0"], "p1": units["opt_p1_0"]}
    gradients = [
        {"p0": a, "p1": b} for a, b in zip(units["opt_p0_grads"], units["opt_p1_grads"], strict=True)
    ]
    rate, options = HUGGING_FACE_RUNS[name]
    axes = {"p0": ("embed", "mlp"), "p1": ("mlp",)}
    trained, _ = run(adafactor(rate, axes=axes, min_dim_size_to_factor=1, **options), params, gradients)
    for key, value in trained.items():
        np.testing.assert_allclose(value, units[f"opt_adafactor_{name}_{key}"][-1], atol=1e-6)


@pytest.mark.parametrize(
    "optimizer",
    [Adafactor(momentum=0.9), Adafactor(max_gradient_norm=1.0, min_dim_size_to_factor=6), AdamW()],
)
def test_every_array_of_the_state_has_one_axis_name_per_dimension(optimizer):
    params, _ = make_params_and_gradients()
    state = jax.eval_shape(optimizer.build(AXES).init, params)
    axes = optimizer.state_axes(state, AXES)
    ranks = jax.tree.map(lambda leaf, names: (len(leaf.shape), len(names)), state, axes)
    assert all(rank == count for rank, count in zip(*[iter(jax.tree.leaves(ranks))] * 2, strict=True))


def test_factored_rows_and_columns_keep_the_names_that_were_not_averaged():
    params, _ = make_params_and_gradients()
    optimizer = Adafactor(min_dim_size_to_factor=6)
    axes = state_axes(jax.eval_shape(optimizer.build(AXES).init, params), AXES)
    assert axes.v_row["stack"]["wi"] == ("layers", "embed")
    assert axes.v_col["stack"]["wi"] == ("layers", "mlp")
    assert axes.v_row["out"] == ("embed",)
    assert axes.v["stack"]["scale"] == ("layers", "norm")
    assert axes.step == ()


def test_adamw_decays_matrices_only():
    params, gradients = make_params_and_gradients(steps=1)
    still = [jax.tree.map(np.zeros_like, gradient) for gradient in gradients]
    trained, _ = run(
        AdamW(learning_rate=Constant(value=0.1), weight_decay_rate=0.5).build(AXES), params, still
    )
    np.testing.assert_allclose(trained["out"], 0.95 * params["out"], rtol=1e-6)
    np.testing.assert_allclose(trained["stack"]["wi"], 0.95 * params["stack"]["wi"], rtol=1e-6)
    for kept in ("relpos", "bias"):
        np.testing.assert_array_equal(trained[kept], params[kept])
    np.testing.assert_array_equal(trained["stack"]["scale"], params["stack"]["scale"])


def test_adamw_gives_torchs_weights(golden):
    units = read_arrays(golden / "models" / "units" / "io.npz")
    optimizer = AdamW(
        learning_rate=Constant(value=0.01), beta2=0.98, weight_decay_rate=0.1, max_gradient_norm=None
    )
    trained, _ = run(optimizer.build(("embed", "mlp")), units["opt_p0_0"], units["opt_p0_grads"])
    np.testing.assert_allclose(trained, units["opt_adamw_p0"][-1], atol=1e-6)


def test_axes_that_do_not_fit_the_parameters_are_refused():
    with pytest.raises(ValueError, match=r"shape \(3, 4\) has axis names \('embed',\)"):
        adafactor(0.1, axes={"w": ("embed",)}).init({"w": jnp.ones((3, 4))})
    with pytest.raises(ValueError, match=r"momentum is 1\.0"):
        Adafactor(momentum=1.0)
