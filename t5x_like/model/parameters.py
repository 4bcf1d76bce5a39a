"""A model's weights as a plain nested dict: their shapes, axis names, trained and frozen parts."""

import functools
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx, traverse_util
from jaxtyping import PyTree

from t5x_like import weight_patterns
from t5x_like.model.layers.layer_scan import TRAINED_ROWS
from t5x_like.weight_patterns import Selection

Parameters = dict[str, Any]  # nested; leaves are arrays [*shape]
Axes = dict[str, Any]  # the same tree; leaves are tuples with one axis name for each dimension


@runtime_checkable
class ModelConfig(Protocol):
    """Configuration of a model; those of published architectures are in ``model/zoo``."""

    @property
    def vocab_size(self) -> int:
        """Number of token ids."""
        ...

    def build(self, key: jax.Array) -> Any:
        """Build the model with fresh weights drawn from ``key``."""
        ...


def split(model: nnx.Module) -> tuple[nnx.GraphDef, Parameters]:
    """Return the model's structure and its weights."""
    graphdef, state = nnx.split(model)
    return graphdef, nnx.to_pure_dict(state)


def merge(graphdef: nnx.GraphDef, params: Parameters) -> Any:
    """Return the model of a structure and weights; works inside ``jax.jit``.

    Args:
      graphdef: Structure from ``nnx.split``.
      params: Weights of the same model.
    """
    return nnx.merge(graphdef, params)


def axes_of(model: nnx.Module) -> Axes:
    """Return the axis names of every weight; those of stacked layers begin with ``"layers"``."""

    def names(variable: nnx.Variable) -> tuple[str, ...]:
        axes = variable.get_metadata()["axes"]
        return ("layers",) * (len(variable.shape) - len(axes)) + tuple(axes)

    state = nnx.split(model)[1]
    flat = {path: names(variable) for path, variable in nnx.to_flat_state(state)}
    return unflatten({"/".join(map(str, path)): axes for path, axes in flat.items()})


def abstract(config: ModelConfig) -> tuple[nnx.GraphDef, Parameters, Axes]:
    """Return structure, shapes (``jax.ShapeDtypeStruct``) and axis names of a model, without allocating it."""
    if not _is_frozen(config):  # a user's own, which may change or hold a list
        return _abstract.__wrapped__(config)
    graphdef, shapes, axes = _abstract(config)
    return graphdef, unflatten(flatten(shapes)), unflatten(flatten(axes))


def _is_frozen(config: ModelConfig) -> bool:
    """Return whether a configuration is a frozen dataclass of values that can't change either."""
    options = getattr(type(config), "__dataclass_params__", None)
    try:
        hash(config)
    except TypeError:
        return False
    return options is not None and options.frozen


# A run asks for the same structure about ten times, and each answer takes as long as building the model.
@functools.lru_cache(maxsize=16)
def _abstract(config: ModelConfig) -> tuple[nnx.GraphDef, Parameters, Axes]:
    model = jax.eval_shape(config.build, jax.random.key(0))
    graphdef, shapes = split(model)
    return graphdef, shapes, axes_of(model)


def is_constant(leaf: Any) -> bool:
    """Return whether an array, or its shape, is a constant of integers, such as a table of character ids."""
    return jnp.issubdtype(leaf.dtype, jnp.integer)


def count(params: PyTree) -> int:
    """Return the number of parameters in a tree of arrays or shapes, without constants."""
    return sum(leaf.size for leaf in without_constants(params))


def without_constants(params: PyTree) -> list[Any]:
    """Return the arrays or shapes of a tree that are parameters."""
    return [leaf for leaf in jax.tree.leaves(params) if not is_constant(leaf)]


def flatten(params: Parameters) -> dict[str, Any]:
    """Join nested keys: ``{"encoder": {"final_norm": {"scale": x}}}`` becomes ``{"encoder/final_norm/scale": x}``."""
    flat = traverse_util.flatten_dict(params)
    return {"/".join(map(str, path)): leaf for path, leaf in flat.items()}


def unflatten(flat: dict[str, Any]) -> Parameters:
    """Return nested weights from flat ones: the inverse of ``flatten``."""
    return traverse_util.unflatten_dict(flat, sep="/")


def num_rows(params: Parameters) -> dict[str, int]:
    """Return the number of layers that each weight belongs to, by path; see ``weight_patterns.rows_of``."""
    return {path: weight_patterns.rows_of(path, leaf.shape) for path, leaf in flatten(params).items()}


