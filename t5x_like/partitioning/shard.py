"""Shardings of weights, optimizer state and batches on a mesh."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from t5x_like.batch import token_axis
from t5x_like.partitioning.rules import BATCH_MESH_AXES, CONTEXT_MESH_AXIS, UnsplitDimension, spec_for

Tree = TypeVar("Tree")

# Dimensions of arrays in ``map_heads``.
ROWS, HEADS = "rows", "heads"


def tree_shardings(axes_tree: Any, shapes_tree: Any, mesh: Mesh) -> Any:
    """Return a sharding for each leaf of ``shapes_tree``, in its structure.

    Args:
      axes_tree: For each array a tuple with one axis name for each dimension; ``()`` or ``None`` for arrays that every
        device holds whole.
      shapes_tree: Arrays or shapes. Those of at most one element are always held whole.
      mesh: Devices.

    Raises:
      ValueError: An axis has no rule, or the names don't fit the shape; the leaf is named.
    """

    def sharding(path: Any, leaf: Any, axes: tuple[str, ...] | None) -> NamedSharding:
        return NamedSharding(mesh, _spec_of_leaf(path, leaf, axes, mesh)[0])

    return jax.tree_util.tree_map_with_path(sharding, shapes_tree, axes_tree)


def with_shardings(axes_tree: Any, shapes_tree: Any, mesh: Mesh) -> Any:
    """Return ``shapes_tree`` as ``jax.ShapeDtypeStruct`` with shardings; arguments as in ``tree_shardings``."""
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        shapes_tree,
        tree_shardings(axes_tree, shapes_tree, mesh),
    )


def sharding_notes(axes_tree: Any, shapes_tree: Any, mesh: Mesh) -> list[str]:
    """Return one line for each kind of dimension that the mesh does not divide; arguments as in ``tree_shardings``."""
    leaves: dict[UnsplitDimension, list[str]] = defaultdict(list)

    def collect(path: Any, leaf: Any, axes: tuple[str, ...] | None) -> None:
        for drop in _spec_of_leaf(path, leaf, axes, mesh)[1]:
            leaves[drop].append(_name(path))

    jax.tree_util.tree_map_with_path(collect, shapes_tree, axes_tree)
    return [
        f"{drop.axis} of {drop.size} can't be cut into {drop.mesh_axis}={drop.mesh_size} equal parts: "
        f"{names[0]} {f'and {len(names) - 1} more stay' if names[1:] else 'stays'} whole on every such device"
        for drop, names in leaves.items()
    ]


def replicated(mesh: Mesh) -> NamedSharding:
    """Return the sharding of scalars, keys and metrics: every device holds all."""
    return NamedSharding(mesh, PartitionSpec())


def batch_sharding(mesh: Mesh, *, axis: int = 0) -> NamedSharding:
    """Return the sharding of a batch: rows, on ``axis``, are split along ``data`` and ``fsdp``."""
    return NamedSharding(mesh, PartitionSpec(*(None,) * axis, BATCH_MESH_AXES))


def batch_shardings(batch: Tree, mesh: Mesh) -> Tree:
    """Return the sharding of each array: rows as in ``batch_sharding``, tokens of a ``Batch`` along ``context``.

    Tokens that ``context`` doesn't divide stay whole, as those of other tuples than a ``Batch`` do.

    Args:
      batch: Arrays or shapes.
      mesh: Devices.
    """
    parts = mesh.shape[CONTEXT_MESH_AXIS]

    def sharding(path: Any, leaf: Any) -> NamedSharding:
        axis = token_axis(getattr(path[-1], "name", "")) if path else None
        if parts == 1 or axis is None or leaf.shape[axis] % parts:
            return batch_sharding(mesh)
        between = (None,) * (len(leaf.shape) + axis - 1)
        return NamedSharding(mesh, PartitionSpec(BATCH_MESH_AXES, *between, CONTEXT_MESH_AXIS))

    return jax.tree_util.tree_map_with_path(sharding, batch)


def check_batch_size(batch_size: int, mesh: Mesh) -> None:
    """Refuse a global batch (or microbatch) whose rows the mesh does not divide.

    Raises:
      ValueError: With the nearest sizes that it divides.
    """
    groups = row_groups(mesh)
    if batch_size > 0 and batch_size % groups == 0:
        return
    below, above = batch_size // groups * groups, (batch_size // groups + 1) * groups
    sizes = " × ".join(f"{axis} {mesh.shape[axis]}" for axis in BATCH_MESH_AXES)
    nearest = f"{below} or {above}" if below > 0 else f"{above}"
    raise ValueError(
        f"a batch of {batch_size} rows can't be shared out evenly over {sizes} = {groups} groups of devices; "
        f"use {nearest} rows, or other mesh sizes"
    )


def check_sequence_length(length: int, mesh: Mesh | AbstractMesh) -> None:
    """Refuse rows that ``context`` doesn't divide, or not together with ``model``, which splits tokens too.

    Raises:
      ValueError: With the nearest lengths that it divides.
    """
    axes = (CONTEXT_MESH_AXIS, "model")
    parts = math.prod(mesh.shape[axis] for axis in axes)
    if mesh.shape[CONTEXT_MESH_AXIS] == 1 or length % parts == 0:
        return
    below, above = length // parts * parts, (length // parts + 1) * parts
    sizes = " × ".join(f"{axis} {mesh.shape[axis]}" for axis in axes if mesh.shape[axis] > 1)
    sizes = f"{sizes} = {parts} parts" if "×" in sizes else f"{sizes} parts"
    nearest = f"{below} or {above}" if below else f"{above}"
    raise ValueError(
        f"rows of {length} tokens can't be split evenly into {sizes}; use {nearest} tokens (INPUTS_LENGTH, "
        "TARGETS_LENGTH), or other mesh sizes"
    )


class RowShare(NamedTuple):
    """Rows of this process: part ``index`` of ``count`` equal, contiguous parts of every global batch."""

    index: int
    count: int


def row_share(mesh: Mesh) -> RowShare:
    """Return the part of each batch that this process must read.

    Usually each process has its own. Processes whose devices differ along ``context`` or ``model`` only read the same
    part.
    """
    if jax.process_count() == 1:
        return RowShare(0, 1)
    groups_of: dict[int, set[int]] = defaultdict(set)
    for group, devices in enumerate(mesh.devices.reshape(row_groups(mesh), -1)):
        for device in devices:
            groups_of[device.process_index].add(group)
    parts = sorted({tuple(sorted(groups)) for groups in groups_of.values()})
    if sum(len(part) for part in parts) != row_groups(mesh):
        raise ValueError(
            "processes hold overlapping, unequal parts of the batch on this mesh; "
            "choose context and model axes whose product divides the devices of a process, or is a multiple of them"
        )
    return RowShare(parts.index(tuple(sorted(groups_of[jax.process_index()]))), len(parts))


def place(batch: Tree, mesh: Mesh) -> Tree:
    """Return a global batch on the mesh from the rows that this process has read (see :func:`row_share`).

    Processes that differ along ``context`` have read the same rows, and place the tokens of their devices.
    """
    count = row_share(mesh).count

    def to_mesh(rows: np.ndarray, sharding: NamedSharding) -> jax.Array:
        return jax.make_array_from_process_local_data(sharding, rows, (len(rows) * count, *rows.shape[1:]))

    return jax.tree.map(to_mesh, batch, batch_shardings(batch, mesh))


def constrain_rows(activations: jax.Array) -> jax.Array:
    """Shard the leading dimension like the batch, inside jit; other dimensions are left to the compiler.

    Otherwise the compiler may shard activations like the fsdp weights and gather whole batches. Does nothing where no
    mesh is set (``jax.set_mesh``) or the rows don't divide.
    """
    rest = (PartitionSpec.UNCONSTRAINED,) * (activations.ndim - 1)
    return _constrain(activations, *rest) if _divided_by(activations) else activations


def constrain_state(state: Tree) -> Tree:
    """Shard the leading dimension of each array like the batch, and keep the others whole; inside jit.

    For what a recurrent loop reads, carries and returns. See ``gather_weight``.
    """

    def constrain(part: jax.Array) -> jax.Array:
        return _constrain(part, *(None,) * (part.ndim - 1)) if _divided_by(part) else part

    return jax.tree.map(constrain, state)


def gather_weight(weight: jax.Array, axes: tuple[str, ...]) -> jax.Array:
    """Gather a weight along ``data`` and ``fsdp`` before a recurrent loop, which would do so in each pass; inside jit.

    The loop's gradient is also wrong without this and ``constrain_state``, where rows are split along ``data`` and
    ``fsdp``, the weight along ``fsdp`` and ``model``, and layers read in both directions (JAX 0.10.2 with Shardy).

    Args:
      weight: Of a layer inside the loop.
      axes: Axis name of each dimension.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if not _has_rules(mesh):
        return weight
    kept = [
        tuple(
            name for name in ((part,) if isinstance(part, str) else part or ()) if name not in BATCH_MESH_AXES
        )
        for part in spec_for(axes, weight.shape, mesh)[0]
    ]
    return jax.lax.with_sharding_constraint(weight, PartitionSpec(*(names or None for names in kept)))


