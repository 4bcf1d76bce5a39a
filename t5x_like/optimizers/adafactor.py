"""Adafactor for named weights: factored second moments that never mix stacked layers.

Shazeer and Stern 2018, https://arxiv.org/abs/1804.04235, as T5 uses it (Raffel et al. 2020, §3.1.2). The axis names of
a weight determine which dimensions are averaged. A ``"layers"`` axis holds independent weights: each layer has its own
statistics, clipping and scale, so scanned layers train exactly as unrolled ones do. (``optax.adafactor`` treats them
as one large array.)
"""

import math
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PyTree

Axes = tuple[str, ...]

# Dimensions along which separate matrices are stacked: each has statistics and a scale of its own.
STACKED = frozenset({"layers", "experts"})
# T5X's rule: scales and relative-position tables always keep their full second moment.
NEVER_FACTORED = frozenset({"norm", "relpos_buckets"})


class AdafactorState(NamedTuple):
    """Statistics in trees like the parameters'; ``None`` where a parameter has no such statistic.

    Attributes:
      step: int32 [], updates done so far.
      v_row: Squared gradients averaged over columns.
      v_col: Squared gradients averaged over rows.
      v: Squared gradients of parameters that are not factored.
      m: Averaged updates, with momentum only.
    """

    step: jax.Array
    v_row: Any
    v_col: Any
    v: Any
    m: Any


def is_axes(value: object) -> bool:
    """Return True for the axis names of one weight: a leaf of an axes tree."""
    return type(value) is tuple and all(isinstance(name, str) for name in value)


