"""A mixture of experts against a loop over tokens, alone and on eight devices."""

import math
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model import named_activations
from t5x_like.model.layers import expert_slots, mixture_of_experts
from t5x_like.model.layers.expert_slots import Routes, block_shape
from t5x_like.model.layers.feed_forward import FeedForward
from t5x_like.model.layers.mixture_of_experts import MixtureOfExperts, MixtureOfExpertsConfig
from t5x_like.model.layers.router import SigmoidRouter, SoftmaxRouter, route
from t5x_like.model.layers.routing_sums import router_loss
from t5x_like.model.parameters import axes_of, flatten, merge, split
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.shard import batch_sharding, tree_shardings

X = jax.random.normal(jax.random.key(0), (4, 12, 8))


def _config(**traits):
    """Two experts are weighed by their shares of both, as in GShard."""
    sizes: dict[str, Any] = {
        "mlp_dim": 16,
        "activation": "gelu_tanh",
        "gated": True,
        "bias": True,
        "num_experts": 4,
        "router": SoftmaxRouter(norm_topk_prob=traits.get("num_experts_per_token", 1) > 1),
    }
    return MixtureOfExpertsConfig(**(sizes | traits))


def _layer(**traits):
    """All weights are drawn, biases too, so that what an empty place gives isn't 0 by chance."""
    fresh = jax.eval_shape(lambda key: MixtureOfExperts(_config(**traits), 8, key=key), jax.random.key(0))
    graphdef, shapes = split(fresh)
    rng = np.random.default_rng(0)
    return merge(
        graphdef, jax.tree.map(lambda leaf: jnp.asarray(rng.normal(0, 0.5, leaf.shape), leaf.dtype), shapes)
    )


@jax.jit
def _run(layer, x, mask=None):
    y, routing = layer(x, mask=mask)
    return y, routing.loss


def _router(layer, kernel):
    layer.router.kernel[...] = jnp.asarray(kernel, jnp.float32)
    return layer


def _expert(layer, number):
    return jax.tree.map(lambda array: array[number], layer.experts)


def _slowly(layer, x, mask):
    """Token by token: the output, and how many tokens were passed by."""
    config, (num_rows, length, _) = layer.config, x.shape
    everywhere = jax.jit(jax.vmap(FeedForward.__call__, in_axes=(0, None)))(layer.experts, x)
    logits = np.asarray(x, np.float64) @ np.asarray(layer.router.kernel[...], np.float64)
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    y, num_passed_by = np.zeros(x.shape), 0
    for row in range(num_rows):
        load = np.zeros(config.num_experts, int)
        for token in np.flatnonzero(mask[row]):
            chosen = np.argsort(-probs[row, token])[: config.num_experts_per_token]
            gates = probs[row, token, chosen]
            gates = gates / gates.sum() if config.router.norm_topk_prob else gates
            for expert, gate in zip(chosen, gates, strict=True):
                if config.capacity_factor is None or load[expert] < config.capacity(length):
                    y[row, token] += gate * everywhere[expert, row, token]
                else:
                    num_passed_by += 1
                load[expert] += 1
    return y, num_passed_by


def test_one_expert_with_room_for_all_is_a_feed_forward_layer():
    layer = _layer(num_experts=1)
    y, _ = layer(X)  # not compiled, which would round otherwise in fused operations
    alone = _expert(layer, 0)
    assert isinstance(alone, FeedForward)
    np.testing.assert_array_equal(y, alone(X))


