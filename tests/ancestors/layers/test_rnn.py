"""Recurrent layers: PyTorch's values, exact segments and padding, carried states, and four kinds of dropout."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.references.recurrent import check_layer, read_layer
from t5x_like.ancestors.layers.rnn_cell import GRUConfig, LSTMConfig, RNNState
from t5x_like.ancestors.layers.rnn_stack import RNNStack, RNNStackConfig
from t5x_like.model import parameters
from t5x_like.model.layers.linear import Normal
from tests.references import FIXTURES
from tests.slow_cases import slow_except

FOLDER = FIXTURES / "recurrent"  # in the repository only
CASES = sorted(file.stem for file in FOLDER.glob("*.npz"))
CLOSE = {"rtol": 1e-6, "atol": 1e-6}
DIM, UNITS = 3, 4
LSTM = RNNStackConfig(input_dim=DIM, hidden_dims=(UNITS, UNITS), init=Normal(0.7))
BOTH = replace(LSTM, direction="both")
STACKS = {
    "lstm": LSTM,
    "lstm both": BOTH,
    "lstm backward": replace(LSTM, direction="backward"),
    "projection both": replace(BOTH, cell=LSTMConfig(projection_dim=2)),
    "gru both": replace(BOTH, cell=GRUConfig()),
    "widths": replace(LSTM, hidden_dims=(5, 2)),
}
INPUTS = jnp.asarray(np.random.default_rng(0).normal(size=(3, 7, DIM)), jnp.float32)


def built(config: RNNStackConfig) -> RNNStack:
    return RNNStack(config, key=jax.random.key(0))


@jax.jit
def run(stack: RNNStack, *inputs: Any) -> Any:
    return stack(*inputs)


def ids(*rows: str) -> jax.Array:
    """Segment ids from digits; a dot is padding."""
    return jnp.asarray([[0 if each == "." else int(each) for each in row] for row in rows], jnp.int32)


def random_states(stack: RNNStack, num_rows: int = 3) -> tuple[RNNState, ...]:
    leaves, tree = jax.tree.flatten(stack.zero_states(num_rows))
    keys = jax.random.split(jax.random.key(5), len(leaves))
    return jax.tree.unflatten(
        tree, [jax.random.normal(key, leaf.shape) for key, leaf in zip(keys, leaves, strict=True)]
    )


def rows_of(states: tuple[RNNState, ...], rows: slice) -> tuple[RNNState, ...]:
    return jax.tree.map(lambda part: part[rows], states)


def assert_close(left: Any, right: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **CLOSE), left, right)


# --- PyTorch ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", slow_except(CASES, ("gru_both", "lstm_both", "lstm_projection_both")))
def test_outputs_states_and_gradients_are_those_of_pytorch(name):
    check_layer(read_layer(FOLDER / f"{name}.npz"))


# --- segments, padding, carried states --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", slow_except(STACKS, ("lstm backward", "projection both", "widths")))
def test_packed_segments_are_read_as_rows_of_their_own(name):
    stack = built(STACKS[name])
    packed = run(stack, INPUTS[:1], ids("1112233")).output[0]
    for cut in (slice(0, 3), slice(3, 5), slice(5, 7)):
        alone = run(stack, INPUTS[:1, cut]).output[0]
        np.testing.assert_allclose(packed[cut], alone, **CLOSE)


@pytest.mark.parametrize("name", slow_except(STACKS, ("gru both", "widths")))
def test_padding_changes_nothing(name):
    stack = built(STACKS[name])
    states = random_states(stack, 1)
    short = run(stack, INPUTS[:1, :4], None, states)
    at = np.asarray([0, 2, 3, 5])
    spread = np.full((1, 7, DIM), 9.0, np.float32)
    spread[:, at] = INPUTS[:1, :4]
    result = run(stack, spread, ids("1.11.1."), states)
    np.testing.assert_allclose(result.output[:, at], short.output, **CLOSE)
    assert_close(result.states, short.states)
    assert not np.asarray(result.output)[:, [1, 4, 6]].any()


def test_only_the_first_segment_that_a_direction_meets_continues_the_state():
    stack = built(replace(BOTH, hidden_dims=(UNITS,)))
    states, segments = random_states(stack, 1), ids("..11.223")
    x = jnp.pad(INPUTS[:1], ((0, 0), (1, 0), (0, 0)))
    continued, fresh = run(stack, x, segments, states), run(stack, x, segments)
    differs = np.abs(continued.output - fresh.output)[0] > 1e-5
    assert differs[:, :UNITS].any(axis=1).tolist() == [False, False, True, True, *[False] * 4]
    assert differs[:, UNITS:].any(axis=1).tolist() == [*[False] * 7, True]
    # The state after the row is that of its last segment forward, and of its first backward.
    np.testing.assert_array_equal(continued.states[0].hidden, continued.output[:, 7, :UNITS])
    np.testing.assert_array_equal(continued.states[1].hidden, continued.output[:, 2, UNITS:])


@pytest.mark.parametrize("name", ["lstm", "lstm backward", "widths"])
def test_a_sequence_in_two_halves_is_read_as_the_whole(name):
    stack = built(STACKS[name])
    states = random_states(stack)
    whole = run(stack, INPUTS, None, states)
    halves = [INPUTS[:, :4], INPUTS[:, 4:]]
    if name == "lstm backward":
        halves.reverse()
    first = run(stack, halves[0], None, states)
    second = run(stack, halves[1], None, first.states)
    parts = [first.output, second.output]
    if name == "lstm backward":
        parts.reverse()
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole.output, **CLOSE)
    assert_close(second.states, whole.states)


def test_a_row_of_padding_and_a_row_without_positions_keep_their_state():
    stack = built(BOTH)
    states = random_states(stack)
    result = run(stack, INPUTS, ids("1111111", ".......", "1122..."), states)
    assert_close(rows_of(result.states, slice(1, 2)), rows_of(states, slice(1, 2)))
    assert not np.asarray(result.output[1]).any()
    for segment_ids in (None, jnp.zeros((3, 0), jnp.int32)):
        empty = run(stack, INPUTS[:, :0], segment_ids, states)
        assert empty.output.shape == (3, 0, 2 * UNITS)
        assert_close(empty.states, states)


def test_states_of_another_batch_or_stack_are_refused():
    stack = built(LSTM)
    with pytest.raises(
        ValueError, match=r"state 0 has shapes hidden \(2, 4\), cell \(2, 4\), and a batch of 3"
    ):
        stack(INPUTS, None, stack.zero_states(2))
    with pytest.raises(ValueError, match="2 states are given, and 4 are needed: one for each layer and dir"):
        built(BOTH)(INPUTS, None, stack.zero_states(3))
    with pytest.raises(ValueError, match=r"state 0 has shapes hidden \(3, 4\), and .* hidden \(3, 4\), cell"):
        stack(INPUTS, None, built(replace(LSTM, cell=GRUConfig())).zero_states(3))


def test_sums_and_states_are_float32_whatever_the_inputs_are():
    stack = built(BOTH)
    result, exact = run(stack, jnp.asarray(INPUTS, jnp.bfloat16)), run(stack, INPUTS)
    assert result.output.dtype == jnp.bfloat16
    assert {leaf.dtype for leaf in jax.tree.leaves(result.states)} == {jnp.dtype("float32")}
    np.testing.assert_allclose(result.output.astype(np.float32), exact.output, atol=0.03)


def test_forget_gates_begin_open_and_other_biases_at_zero():
    layer = built(replace(LSTM, cell=LSTMConfig(forget_bias=1.5))).layers["0"]["forward"]
    np.testing.assert_array_equal(layer.input.bias[...].reshape(4, UNITS)[:, 0], [0, 1.5, 0, 0])


# --- dropout ----------------------------------------------------------------------------------------------------------

RATES = {
    "between layers": {"dropout_rate": 0.5},
    "recurrent": {"recurrent_dropout_rate": 0.5},
    "weights": {"weight_dropout_rate": 0.5},
}
run_dropped = jax.jit(lambda stack, x, key: stack(x, dropout_key=key))


@pytest.mark.parametrize("variational", slow_except([False, True], [True]))
@pytest.mark.parametrize("name", RATES)
def test_each_dropout_acts_in_training_only_and_by_its_key(name, variational):
    dropped = built(replace(BOTH, **RATES[name], variational_dropout=variational))
    plain = run(built(BOTH), INPUTS).output
    np.testing.assert_array_equal(run(dropped, INPUTS).output, plain)
    one, again, other = (run_dropped(dropped, INPUTS, jax.random.key(seed)).output for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - plain).max() > 1e-3
    assert np.abs(one - other).max() > 1e-3


def linear_sums(config: RNNStackConfig, num_keys: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Cells of layers so close to linear that means show, over draws of dropout, and without it."""
    stack = built(config)

    def shrunk(leaf: jax.Array) -> jax.Array:
        return 0.05 * leaf

    graphdef, params = parameters.split(stack)
    stack = parameters.merge(graphdef, jax.tree.map(shrunk, params))
    states = jax.tree.map(lambda part: part + 1.0, stack.zero_states(3))
    keys = jax.random.split(jax.random.key(0), num_keys)
    draw = jax.jit(jax.vmap(lambda key: stack(INPUTS[:, :1], None, states, dropout_key=key).states[-1].cell))
    return np.asarray(draw(keys)), np.asarray(run(stack, INPUTS[:, :1], None, states).states[-1].cell)