def row_and_column_dimensions(axes: Axes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the dimensions of a weight that are its rows and its columns; stacked layers are neither.

    The rows are the model dimension (``"embed"``), as in T5X, or else the first dimension; all others are
    columns, so a [D, H, K] kernel is treated as its joined form [D, H*K].

    >>> row_and_column_dimensions(("layers", "mlp", "embed"))
    ((2,), (1,))
    """
    inner = inner_dimensions(axes)
    if not inner:
        return (), ()
    row = next((dim for dim in inner if axes[dim] == "embed"), inner[0])
    return (row,), tuple(dim for dim in inner if dim != row)


def adafactor(
    learning_rate: optax.ScalarOrSchedule,
    *,
    axes: PyTree,
    decay_rate: float = 0.8,
    clipping_threshold: float | None = 1.0,
    multiply_by_parameter_scale: bool = True,
    factored: bool = True,
    min_dim_size_to_factor: int = 128,
    epsilon1: float = 1e-30,
    epsilon2: float = 1e-3,
    max_parameter_scale: float | None = None,
    momentum: float | None = None,
    weight_decay_rate: float | None = None,
    weight_decay_rate_lr_exponent: float | None = None,
    step_offset: int = 0,
    statistics_dtype: Literal["float32", "bfloat16"] = "float32",
) -> optax.GradientTransformation:
    """Return Adafactor for parameters with named dimensions.

    Update ``t`` (from 0) averages squared gradients with rate ``(t - step_offset + 1) ** -decay_rate``. It divides the
    gradient by their root, limits the result's root mean square, and multiplies it by the learning rate and the
    weight's own root mean square. All is computed in float32, even if the parameters are not.

    Args:
      learning_rate: A number, or a function of the number of updates done.
      axes: A tree like the parameters, with a tuple of axis names for each.
      decay_rate: Exponent of the second moments' decay.
      clipping_threshold: Limit of an update's root mean square; ``None`` for no limit.
      multiply_by_parameter_scale: Multiplies updates by the weight's root mean square.
      factored: Factors second moments into rows and columns.
      min_dim_size_to_factor: Smallest number of rows and columns of a layer that is factored.
      epsilon1: Added to squared gradients.
      epsilon2: Least root mean square of a weight.
      max_parameter_scale: Largest root mean square of a weight; ``None`` for no limit.
      momentum: Part of the averaged update that an update keeps; ``None`` for no momentum.
      weight_decay_rate: Part of the weight that each update takes away; ``None`` for none.
      weight_decay_rate_lr_exponent: Multiplies the decay by ``learning_rate ** exponent``.
      step_offset: Updates that don't count for the second moments' decay.
      statistics_dtype: Type in which averages are kept between updates. Those in bfloat16 no longer follow changes
        below a 256th of their value, as after some hundred updates.
    """
    kept_dtype = jnp.dtype(statistics_dtype)

    def is_factored(shape: tuple[int, ...], names: Axes) -> bool:
        if len(names) != len(shape):
            raise ValueError(f"a weight of shape {shape} has axis names {names}; give one name per dimension")
        if not factored or not NEVER_FACTORED.isdisjoint(names):
            return False
        sizes = [math.prod(shape[dim] for dim in dims) for dims in row_and_column_dimensions(names) if dims]
        return len(sizes) == 2 and min(sizes) >= min_dim_size_to_factor

    def init(params: PyTree) -> AdafactorState:
        def start(param: jax.Array, names: Axes) -> tuple:
            m = None if momentum is None else jnp.zeros(param.shape, kept_dtype)
            if not is_factored(param.shape, names):
                return None, None, jnp.zeros(param.shape, kept_dtype), m
            rows, columns = row_and_column_dimensions(names)
            v_row = jnp.zeros(_without(param.shape, columns), kept_dtype)
            return v_row, jnp.zeros(_without(param.shape, rows), kept_dtype), None, m

        leaves, tree = jax.tree.flatten(params)
        statistics = zip(*map(start, leaves, _names(tree, axes)), strict=True)
        return AdafactorState(jnp.zeros((), jnp.int32), *map(tree.unflatten, statistics))

    def update(
        gradients: PyTree, state: AdafactorState, params: PyTree = None
    ) -> tuple[PyTree, AdafactorState]:
        if params is None:
            raise ValueError(
                "adafactor scales updates by the parameters: call update(gradients, state, params)"
            )
        rate = learning_rate(state.step) if callable(learning_rate) else learning_rate
        age = jnp.maximum(state.step - step_offset + 1, 1).astype(jnp.float32)
        kept = 1.0 - age**-decay_rate
        decay = weight_decay_rate
        if weight_decay_rate_lr_exponent:
            decay = (decay or 1.0) * rate**weight_decay_rate_lr_exponent

        def one(gradient: jax.Array, param: jax.Array, names: Axes, moments: _Moments, m: PyTree) -> tuple:
            value = param.astype(jnp.float32)
            inner = inner_dimensions(names)
            step, moments = _whiten(gradient.astype(jnp.float32), moments, names, kept, epsilon1)
            if clipping_threshold is not None:
                step /= jnp.maximum(1.0, root_mean_square(step, inner) / clipping_threshold)
            scale = rate
            if multiply_by_parameter_scale:
                scale *= parameter_scale(value, names, epsilon2, max_parameter_scale)
            step = scale * step
            if momentum is not None:
                step = m = momentum * m + (1.0 - momentum) * step
            if decay is not None:
                step = step + decay * value
            return -step, *moments, m

        leaves, tree = jax.tree.flatten(gradients)
        trees = (params, *jax.tree.map(lambda each: each.astype(jnp.float32), state[1:]))
        values, *statistics, m = (tree.flatten_up_to(branch) for branch in trees)
        moments = map(_Moments, *statistics)
        results = map(one, leaves, values, _names(tree, axes), moments, m)
        updates, *statistics = (tree.unflatten(column) for column in zip(*results, strict=True))
        statistics = jax.tree.map(lambda each: each.astype(kept_dtype), statistics)
        return updates, AdafactorState(state.step + 1, *statistics)

    return optax.GradientTransformation(init, update)  # pyright: ignore[reportArgumentType]


def adafactor_state_axes(state: AdafactorState, axes: PyTree) -> AdafactorState:
    """Return axis names of every array of a state: the weight's, without averaged dimensions.

    Args:
      state: State, or its shapes.
      axes: Axis names of the parameters.
    """
    tree = jax.tree.structure(axes, is_leaf=is_axes)
    names = _names(tree, axes)

    def named(names: Axes, v_row: PyTree, v_col: PyTree, v: PyTree, m: PyTree) -> tuple:
        rows, columns = row_and_column_dimensions(names)
        kept = (_without(names, columns), _without(names, rows), names, names)
        return tuple(
            None if leaf is None else axes for leaf, axes in zip((v_row, v_col, v, m), kept, strict=True)
        )

    statistics = zip(*map(named, names, *(tree.flatten_up_to(field) for field in state[1:])), strict=True)
    return AdafactorState((), *map(tree.unflatten, statistics))  # pyright: ignore[reportArgumentType]


class _Moments(NamedTuple):
    """Statistics of one weight: the first two, or the last."""

    v_row: Any
    v_col: Any
    v: Any


def _whiten(
    gradient: jax.Array, moments: _Moments, names: Axes, kept: jax.Array, epsilon: float
) -> tuple[jax.Array, _Moments]:
    """Divide a gradient by the root of its averaged square, which keeps ``kept`` of its old value."""
    squared = gradient * gradient + epsilon
    if moments.v is not None:
        v = kept * moments.v + (1.0 - kept) * squared
        return gradient * v**-0.5, _Moments(None, None, v)
    rows, columns = row_and_column_dimensions(names)
    v_row = kept * moments.v_row + (1.0 - kept) * squared.mean(columns)
    v_col = kept * moments.v_col + (1.0 - kept) * squared.mean(rows)
    row = jnp.expand_dims(v_row, columns)
    row_factor = (row / row.mean(rows, keepdims=True)) ** -0.5
    return gradient * row_factor * jnp.expand_dims(v_col**-0.5, rows), _Moments(v_row, v_col, None)


def parameter_scale(
    values: jax.Array, axes: Axes, least: float = 1e-3, most: float | None = None
) -> jax.Array:
    """Return the root mean square of each layer's own weight, within limits (Shazeer and Stern 2018, algorithm 4).

    Args:
      values: Weight, float32.
      axes: Its axis names.
      least: Smallest scale, from which weights of 0 grow.
      most: Largest scale; ``None`` for no limit.
    """
    size = jnp.maximum(root_mean_square(values, inner_dimensions(axes)), least)
    return size if most is None else jnp.minimum(size, most)


def inner_dimensions(axes: Axes) -> tuple[int, ...]:
    """Return the dimensions of one layer's own array."""
    return tuple(dim for dim, name in enumerate(axes) if name not in STACKED)


def _without(values: tuple, dims: tuple[int, ...]) -> tuple:
    return tuple(value for dim, value in enumerate(values) if dim not in dims)


def _names(tree: PyTree, axes: PyTree) -> list[Axes]:
    names = tree.flatten_up_to(axes)
    for name in names:
        if not is_axes(name):
            raise ValueError(f"axes must hold a tuple of axis names for each parameter; found {name!r}")
    return names


def root_mean_square(values: jax.Array, dims: tuple[int, ...]) -> jax.Array:
    """Return the root of the mean square over dimensions, which are kept with size 1.

    Args:
      values: Array of any shape.
      dims: Dimensions to average over.
    """
    return jnp.sqrt(jnp.mean(values * values, axis=dims, keepdims=True))