@pytest.mark.parametrize("num_experts_per_token", [1, 2, 3])
@pytest.mark.parametrize("capacity_factor", [0.5, 1.0, 4.0, None])
def test_every_token_gets_what_its_likeliest_experts_say_by_their_probability(
    num_experts_per_token, capacity_factor
):
    layer = _layer(num_experts_per_token=num_experts_per_token, capacity_factor=capacity_factor)
    mask = np.arange(12) < np.array([12, 9, 1, 0])[:, None]
    y, _ = _run(layer, X, jnp.asarray(mask))
    expected, num_passed_by = _slowly(layer, X, mask)
    assert (num_passed_by > 0) == (capacity_factor is not None and capacity_factor < 4)
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("mutated", ["gate", "place", "padding"])
def test_the_loop_notices_a_missing_trait(mutated, monkeypatch):
    layer = _layer(num_experts_per_token=2, capacity_factor=0.5)
    mask = np.arange(12) < np.array([12, 9, 1, 0])[:, None]
    assign_places = mixture_of_experts.assign_places

    def mutant(chosen, gates, real, **sizes):
        gates = jnp.ones_like(gates) if mutated == "gate" else gates
        real = jnp.ones_like(real) if mutated == "padding" else real
        if mutated == "place":  # the last come, first served
            routes = assign_places(chosen[:, ::-1], gates[:, ::-1], real[:, ::-1], **sizes)
            choices = jnp.where(routes.choices < 24, 22 - routes.choices // 2 * 2 + routes.choices % 2, 24)
            return Routes(routes.slots[:, ::-1], choices, gates)
        return assign_places(chosen, gates, real, **sizes)

    monkeypatch.setattr(mixture_of_experts, "assign_places", mutant)
    y, _ = jax.jit(lambda layer: layer(X, mask=jnp.asarray(mask)))(layer)
    assert not np.allclose(y, _slowly(layer, X, mask)[0], atol=1e-2)


def test_tokens_beyond_an_experts_capacity_are_passed_by():
    layer = _router(_layer(capacity_factor=1.0), jnp.zeros((8, 4)).at[:, 2].set(1.0))
    y, _ = _run(layer, jnp.abs(X))
    assert layer.config.capacity(12) == 3
    assert np.abs(y[:, :3]).min(axis=-1).all()
    np.testing.assert_array_equal(y[:, 3:], 0.0)


def test_no_token_depends_on_what_follows_or_on_other_rows():
    layer = _layer(num_experts_per_token=2, capacity_factor=0.5)
    y, _ = _run(layer, X)
    other, _ = _run(layer, X.at[:, 7:].set(-X[:, 7:]).at[1].set(0.0))
    np.testing.assert_allclose(other[0, :7], y[0, :7], rtol=0, atol=1e-6)


@pytest.mark.parametrize("num_experts_per_token", [1, 2])
def test_the_balance_loss_is_its_weight_where_all_are_equally_busy_and_grows_with_crowding(
    num_experts_per_token,
):
    layer = _layer(num_experts_per_token=num_experts_per_token, balance_weight=0.25)
    one_hot = jnp.tile(jnp.eye(4), (3, 1))
    next_best = jnp.roll(one_hot, 1, axis=-1)
    x = jnp.broadcast_to(jnp.concatenate([one_hot + 0.5 * next_best, one_hot], -1), (2, 12, 8))
    _, even = _run(_router(layer, jnp.concatenate([jnp.eye(4), jnp.zeros((4, 4))])), x)
    np.testing.assert_allclose(even, 0.25, rtol=1e-6)
    _, crowded = _run(_router(layer, jnp.zeros((8, 4)).at[:, :num_experts_per_token].set(50.0)), x)
    np.testing.assert_allclose(crowded, 0.25 * 4 / num_experts_per_token, rtol=1e-6)


@pytest.mark.parametrize("num_experts_per_token", [1, 2])
def test_the_losses_are_their_formulas(num_experts_per_token):
    layer = _layer(num_experts_per_token=num_experts_per_token, balance_weight=0.25, router_z_weight=0.5)
    logits = (np.asarray(X) @ np.asarray(layer.router.kernel[...])).reshape(-1, 4)
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    busy = np.bincount(np.argsort(-logits)[:, :num_experts_per_token].ravel(), minlength=4) / (
        len(logits) * num_experts_per_token
    )
    z_loss = np.mean(np.log(np.exp(logits).sum(-1)) ** 2)
    expected = 0.25 * 4 * np.sum(busy * probs.mean(0)) + 0.5 * z_loss
    np.testing.assert_allclose(_run(layer, X)[1], expected, rtol=1e-5)


def test_loads_are_compared_within_each_row_where_asked():
    layer = _layer(num_experts_per_token=2, balance_weight=0.25, balance_scope="row")
    mask = jnp.arange(12)[None] < jnp.asarray([12, 9, 3, 0])[:, None]
    of_row = _layer(num_experts_per_token=2, balance_weight=0.25)
    losses = [float(_run(of_row, X[row : row + 1], mask[row : row + 1])[1]) for row in range(4)]
    expected = np.average(losses, weights=np.asarray(mask).sum(axis=1))
    np.testing.assert_allclose(_run(layer, X, mask)[1], expected, rtol=1e-6)
    assert abs(expected - float(_run(of_row, X, mask)[1])) > 1e-3


@pytest.mark.parametrize("capacity_factor", [0.5, None])
def test_statistics_of_routing_are_their_definitions(capacity_factor):
    layer = _layer(num_experts_per_token=2, capacity_factor=capacity_factor)
    mask = np.random.default_rng(0).random((4, 12)) < 0.6
    means = {name: float(total) / max(float(count), 1) for name, (total, count) in _sums(layer, mask).items()}
    logits = (np.asarray(X) @ np.asarray(layer.router.kernel[...]))[mask]
    counts = np.bincount(np.argsort(-logits)[:, :2].ravel(), minlength=4)
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    entropy = -np.sum(probs * np.log(probs), axis=-1).mean()
    dropped = 0.0 if capacity_factor is None else _slowly(layer, X, mask)[1] / (2 * mask.sum())
    expected = {
        "expert_max_violation": counts.max() / counts.mean() - 1,
        "router_entropy": entropy,
        "dropped_choices": dropped,
    }
    assert means == pytest.approx(expected, rel=1e-5)
    assert (dropped > 0) == (capacity_factor is not None)
    assert all(float(count) == 0 for _, count in _sums(layer, np.zeros_like(mask)).values())


def _sums(layer, mask):
    return layer(X, mask=jnp.asarray(mask))[1].measures


def test_padding_is_neither_routed_nor_counted():
    layer = _layer(capacity_factor=0.5, balance_weight=1.0, router_z_weight=1.0)
    mask = jnp.asarray(np.random.default_rng(0).random((4, 12)) < 0.6)
    y, loss = _run(layer, X, mask)
    other_y, other_loss = _run(layer, jnp.where(mask[..., None], X, 3.0 - X), mask)
    np.testing.assert_array_equal(np.asarray(y)[~mask], 0.0)
    np.testing.assert_array_equal(y, other_y)
    np.testing.assert_allclose(loss, other_loss, rtol=1e-6)
    nothing, no_loss = _run(layer, X, jnp.zeros_like(mask))
    assert float(no_loss) == 0.0
    assert not nothing.any()


@pytest.mark.parametrize("num_experts_per_token", [1, 2])
def test_gradients_are_those_of_plain_autodiff_and_reach_the_router(num_experts_per_token, monkeypatch):
    graphdef, params = split(_layer(num_experts_per_token=num_experts_per_token, capacity_factor=0.5))

    def loss(params, x):
        y, routing = merge(graphdef, params)(x, mask=jnp.arange(12)[None] < jnp.full((4, 1), 9))
        return jnp.sum(jnp.sin(y)) + routing.loss

    result = jax.jit(jax.grad(loss, argnums=(0, 1)))(params, X)

    def rows_at(x, index, readers):
        return jnp.take_along_axis(x, index[..., None], axis=1, mode="fill", fill_value=0)

    monkeypatch.setattr(expert_slots, "rows_at", rows_at)
    expected = jax.jit(jax.grad(loss, argnums=(0, 1)))(params, X)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), result, expected)
    for gradient in jax.tree.leaves(result):
        assert np.isfinite(gradient).all()
        assert np.abs(gradient).max() > 1e-3
    assert np.abs(result[0]["router"]["kernel"]).min() > 1e-6