@pytest.mark.parametrize("variational", slow_except([False, True], [False]))
@pytest.mark.parametrize("name", RATES)
def test_each_dropout_keeps_expectations(name, variational):
    drawn, plain = linear_sums(replace(LSTM, **RATES[name], variational_dropout=variational))
    error = drawn.std(axis=0) / len(drawn) ** 0.5
    assert (error > 0).all()
    assert (np.abs(drawn.mean(axis=0) - plain) < 4.5 * error + 1e-4).all()


def counting_stack(**rates: Any) -> RNNStack:
    """One GRU whose update gate is shut, so that its output is tanh of the dropped last output, near 1 or 0."""
    stack = built(replace(LSTM, hidden_dims=(64,), cell=GRUConfig(), **rates))
    layer = stack.layers["0"]["forward"]
    layer.input.kernel[...] = jnp.zeros_like(layer.input.kernel[...])
    layer.input.bias[...] = jnp.repeat(jnp.asarray([20.0, -20.0, 0.0]), 64)
    layer.hidden.kernel[...] = jnp.eye(64, 192, 128) * 20
    return stack


@pytest.mark.parametrize("variational", [False, True])
def test_variational_masks_are_the_same_at_all_positions(variational):
    stack = counting_stack(recurrent_dropout_rate=0.5, variational_dropout=variational)
    states = (RNNState(jnp.ones((3, 64))),)
    kept = np.asarray(stack(INPUTS, None, states, dropout_key=jax.random.key(3)).output) > 0.5
    # What is dropped once stays 0, so that with a mask for each position few units are left at the end.
    survivors = kept.mean(axis=(0, 2))
    assert survivors[0] == pytest.approx(0.5, abs=0.12)
    assert not np.array_equal(kept[0, 0], kept[1, 0])  # each row has a mask of its own
    if variational:
        assert (kept == kept[:, :1]).all()
    else:
        assert survivors[1] == pytest.approx(0.25, abs=0.12)
        assert survivors[-1] < 0.1