def select(params: Parameters, patterns: Sequence[str], *, option: str = "trainable") -> Selection:
    """Return which weights, or layers of stacked weights, patterns match; see ``weight_patterns.select``.

    Constants are never selected.

    Args:
      params: A model's whole weights, or their shapes.
      patterns: Patterns of paths, such as ``("heads/*", "encoder/layers[-2:]/*")``.
      option: Name of the option that has the patterns, for messages.

    Raises:
      ValueError: A pattern matches nothing.
    """
    leaves = flatten(params)
    selected = weight_patterns.select(patterns, num_rows(params), option=option)
    return {path: False if is_constant(leaves[path]) else rows for path, rows in selected.items()}


def partition(params: Parameters, selection: Selection) -> tuple[Parameters, Parameters]:
    """Split weights, or any tree like them, into selected and other ones, such as trained and frozen.

    >>> partition({"encoder": {"kernel": 1}, "heads": {"bias": 2}}, {"encoder/kernel": False, "heads/bias": True})
    ({'heads': {'bias': 2}}, {'encoder': {'kernel': 1}})

    Args:
      params: Nested weights, shapes or axis names. A stacked weight of which some layers are selected is in both.
      selection: For each path, from ``select``.
    """
    leaves = flatten(params)
    others = weight_patterns.invert(selection)
    parts = (
        {path: _take(leaf, each[path]) for path, leaf in leaves.items() if each[path]}
        for each in (selection, others)
    )
    selected, left = map(unflatten, parts)
    return selected, left


def combine(selected: Parameters, others: Parameters, selection: Selection) -> Parameters:
    """Join the two parts of a model's weights.

    Args:
      selected: Weights that the selection names.
      others: All other weights.
      selection: Selection that ``partition`` was called with.
    """
    return join((selected, selection), (others, weight_patterns.invert(selection)))


def join(*parts: tuple[Parameters, Selection]) -> Parameters:
    """Join parts of a model's weights, each given with the selection of all weights that it holds."""
    pieces_by_path: dict[str, list[tuple[Any, bool | tuple[bool, ...]]]] = {}
    for params, selection in parts:
        for path, leaf in flatten(params).items():
            pieces_by_path.setdefault(path, []).append((leaf, selection[path]))
    return unflatten({path: _join_rows(pieces) for path, pieces in pieces_by_path.items()})


def mark_trained(graphdef: nnx.GraphDef, params: Parameters, selection: Selection) -> nnx.GraphDef:
    """Return the structure of a model whose stacks know which of their layers are trained.

    ``layers.layer_scan`` then stops gradients at the others, so that no backward pass is computed for them.

    Args:
      graphdef: Structure of the model.
      params: Its weights, or their shapes.
      selection: Trained weights.
    """
    partly_trained = weight_patterns.partial(selection)
    if not partly_trained:
        return graphdef
    state = nnx.split(merge(graphdef, params))[1]
    for path, variable in nnx.to_flat_state(state):
        if rows := partly_trained.get("/".join(map(str, path))):
            variable.set_metadata(TRAINED_ROWS, rows)
    return nnx.split(nnx.merge(graphdef, state))[0]


def _take(leaf: Any, rows: bool | tuple[bool, ...]) -> Any:
    """Return the chosen rows of an array, their shape, or their axis names."""
    if rows is True:
        return leaf
    resized = _resized(leaf, int(np.count_nonzero(rows)))
    if resized is not None:
        return resized
    chosen = np.flatnonzero(rows)
    first, last = int(chosen[0]), int(chosen[-1])
    return leaf[first : last + 1] if last - first + 1 == len(chosen) else leaf[chosen]


def _join_rows(pieces: list[tuple[Any, bool | tuple[bool, ...]]]) -> Any:
    """Join arrays that hold different rows of a stacked weight, in the order of the rows."""
    leaf, rows = pieces[0]
    if not np.ndim(rows):
        return leaf
    resized = _resized(leaf, sum(int(np.count_nonzero(rows)) for _, rows in pieces))
    if resized is not None:
        return resized
    pieces = sorted(pieces, key=lambda piece: int(np.flatnonzero(piece[1])[0]))
    held = np.concatenate([np.flatnonzero(rows) for _, rows in pieces])
    joined = jnp.concatenate([leaf for leaf, _ in pieces])
    return joined if np.all(np.diff(held) == 1) else joined[np.argsort(held)]


def _resized(leaf: Any, num_rows: int) -> Any:
    """Return axis names as they are, and a shape with another number of rows; ``None`` for an array."""
    if isinstance(leaf, tuple):
        return leaf
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct((num_rows, *leaf.shape[1:]), leaf.dtype, sharding=leaf.sharding)
    return None