def constrain_tokens(activations: jax.Array) -> jax.Array:
    """Shard [rows, tokens, ...] between layers, inside jit: tokens along ``context`` and ``model``.

    Layers gather the tokens that ``model`` splits and scatter their sums. In the forward pass this moves as many bytes
    as summing on all devices; the backward pass gathers once more. Norms and activations that it needs are then split,
    too (Korthikanti et al. 2022, §4.2.2). Where ``model`` doesn't divide the tokens, ``context`` alone splits them;
    where it doesn't either, only rows are sharded.
    """
    for axes in ((CONTEXT_MESH_AXIS, "model"), (CONTEXT_MESH_AXIS,)):
        if _divided_by(activations, *axes, axis=1):
            return _constrain(activations, axes)
    return constrain_rows(activations)


def gather_tokens(activations: jax.Array) -> jax.Array:
    """Undo the split of tokens along ``model`` for a layer that is itself split along ``model``; inside jit.

    Otherwise the compiler may keep the tokens split, gather the layer's weights instead, and exchange its results.
    Along ``context`` they stay split.
    """
    if _divided_by(activations, CONTEXT_MESH_AXIS, "model", axis=1):
        return _constrain(activations, CONTEXT_MESH_AXIS)
    return activations


def constrain_inner(activations: jax.Array, axis: int) -> jax.Array:
    """Shard activations inside a layer: ``axis`` along ``model``, and the others whole but for the first; inside jit.

    The first axis is left to the compiler: of experts it is no rows of the batch. So are the others where ``context``
    may split them. Does nothing where ``model`` is 1 or doesn't divide the axis.
    """
    if not _divided_by(activations, "model", axis=axis):
        return activations
    has_context = jax.sharding.get_abstract_mesh().shape[CONTEXT_MESH_AXIS] > 1
    between = (PartitionSpec.UNCONSTRAINED if has_context else None,) * (axis % activations.ndim - 1)
    spec = PartitionSpec(PartitionSpec.UNCONSTRAINED, *between, "model")
    return jax.lax.with_sharding_constraint(activations, spec)