def test_variational_dropout_between_layers_drops_whole_columns():
    stack = built(replace(LSTM, dropout_rate=0.5, variational_dropout=True))
    dropped = np.asarray(stack.drop(jnp.ones((3, 7, 8)), 0.5, jax.random.key(0)))
    assert set(np.unique(dropped)) == {0.0, 2.0}
    assert (dropped == dropped[:, :1]).all()


def test_dropped_weights_are_the_same_for_all_rows_and_positions():
    stack = counting_stack(weight_dropout_rate=0.5)
    states = (RNNState(jnp.ones((3, 64))),)
    kept = np.asarray(stack(INPUTS, None, states, dropout_key=jax.random.key(3)).output) > 0.5
    assert kept[0, 0].mean() == pytest.approx(0.5, abs=0.2)
    assert (kept == kept[:1, :1]).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"hidden_dims": ()}, "hidden_dims is empty"),
        ({"hidden_dims": (3, 0)}, "give positive numbers"),
        ({"weight_dropout_rate": 1.0}, "weight_dropout_rate is 1.0; give a probability below 1"),
        (
            {"residual": True, "hidden_dims": (5, 2)},
            r"outputs of the widths \(5, 2\); give all layers one width",
        ),
    ],
)
def test_impossible_sizes_and_rates_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        replace(LSTM, **wrong)
    with pytest.raises(ValueError, match="projection_dim is 0"):
        LSTMConfig(projection_dim=0)
    with pytest.raises(ValueError, match=r"cell_clip is 0\.0; give a positive number, or None for no limit"):
        LSTMConfig(cell_clip=0.0)
    with pytest.raises(
        ValueError, match=r"projection_clip is 3.0, and there is no projection; set projection_dim"
    ):
        LSTMConfig(projection_clip=3.0)


def test_cells_and_projections_are_limited_where_the_next_position_reads_them():
    cell = LSTMConfig(projection_dim=2, cell_clip=0.1, projection_clip=0.05)
    stack = built(replace(LSTM, hidden_dims=(UNITS,), cell=cell))
    layer = stack.layers["0"]["forward"]
    kernels = [
        np.asarray(each.merged()[0], np.float64) for each in (layer.input, layer.hidden, layer.projection)
    ]
    inputs, bias = np.asarray(INPUTS, np.float64), np.asarray(layer.input.bias[...], np.float64)
    hidden, memory, outputs = np.zeros((3, 2)), np.zeros((3, UNITS)), []

    def sigmoid(x):
        return 1.0 / (1.0 + np.exp(-x))

    for place in range(inputs.shape[1]):
        i, f, g, o = np.split(inputs[:, place] @ kernels[0] + bias + hidden @ kernels[1], 4, axis=-1)
        memory = np.clip(sigmoid(f) * memory + sigmoid(i) * np.tanh(g), -0.1, 0.1)
        hidden = np.clip((sigmoid(o) * np.tanh(memory)) @ kernels[2], -0.05, 0.05)
        outputs.append(hidden)
    result = run(stack, INPUTS)
    np.testing.assert_allclose(result.output, np.stack(outputs, axis=1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(result.states[0].cell, memory, rtol=1e-5, atol=1e-6)
    assert (np.abs(memory) == 0.1).any()
    assert (np.abs(hidden) == 0.05).any()


def test_layers_after_the_first_add_their_inputs_and_keep_their_own_outputs_in_the_state():
    plain = built(replace(BOTH, hidden_dims=(UNITS, UNITS), init=Normal(0.7)))
    graphdef = parameters.split(built(replace(plain.config, residual=True)))[0]
    added = run(parameters.merge(graphdef, parameters.split(plain)[1]), INPUTS)
    without = run(plain, INPUTS)
    assert_close(added.layers[0], without.layers[0])
    assert_close(added.layers[1], without.layers[1] + without.layers[0])
    assert_close(added.states, without.states)