def test_dropout_is_drawn_for_each_expert_and_row():
    layer = _router(_layer(num_experts_per_token=2, capacity_factor=9.0), jnp.zeros((8, 4)))
    same = jnp.broadcast_to(X[:1, :1], X.shape)
    layer.experts.up.kernel[...] = jnp.broadcast_to(layer.experts.up.kernel[0], (4, 8, 16))
    drop = jax.jit(lambda layer, x, key: layer(x, dropout_rate=0.5, dropout_key=key)[0])
    y = drop(layer, same, jax.random.key(3))
    assert not np.allclose(y[0], y[1])
    np.testing.assert_array_equal(y, drop(layer, same, jax.random.key(3)))
    np.testing.assert_allclose(drop(layer, same, None), _run(layer, same)[0], rtol=1e-6)


def test_the_router_works_in_float32_whatever_the_stream_is():
    layer = _router(_layer(num_experts=2, capacity_factor=2.0), [[1.0, 1.0 + 2**-10]] * 8)
    x = jnp.full(
        (1, 1, 8), 4.0, jnp.bfloat16
    )  # in bfloat16 the kernel's columns are equal, and the first wins
    y, loss = _run(layer, x)
    assert y.dtype == jnp.bfloat16
    assert loss.dtype == jnp.float32
    logits = 32.0 * np.array([1.0, 1.0 + 2**-10])
    gate = np.exp(logits[1]) / np.exp(logits).sum()
    np.testing.assert_allclose(y, gate * _expert(layer, 1)(x), rtol=2e-2)


