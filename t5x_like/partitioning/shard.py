"""Lays weights, optimizer state and batches out on a mesh."""

import math
from collections import defaultdict
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from t5x_like.partitioning.rules import BATCH_MESH_AXES, UnsplitDimension, spec_for

Tree = TypeVar("Tree")


def tree_shardings(axes_tree: Any, shapes_tree: Any, mesh: Mesh) -> Any:
    """A sharding for each leaf of ``shapes_tree``, in its structure.

    ``axes_tree`` has, where ``shapes_tree`` has an array, a tuple with one logical axis name for each
    dimension; ``()`` or ``None`` for what every device holds whole. Scalars and placeholders of at most one
    element are always held whole.

    Raises:
      ValueError: naming the leaf, an axis has no rule or the names don't fit the shape.
    """

    def sharding(path: Any, leaf: Any, axes: tuple[str, ...] | None) -> NamedSharding:
        return NamedSharding(mesh, _spec_of_leaf(path, leaf, axes, mesh)[0])

    return jax.tree_util.tree_map_with_path(sharding, shapes_tree, axes_tree)


def with_shardings(axes_tree: Any, shapes_tree: Any, mesh: Mesh) -> Any:
    """``shapes_tree`` as ``jax.ShapeDtypeStruct`` leaves that carry the shardings of ``tree_shardings``."""
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        shapes_tree,
        tree_shardings(axes_tree, shapes_tree, mesh),
    )


def sharding_notes(axes_tree: Any, shapes_tree: Any, mesh: Mesh) -> list[str]:
    """One line for each kind of dimension that the mesh could not cut evenly, to print at start-up."""
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
    """The sharding of scalars, keys and metrics: every device holds all of it."""
    return NamedSharding(mesh, PartitionSpec())


def batch_sharding(mesh: Mesh, *, axis: int = 0) -> NamedSharding:
    """The sharding of a batch: rows, on ``axis``, are cut along ``data`` and ``fsdp``, all other dimensions whole."""
    return NamedSharding(mesh, PartitionSpec(*(None,) * axis, BATCH_MESH_AXES))


def check_batch_size(batch_size: int, mesh: Mesh) -> None:
    """Refuses a global batch (or microbatch) whose rows can't be shared out evenly.

    Raises:
      ValueError: with the nearest sizes that would do.
    """
    groups = _row_groups(mesh)
    if batch_size > 0 and batch_size % groups == 0:
        return
    below, above = batch_size // groups * groups, (batch_size // groups + 1) * groups
    sizes = " × ".join(f"{axis} {mesh.shape[axis]}" for axis in BATCH_MESH_AXES)
    nearest = f"{below} or {above}" if below > 0 else f"{above}"
    raise ValueError(
        f"a batch of {batch_size} rows can't be shared out evenly over {sizes} = {groups} groups of devices; "
        f"use {nearest} rows, or other mesh sizes"
    )


class RowShare(NamedTuple):
    """This process reads part ``index`` of ``count`` equal, contiguous parts of every global batch."""

    index: int
    count: int


def row_share(mesh: Mesh) -> RowShare:
    """Which rows of each batch this process must read.

    Usually one part for each process. Processes whose devices differ along ``model`` only hold the same rows,
    and read the same part.
    """
    if jax.process_count() == 1:
        return RowShare(0, 1)
    groups_of: dict[int, set[int]] = defaultdict(set)
    for group, devices in enumerate(mesh.devices.reshape(_row_groups(mesh), -1)):
        for device in devices:
            groups_of[device.process_index].add(group)
    parts = sorted({tuple(sorted(groups)) for groups in groups_of.values()})
    if sum(len(part) for part in parts) != _row_groups(mesh):
        raise ValueError(
            "processes hold overlapping, unequal parts of the batch on this mesh; "
            "choose a model axis that divides the devices of a process, or is a multiple of them"
        )
    return RowShare(parts.index(tuple(sorted(groups_of[jax.process_index()]))), len(parts))


def place(batch: Tree, mesh: Mesh) -> Tree:
    """Turns the rows this process read (numpy, see :func:`row_share`) into one global batch on the mesh.

    Absent streams (``None``) stay absent.
    """
    sharding, count = batch_sharding(mesh), row_share(mesh).count

    def to_mesh(rows: np.ndarray) -> jax.Array:
        return jax.make_array_from_process_local_data(sharding, rows, (len(rows) * count, *rows.shape[1:]))

    return jax.tree.map(to_mesh, batch)


def constrain_rows(activations: jax.Array) -> jax.Array:
    """Inside jit, keeps the leading dimension cut like the batch; other dimensions are left to the compiler.

    Without it the compiler may prefer to cut activations like the fsdp weights and gather whole batches. Does
    nothing where no mesh is set (``jax.set_mesh``) or the rows don't divide.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or not set(BATCH_MESH_AXES) <= set(mesh.axis_names):
        return activations
    if activations.shape[0] % math.prod(mesh.shape[axis] for axis in BATCH_MESH_AXES):
        return activations
    rest = (PartitionSpec.UNCONSTRAINED,) * (activations.ndim - 1)
    return jax.lax.with_sharding_constraint(activations, PartitionSpec(BATCH_MESH_AXES, *rest))


def _row_groups(mesh: Mesh) -> int:
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