def num_context_parts(num_rows: int, *lengths: int) -> int:
    """Return the number of parts that ``context`` splits rows into; 1 where it doesn't divide one of the lengths."""
    mesh = jax.sharding.get_abstract_mesh()
    if not _has_rules(mesh) or num_rows % row_groups(mesh):
        return 1
    parts = mesh.shape[CONTEXT_MESH_AXIS]
    return 1 if any(length % parts for length in lengths) else parts


def _divided_by(activations: jax.Array, *mesh_axes: str, axis: int = 0) -> bool:
    """Return whether a mesh is set that divides the rows, and whether its axes cut a dimension evenly."""
    mesh = jax.sharding.get_abstract_mesh()
    if not _has_rules(mesh) or len(activations) % row_groups(mesh):
        return False
    parts = math.prod(mesh.shape[name] for name in mesh_axes)
    return not mesh_axes or (parts > 1 and activations.shape[axis] % parts == 0)


def _constrain(activations: jax.Array, *rest: Any) -> jax.Array:
    return jax.lax.with_sharding_constraint(activations, PartitionSpec(BATCH_MESH_AXES, *rest))


def map_tokens(function: Callable[..., Tree], shared: Any, *tokens: jax.Array) -> Tree:
    """Return ``function(shared, *tokens)``, run on every group of devices for its own rows and tokens; inside jit.

    ``shared`` is gathered along ``data`` and ``fsdp`` once, and its gradient is summed over them and ``context`` once.
    The compiler would do both in each pass of a loop in ``function``. Without a mesh, or where the rows don't divide,
    the function runs as it is.

    Args:
      function: Called with ``shared`` and arrays [rows, tokens, ...]; returns such arrays.
      shared: Weights; cut along ``model`` as the compiler chooses.
      tokens: Arrays of the batch's tokens.
    """
    num_rows, length = tokens[0].shape[:2]
    mesh, parts = jax.sharding.get_abstract_mesh(), num_context_parts(num_rows, length)
    if not _has_rules(mesh) or row_groups(mesh) * parts == 1 or num_rows % row_groups(mesh):
        return function(shared, *tokens)
    axes = (*BATCH_MESH_AXES, CONTEXT_MESH_AXIS) if parts > 1 else BATCH_MESH_AXES

    def on_own_tokens(shared: Any, *tokens: jax.Array) -> Any:
        # Varying from here on: the sum over devices is then the transpose of this line, outside of all loops.
        varying = jax.tree.map(lambda leaf: jax.lax.pcast(leaf, axes, to="varying"), shared)
        return function(varying, *tokens)

    of_tokens = PartitionSpec(BATCH_MESH_AXES, CONTEXT_MESH_AXIS if parts > 1 else None)
    return jax.shard_map(
        on_own_tokens,
        in_specs=(PartitionSpec(), *(of_tokens,) * len(tokens)),
        out_specs=of_tokens,
        axis_names=set(axes),
    )(shared, *tokens)