def test_every_expert_is_drawn_like_a_layer_by_itself_and_names_its_axes():
    def build(key):
        return MixtureOfExperts(_config(mlp_dim=256), 64, key=key)

    keys = jax.random.split(jax.random.key(0), 3)
    layers = jax.eval_shape(jax.vmap(build), keys)
    axes = flatten(axes_of(layers))
    assert axes["experts/up/kernel"] == ("layers", "experts", "embed", "mlp")
    assert axes["experts/down/kernel"] == ("layers", "experts", "mlp", "embed")
    assert axes["experts/down/bias"] == ("layers", "experts", "embed")
    assert axes["router/kernel"] == ("layers", "embed", "experts_router")
    kernel = jax.jit(lambda key: build(key).experts.up.kernel[...])(keys[0])
    np.testing.assert_allclose(np.std(kernel, axis=(1, 2)), 64**-0.5, rtol=0.05)


@pytest.mark.parametrize(
    ("num_experts", "sizes"),
    [
        pytest.param(4, {"data": 2, "fsdp": 2, "model": 2}, marks=pytest.mark.slow),
        pytest.param(3, {"data": 2, "fsdp": 2, "model": 2}, marks=pytest.mark.slow),
        (4, {"data": 1, "fsdp": 2, "expert": 2, "model": 2}),  # one expert on each of four groups
        pytest.param(
            2, {"data": 1, "fsdp": 2, "expert": 2, "model": 2}, marks=pytest.mark.slow
        ),  # two halves of an expert, joined along fsdp
    ],
)
def test_eight_devices_give_what_one_gives_without_gathering_experts(num_experts, sizes):
    layer = _layer(num_experts=num_experts, num_experts_per_token=2)
    graphdef, params = split(layer)
    mesh = MeshConfig(**sizes).build()
    mask = jnp.asarray(np.random.default_rng(0).random((4, 12)) < 0.9)

    def loss(params, x, mask):
        y, routing = merge(graphdef, params)(x, mask=mask)
        return jnp.sum(jnp.sin(y)) + routing.loss

    gradients = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))
    alone = gradients(params, X, mask)
    shardings = tree_shardings(axes_of(layer), params, mesh)
    arguments = (jax.device_put(params, shardings), *jax.device_put((X, mask), batch_sharding(mesh)))
    with jax.set_mesh(mesh):
        compiled = gradients.lower(*arguments).compile()
        together = compiled(*arguments)
    program = compiled.as_text()
    assert program
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), alone, together)
    gathered = re.findall(r"= \w+\[([\d,]+)\]\S* all-gather\(", program)
    largest = max(math.prod(map(int, shape.split(","))) for shape in gathered)
    if num_experts != 3:  # which no axis divides
        assert "all-to-all" in program
    if num_experts == 4:
        assert largest == 8 * 4  # the router's kernel


