"""Shardings of weights, optimizer state and batches on a mesh."""

import math
from collections import defaultdict
from typing import NamedTuple, TypeVar

import jax
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec
from jax.tree_util import KeyPath
from jaxtyping import PyTree

from t5x_like.batch import Batch, DataField, token_axis
from t5x_like.partitioning.mesh import shown_sizes
from t5x_like.partitioning.rules import BATCH_MESH_AXES, CONTEXT_MESH_AXIS, UnsplitDimension, spec_for

Tree = TypeVar("Tree")


def tree_shardings(axes_tree: PyTree, shapes_tree: PyTree, mesh: Mesh) -> PyTree:
    """Return a sharding for each leaf of ``shapes_tree``, in its structure.

    Args:
      axes_tree: For each array a tuple with one axis name for each dimension; ``()`` or ``None`` for arrays that every
        device holds whole.
      shapes_tree: Arrays or shapes. Those of at most one element are always held whole.
      mesh: Devices.

    Raises:
      ValueError: An axis has no rule, or the names don't fit the shape; the leaf is named.
    """

    def sharding(
        path: KeyPath, leaf: jax.Array | jax.ShapeDtypeStruct, axes: tuple[str, ...] | None
    ) -> NamedSharding:
        return NamedSharding(mesh, _spec_of_leaf(path, leaf, axes, mesh)[0])

    return jax.tree_util.tree_map_with_path(sharding, shapes_tree, axes_tree)


def with_shardings(axes_tree: PyTree, shapes_tree: PyTree, mesh: Mesh) -> PyTree:
    """Return shapes as ``jax.ShapeDtypeStruct`` with shardings.

    Args:
      axes_tree: Axis names of each array, as in ``tree_shardings``.
      shapes_tree: Arrays or shapes.
      mesh: Devices.
    """
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        shapes_tree,
        tree_shardings(axes_tree, shapes_tree, mesh),
    )


def sharding_notes(axes_tree: PyTree, shapes_tree: PyTree, mesh: Mesh) -> list[str]:
    """Return one line for each kind of dimension that the mesh does not divide.

    Args:
      axes_tree: Axis names of each array, as in ``tree_shardings``.
      shapes_tree: Arrays or shapes.
      mesh: Devices.
    """
    leaves: dict[UnsplitDimension, list[str]] = defaultdict(list)

    def collect(path: KeyPath, leaf: jax.Array | jax.ShapeDtypeStruct, axes: tuple[str, ...] | None) -> None:
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
    """Return the sharding of a batch, whose rows are split along the batch's mesh axes.

    Args:
      mesh: Devices.
      axis: Dimension of the rows.
    """
    return NamedSharding(mesh, PartitionSpec(*(None,) * axis, BATCH_MESH_AXES))


def batch_shardings(batch: PyTree, mesh: Mesh) -> PyTree:
    """Return the sharding of each array: rows as in ``batch_sharding``, tokens of a ``Batch`` along ``context``.

    Tokens that ``context`` doesn't divide stay whole, as those of other trees than a ``Batch`` do.

    Args:
      batch: Arrays or shapes.
      mesh: Devices.
    """
    if not isinstance(batch, Batch):
        return jax.tree.map(lambda _: batch_sharding(mesh), batch)
    parts = mesh.shape[CONTEXT_MESH_AXIS]

    def sharding(field: DataField, stream: jax.Array | jax.ShapeDtypeStruct) -> NamedSharding:
        axis = token_axis(field.level)
        if parts == 1 or axis is None or stream.shape[axis] % parts:
            return batch_sharding(mesh)
        between = (None,) * (len(stream.shape) + axis - 1)
        return NamedSharding(mesh, PartitionSpec(BATCH_MESH_AXES, *between, CONTEXT_MESH_AXIS))

    return batch.map(sharding)


def check_batch_size(batch_size: int, mesh: Mesh) -> None:
    """Refuse a global batch (or microbatch) whose rows the mesh does not divide.

    Args:
      batch_size: Rows of a batch or microbatch on all devices.
      mesh: Devices.

    Raises:
      ValueError: With the nearest sizes that it divides.
    """
    groups = row_groups(mesh)
    if batch_size > 0 and batch_size % groups == 0:
        return
    below, above = batch_size // groups * groups, (batch_size // groups + 1) * groups
    batch_sizes = shown_sizes({axis: mesh.shape[axis] for axis in BATCH_MESH_AXES})
    sizes = " × ".join(f"{axis} {size}" for axis, size in batch_sizes.items())
    nearest = f"{below} or {above}" if below > 0 else f"{above}"
    raise ValueError(
        f"a batch of {batch_size} rows can't be shared out evenly over {sizes} = {groups} groups of devices; "
        f"use {nearest} rows, or other mesh sizes"
    )


def check_experts(num_experts: int, parts: int) -> None:
    """Refuse an ``expert`` axis that doesn't divide a model's experts.

    Args:
      num_experts: Experts of a layer; 0 for a model without.
      parts: Devices along ``expert``.

    Raises:
      ValueError: With the sizes that divide them.
    """
    if parts == 1 or (num_experts and num_experts % parts == 0):
        return
    if not num_experts:
        raise ValueError(
            f"the mesh has expert={parts}, and the model has no experts; use fsdp={parts} instead"
        )
    sizes = ", ".join(str(size) for size in range(1, num_experts + 1) if num_experts % size == 0)
    raise ValueError(f"expert={parts} can't share out {num_experts} experts evenly; use one of {sizes}")


def check_sequence_length(length: int, mesh: Mesh | AbstractMesh) -> None:
    """Refuse rows that ``context`` doesn't divide, or not together with ``model``, which splits tokens too.

    Args:
      length: Tokens of a row.
      mesh: Devices.

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

    Args:
      batch: Rows that this process has read.
      mesh: Devices of all processes.
    """
    count = row_share(mesh).count

    def to_mesh(rows: np.ndarray, sharding: NamedSharding) -> jax.Array:
        return jax.make_array_from_process_local_data(sharding, rows, (len(rows) * count, *rows.shape[1:]))

    return jax.tree.map(to_mesh, batch, batch_shardings(batch, mesh))


def row_groups(mesh: Mesh | AbstractMesh) -> int:
    """Return the number of groups of devices that hold different rows of a batch."""
    return math.prod(mesh.shape[axis] for axis in BATCH_MESH_AXES)


def _spec_of_leaf(
    path: KeyPath, leaf: jax.Array | jax.ShapeDtypeStruct, axes: tuple[str, ...] | None, mesh: Mesh
) -> tuple[PartitionSpec, list[UnsplitDimension]]:
    if not axes or math.prod(leaf.shape) <= 1:
        return PartitionSpec(), []
    try:
        return spec_for(axes, leaf.shape, mesh)
    except ValueError as error:
        raise ValueError(f"{_name(path)}: {error}") from error


def _name(path: KeyPath) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