def map_heads(
    function: Callable[..., Any], arrays: tuple[Any, ...], dims: Any, out_dims: Any, *, sizes: Sequence[int]
) -> Any:
    """Return ``function(*arrays)``, run on every device for its own rows and heads; inside jit.

    For what the compiler can't split, such as Pallas kernels. It is not differentiated: both passes call it themselves.
    Without a mesh the function runs as it is. Rows or heads that the mesh doesn't divide are whole on every device.

    Args:
      function: Called with parts of the arrays.
      arrays: Trees of arrays.
      dims: For each array, or each tree, a ``PartitionSpec`` of ``ROWS``, ``HEADS`` and ``None``.
      out_dims: The same for the results.
      sizes: Numbers of rows and of heads.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if not _has_rules(mesh) or mesh.size == 1:
        return function(*arrays)
    axes = {
        ROWS: BATCH_MESH_AXES if sizes[0] % row_groups(mesh) == 0 else None,
        HEADS: "model" if num_parts_of_heads(sizes[1]) > 1 else None,
    }

    def spec(dims: PartitionSpec) -> PartitionSpec:
        return PartitionSpec(*(axes.get(dim) for dim in dims))

    in_specs, out_specs = jax.tree.map(
        spec, (dims, out_dims), is_leaf=lambda each: isinstance(each, PartitionSpec)
    )
    return jax.shard_map(function, in_specs=in_specs, out_specs=out_specs, check_vma=False)(*arrays)


def num_parts_of_heads(num_heads: int) -> int:
    """Return over how many devices the mesh splits heads: 1 without a mesh, or where ``model`` doesn't divide them."""
    mesh = jax.sharding.get_abstract_mesh()
    return mesh.shape["model"] if _has_rules(mesh) and num_heads % mesh.shape["model"] == 0 else 1


def _has_rules(mesh: AbstractMesh) -> bool:
    """Return whether a mesh is set, and has the axes that the rules name."""
    return not mesh.empty and set(BATCH_MESH_AXES) <= set(mesh.axis_names)


def row_groups(mesh: Mesh | AbstractMesh) -> int:
    """Return the number of groups of devices that hold different rows of a batch."""
    return math.prod(mesh.shape[axis] for axis in BATCH_MESH_AXES)


def _spec_of_leaf(
    path: Any, leaf: Any, axes: tuple[str, ...] | None, mesh: Mesh
) -> tuple[PartitionSpec, list[UnsplitDimension]]:
    if not axes or math.prod(leaf.shape) <= 1:
        return PartitionSpec(), []
    try:
        return spec_for(axes, leaf.shape, mesh)
    except ValueError as error:
        raise ValueError(f"{_name(path)}: {error}") from error


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