def test_without_a_capacity_crowded_experts_drop_no_token_and_padding_costs_nothing():
    layer = _router(_layer(capacity_factor=None), jnp.zeros((8, 4)).at[:, 2].set(1.0))
    mask = jnp.arange(12)[None] < jnp.asarray([12, 9, 1, 0])[:, None]
    y, _ = _run(layer, jnp.abs(X), mask)
    gates = jax.nn.softmax(jnp.abs(X) @ layer.router.kernel[...])[..., 2:3]
    expected = jnp.where(mask[..., None], gates * _expert(layer, 2)(jnp.abs(X)), 0.0)
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("router", [SoftmaxRouter(), SigmoidRouter(routed_scaling_factor=1.7)])
def test_without_a_capacity_gradients_are_those_of_running_all_experts(router):
    traits = {"num_experts_per_token": 3, "capacity_factor": None, "router": router, "shared_mlp_dim": 8}
    graphdef, params = split(_layer(**traits))
    mask = jnp.arange(12)[None] < jnp.full((4, 1), 9)

    def loss(params, x):
        y, routing = merge(graphdef, params)(x, mask=mask)
        return jnp.sum(jnp.sin(y)) + routing.loss

    def plain_loss(params, x):
        layer = merge(graphdef, params)
        bias = None if layer.correction_bias is None else layer.correction_bias[...]
        routing = route(router, layer.router(x), 3, bias)
        everywhere = jax.vmap(FeedForward.__call__, in_axes=(0, None), out_axes=2)(layer.experts, x)
        chosen = jnp.take_along_axis(everywhere, routing.chosen[..., None], axis=2)
        y = jnp.where(mask[..., None], jnp.sum(chosen * routing.gates[..., None], axis=2), 0.0)
        weights = {"balance_weight": 0.01, "router_z_weight": 0.0}
        return jnp.sum(jnp.sin(y + layer.shared_expert(x))) + router_loss(routing, mask, **weights)

    result = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(params, X)
    expected = jax.jit(jax.value_and_grad(plain_loss, argnums=(0, 1)))(params, X)
    if isinstance(router, SigmoidRouter):  # its bias learns from choices, and not from the loss
        np.testing.assert_array_equal(expected[1][0]["correction_bias"], 0.0)
        layer = merge(graphdef, params)
        chosen = route(router, layer.router(X), 3, layer.correction_bias[...]).chosen[mask]
        counts = np.bincount(np.asarray(chosen).ravel(), minlength=4)
        expected[1][0]["correction_bias"] = jnp.asarray(counts - counts.mean(), jnp.float32)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), result, expected)
    assert np.abs(result[1][0]["router"]["kernel"]).min() > 1e-6


def test_gradients_of_an_experts_blocks_are_summed_in_float32():
    traits = {"capacity_factor": None, "num_experts": 1, "gated": False, "bias": False}
    graphdef, params = split(_layer(**traits))
    x = jax.random.normal(jax.random.key(0), (1, 2048, 8), jnp.bfloat16)
    size, num_blocks = block_shape(2048, 1)
    assert num_blocks > 2048 // size > 4

    def loss(params, x):
        return jnp.sum(merge(graphdef, params)(x)[0].astype(jnp.float32))

    exact = jax.jit(jax.grad(loss))(params, x.astype(jnp.float32))["experts"]["up"]["kernel"]
    rounded = jax.jit(jax.grad(loss))(params, x)["experts"]["up"]["kernel"]
    assert rounded.dtype == jnp.float32
    assert np.linalg.norm(rounded - exact) < 5e-3 * np.linalg.norm(exact)


