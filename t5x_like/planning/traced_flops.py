"""FLOPs of a function's matrix products, counted in its traced form before any compiler has changed it."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax

from t5x_like.model.layers.expert_blocks import COMPUTED_AGAIN, rounds_of


def traced_flops(function: Callable[..., object], *arguments: object) -> float:
    """Return the FLOPs of all devices together; loops count as often as they run.

    Experts count as if all were equally busy, and without what their backward pass computes again.

    Args:
      function: A function that ``jax.jit`` could compile.
      *arguments: Arrays or their shapes.
    """
    return _flops(jax.make_jaxpr(function)(*arguments).jaxpr)


def computed_once(model: Any) -> Any:
    """Return a model's configuration without remat and with plain attention, which compute nothing again.

    Args:
      model: The configuration.
    """
    settings = {"remat": "none", "attention_implementation": "plain"}
    own = {field.name for field in dataclasses.fields(model)} & settings.keys()
    return dataclasses.replace(model, **{name: settings[name] for name in own})


def _flops(jaxpr: Any) -> float:
    return sum(_flops_of(equation) for equation in jaxpr.eqns)


def _flops_of(equation: Any) -> float:
    name, parameters, scopes = equation.primitive.name, equation.params, str(equation.source_info.name_stack)
    if COMPUTED_AGAIN in scopes and "transpose" not in scopes:
        return 0.0
    if name == "dot_general":
        contracted = parameters["dimension_numbers"][0][0]
        left = equation.invars[0].aval.shape
        return 2.0 * math.prod(equation.outvars[0].aval.shape) * math.prod(left[axis] for axis in contracted)
    if name in ("ragged_dot", "ragged_dot_general"):
        rows, columns = equation.invars[0].aval.shape, equation.invars[1].aval.shape
        return 2.0 * math.prod(rows) * columns[-1]
    if name == "cond":
        return max(_flops(branch.jaxpr) for branch in parameters["branches"])
    inner = sum(map(_flops, _inner(parameters)))
    if name == "scan":
        return inner * parameters["length"]
    if name == "while":
        return inner * (rounds_of(scopes) or 1)
    if name == "shard_map":
        mesh = parameters["mesh"]
        return inner * math.prod(
            mesh.shape[axis] for axis in parameters.get("newly_manual_axes", mesh.axis_names)
        )
    if name == "pallas_call":
        return inner * math.prod(parameters["grid_mapping"].grid)
    return inner


def _inner(parameters: dict[str, Any]) -> Iterator[Any]:
    """Yield the functions that an equation calls."""
    for value in parameters.values():
        for each in value if isinstance(value, tuple | list) else (value,):
            if hasattr(each, "eqns"):
                yield each
            elif hasattr(each, "jaxpr") and hasattr(each.jaxpr, "eqns"):
                yield each.jaxpr
