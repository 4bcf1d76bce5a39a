"""Recurrent layers of PyTorch: outputs, states and gradients for its weights."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.references.reference import DifferenceError, Reference, check_close
from t5x_like.ancestors.layers.rnn_cell import GRUConfig, LSTMConfig, RNNState
from t5x_like.ancestors.layers.rnn_stack import RNNStack, RNNStackConfig
from t5x_like.model import parameters
from t5x_like.model.layers.linear import Normal

_ATOL = _RTOL = 1e-6


def layer(file: Path) -> Iterator[Reference]:
    """Yield the reference of a layer of PyTorch."""
    yield Reference("recurrent", str(file), lambda: check_layer(read_layer(file)))


def read_layer(file: Path) -> dict[str, np.ndarray]:
    """Read the arrays of a layer."""
    with np.load(file) as arrays:
        return dict(arrays)


def stack_of(arrays: dict[str, np.ndarray]) -> RNNStack:
    """Return PyTorch's layer with its weights."""
    is_gru = "in_cell" not in arrays
    units = arrays["weight_weight_hh_l0"].shape[0] // (3 if is_gru else 4)
    projection = arrays.get("weight_weight_hr_l0")
    num_layers = sum(name.startswith("weight_weight_ih_l") and name[18:].isdigit() for name in arrays)
    config = RNNStackConfig(
        input_dim=arrays["in_x"].shape[-1],
        hidden_dims=(units,) * num_layers,
        cell=GRUConfig()
        if is_gru
        else LSTMConfig(projection_dim=None if projection is None else len(projection)),
        direction="both" if "weight_weight_ih_l0_reverse" in arrays else "forward",
        init=Normal(0.7),
    )
    stack = RNNStack(config, key=jax.random.key(0))
    for path, parts in _weights_of(stack).items():
        for part, value in _in_our_layout(arrays, "weight", path).items():
            parts[part][...] = jnp.asarray(value)
    return stack


def _weights_of(stack: RNNStack) -> dict[str, dict[str, Any]]:
    """Return our weights by the end of PyTorch's names."""
    weights = {}
    for number, directions in stack.layers.items():
        for name, module in directions.items():
            parts = {
                "input/kernel": module.input.kernel,
                "input/bias": module.input.bias,
                "hidden/kernel": module.hidden.kernel,
            }
            if module.hidden.bias is not None:
                parts["hidden/bias"] = module.hidden.bias
            if module.projection is not None:
                parts["projection/kernel"] = module.projection.kernel
            weights[f"l{number}{'_reverse' if name == 'backward' else ''}"] = parts
    return weights


def _in_our_layout(arrays: dict[str, np.ndarray], kind: str, path: str) -> dict[str, np.ndarray]:
    """Return PyTorch's weights or gradients in our layout; an LSTM's two biases are one."""
    input_bias, hidden_bias = arrays[f"{kind}_bias_ih_{path}"], arrays[f"{kind}_bias_hh_{path}"]
    parts = {
        "input/kernel": arrays[f"{kind}_weight_ih_{path}"].T,
        "hidden/kernel": arrays[f"{kind}_weight_hh_{path}"].T,
        "input/bias": input_bias,
    }
    if "in_cell" not in arrays:
        parts["hidden/bias"] = hidden_bias
    elif kind == "weight":
        parts["input/bias"] = input_bias + hidden_bias
    if f"{kind}_weight_hr_{path}" in arrays:
        parts["projection/kernel"] = arrays[f"{kind}_weight_hr_{path}"].T
    return parts


def _states_of(arrays: dict[str, np.ndarray], kind: str) -> tuple[RNNState, ...]:
    hidden, cell = arrays[f"{kind}_hidden"], arrays.get(f"{kind}_cell")
    return tuple(
        RNNState(jnp.asarray(part), None if cell is None else jnp.asarray(cell[index]))
        for index, part in enumerate(hidden)
    )


def check_layer(arrays: dict[str, np.ndarray]) -> None:
    """Compare outputs, states and gradients with PyTorch's."""
    graphdef, params = parameters.split(stack_of(arrays))
    length = arrays["in_x"].shape[1]
    segment_ids = jnp.asarray(np.arange(length) < arrays["in_lengths"][:, None], jnp.int32)

    def loss(params: Any, x: Any, states: Any) -> Any:
        outputs = parameters.merge(graphdef, params)(x, segment_ids, states)
        hidden = jnp.stack([state.hidden for state in outputs.states])
        return jnp.mean(outputs.output * arrays["loss_y"]) + jnp.mean(hidden * arrays["loss_hidden"]), outputs

    compute = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True))
    (_, outputs), (weights, x, states) = compute(
        params, jnp.asarray(arrays["in_x"]), _states_of(arrays, "in")
    )
    _check(outputs.output, arrays["out_y"], "outputs")
    _check_states(outputs.states, _states_of(arrays, "out"), "states")
    _check(x, arrays["grad_x"], "gradient of the inputs")
    _check_states(states, _states_of(arrays, "grad"), "gradient of the states")
    for path, parts in _weights_of(parameters.merge(graphdef, weights)).items():
        wanted = _in_our_layout(arrays, "grad", path)
        if parts.keys() != wanted.keys():
            raise DifferenceError(f"weights of {path} are {sorted(parts)}, recorded are {sorted(wanted)}")
        for part, gradient in parts.items():
            _check(gradient[...], wanted[part], f"gradient of {path} {part}")


def _check(got: Any, wanted: Any, name: str) -> None:
    check_close(got, wanted, name, atol=_ATOL, rtol=_RTOL)


def _check_states(got: tuple[RNNState, ...], wanted: tuple[RNNState, ...], name: str) -> None:
    for index, (own, recorded) in enumerate(zip(got, wanted, strict=True)):
        for part, values in own._asdict().items():
            if values is not None:
                _check(values, getattr(recorded, part), f"{name} {index} {part}")