@pytest.mark.parametrize("num_choices", [1, 7, 64, 5000])
@pytest.mark.parametrize("num_experts", [1, 8, 256])
def test_blocks_have_room_for_any_choices_and_few_empty_slots(num_choices, num_experts):
    size, num_blocks = block_shape(num_choices, num_experts)
    crowded = np.zeros(num_experts, int)
    crowded[0] = num_choices
    spread = np.bincount(np.arange(num_choices) % num_experts, minlength=num_experts)
    for counts in (crowded, spread):
        assert np.sum(-(-counts // size)) <= num_blocks
    if num_choices < num_experts:
        assert size * num_blocks <= 8 * num_choices


def test_without_a_capacity_inner_activations_are_observed_and_edited_by_token():
    layer = _layer(num_experts_per_token=2, capacity_factor=None)

    def run(edits):
        with (
            named_activations.record(("*/activations",), edits),
            named_activations.scope("s"),
            named_activations.layer(0, 1) as activations,
        ):
            y, _ = layer(X)
        return y, activations["s/activations"]

    y, activations = jax.jit(lambda: run(None))()
    np.testing.assert_allclose(y, _run(layer, X)[0], rtol=0, atol=1e-5)
    assert activations.shape == (4, 12, 32)
    first = jnp.argmax(X @ layer.router.kernel[...], axis=-1)
    everywhere = jax.vmap(FeedForward.widen, in_axes=(0, None), out_axes=2)(layer.experts, X)
    chosen = jnp.take_along_axis(everywhere, first[..., None, None], axis=2)[:, :, 0]
    np.testing.assert_allclose(activations[..., :16], chosen, rtol=0, atol=1e-5)
    edited, _ = jax.jit(lambda: run({"s/activations": lambda x, _: 0 * x}))()
    down = layer.experts.down.bias[...]
    assert not np.allclose(edited, y)
    assert np.isfinite(edited).all()
    assert np.abs(edited).max() <= np.abs(down).max() + 1e-5


@pytest.mark.parametrize(
    "sizes",
    [
        {"data": 1, "fsdp": 2, "expert": 2, "model": 2},
        pytest.param({"data": 4, "fsdp": 1, "expert": 2, "model": 1}, marks=pytest.mark.slow),
        pytest.param({"data": 8, "fsdp": 1, "expert": 1, "model": 1}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("num_rows", [8, pytest.param(3, marks=pytest.mark.slow)])
def test_eight_devices_without_a_capacity_give_what_one_gives_and_move_no_expert(sizes, num_rows):
    gathered = _gathered_by_eight_devices(sizes, num_rows=num_rows, length=12, num_experts=4)
    if sizes["expert"] * sizes["fsdp"] == 4:  # one expert on each group: none travels
        assert not any(_is_of_experts(shape, 4) for shape in gathered)


def test_experts_smaller_than_tokens_travel_along_fsdp_and_never_along_expert():
    sizes = {"data": 1, "fsdp": 4, "expert": 2, "model": 1}
    gathered = _gathered_by_eight_devices(sizes, num_rows=8, length=96, num_experts=8)
    assert any(_is_of_experts(shape, 4) for shape in gathered)
    assert not any(_is_of_experts(shape, 8) for shape in gathered)


def _is_of_experts(shape, num_experts):
    return shape in {
        f"{num_experts},{sides}" for sides in ("8,16", "16,8", "8,8")
    }  # the last: half of the width


def _gathered_by_eight_devices(sizes, *, num_rows, length, num_experts):
    """Compare losses and gradients with those of one device; return the shapes that the devices gather."""
    layer = _layer(num_experts=num_experts, num_experts_per_token=3, capacity_factor=None)
    graphdef, params = split(layer)
    mesh = MeshConfig(**sizes).build()
    x = jax.random.normal(jax.random.key(1), (num_rows, length, 8))
    mask = jnp.asarray(np.random.default_rng(0).random((num_rows, length)) < 0.9)

    def loss(params, x, mask):
        y, routing = merge(graphdef, params)(x, mask=mask)
        return jnp.sum(jnp.sin(y)) + routing.loss

    gradients = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))
    alone = gradients(params, x, mask)
    shardings = tree_shardings(axes_of(layer), params, mesh)
    placed = jax.device_put((x, mask), batch_sharding(mesh)) if num_rows == 8 else (x, mask)
    with jax.set_mesh(mesh):
        arguments = (jax.device_put(params, shardings), *placed)
        compiled = gradients.lower(*arguments).compile()
        together = compiled(*arguments)
    atol = 1e-6 * length  # of sums over tokens
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=atol), alone, together)
    program = compiled.as_text()
    assert program
    return re.findall(r"= \w+\[([\d,]+)\]\S* all-gather\(", program)


@pytest.mark.parametrize(
    ("traits", "message"),
    [
        ({"num_experts_per_token": 0}, "num_experts_per_token is 0; give a positive number"),
        (
            {"num_experts": 6, "router": SigmoidRouter(n_group=4, topk_group=2)},
            "n_group=4 can't share out num_experts=6",
        ),
        (
            {
                "num_experts": 8,
                "num_experts_per_token": 3,
                "router": SigmoidRouter(n_group=4, topk_group=1),
            },
            "topk_group=1 groups have 2 experts; give enough for num_experts_per_token, 3",
        ),
        (
            {"num_experts_per_token": 2, "num_experts": 1},
            "num_experts is 1; give at least num_experts_per_token, 2",
        ),
        ({"capacity_factor": 0.0}, "capacity_factor is 0.0; give a positive number"),
    ],
)
def test_sizes_that_make_no_mixture_are_refused(traits, message):
    with pytest.raises(ValueError, match=message):
        _config(**traits)
