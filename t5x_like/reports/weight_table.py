"""Text table of a model's weights: a tree with totals, and the shard of each weight on a device of a mesh."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from t5x_like.model.layers.mixture_of_experts import parameters_text
from t5x_like.model.parameters import ModelConfig, abstract, count, flatten, is_constant, merge, unflatten
from t5x_like.nested_values import one_or_several
from t5x_like.partitioning.mesh import shown_sizes
from t5x_like.partitioning.shard import sharding_notes, tree_shardings
from t5x_like.reports.score_tables import aligned

_BYTES = 4  # weights are float32 in every compute type, and constants int32


class TableWeight(NamedTuple):
    """One weight.

    Attributes:
      shape: Shape of the whole weight.
      axes: Names of its axes.
      cut: Mesh axes that shard it.
      part: Shape of its shard on a device.
      is_constant: It is no parameter; see ``parameters.is_constant``.
    """

    shape: tuple[int, ...]
    axes: tuple[str, ...]
    cut: tuple[Any, ...]
    part: tuple[int, ...]
    is_constant: bool


Tree: TypeAlias = "dict[str, TableWeight | Tree]"


def weight_table(config: ModelConfig, mesh: Any = None) -> str:
    """Return a table of a model's weights below its totals.

    Args:
      config: Model configuration.
      mesh: A ``Mesh`` or ``AbstractMesh``; adds the shard of each weight that one of its devices holds.
    """
    graphdef, shapes, axes = abstract(config)
    names, weights = flatten(axes), flatten(shapes)
    shardings = {} if mesh is None else flatten(tree_shardings(axes, shapes, mesh))
    weights_by_path = {}
    for path, weight in weights.items():
        cut = shardings[path].spec if shardings else ()
        part = shardings[path].shard_shape(weight.shape) if shardings else weight.shape
        weights_by_path[path] = TableWeight(weight.shape, names[path], tuple(cut), part, is_constant(weight))
    size = sum(math.prod(weight.shape) for weight in weights_by_path.values())
    sizes = parameters_text(merge(graphdef, shapes), count(shapes))
    lines = [f"{type(config).__name__}: {sizes}, {_size(size)} in float32"]
    if mesh is not None:
        sizes = " × ".join(f"{axis} {size}" for axis, size in shown_sizes(mesh.shape).items())
        held = _size(sum(math.prod(weight.part) for weight in weights_by_path.values()))
        lines.append(
            f"{sizes} = {mesh.size} devices: {held} on each; optimizer state and gradients come on top"
        )
    heads = ["weight", "shape", "axes", "cut along", "on each device", "parameters", "float32", "each device"]
    rows = [heads, *_rows(unflatten(weights_by_path), "")]
    if mesh is None:
        rows = [[*row[:3], *row[5:7]] for row in rows]
    notes = [] if mesh is None else sharding_notes(axes, shapes, mesh)
    table = aligned(rows, left=3 if mesh is None else 5)
    return "\n".join([*lines, "", table, *(f"note: {note}" for note in notes)])


def _rows(tree: Tree, indent: str) -> Iterator[list[str]]:
    for name, inner in tree.items():
        while isinstance(inner, dict) and len(inner) == 1:  # one line for nested folders
            ((only, inner),) = inner.items()
            name = f"{name}/{only}"
        num_parameters, size, held = _counts(inner)
        totals = [f"{num_parameters:,}", _size(size), _size(held)]
        if isinstance(inner, dict):
            yield [f"{indent}{name}", "", "", "", "", *totals]
            yield from _rows(inner, f"{indent}  ")
        else:
            cut = ", ".join(map(_mesh_axes, inner.cut)) if any(inner.cut) else "whole"
            shapes = [" × ".join(map(str, shape)) for shape in (inner.shape, inner.part)]
            yield [f"{indent}{name}", shapes[0], ", ".join(inner.axes), cut, shapes[1], *totals]


def _counts(tree: "TableWeight | Tree") -> tuple[int, int, int]:
    """Return the number of parameters, and of all numbers in all and on each device."""
    if isinstance(tree, dict):
        counts = [_counts(inner) for inner in tree.values()]
        return (
            sum(each[0] for each in counts),
            sum(each[1] for each in counts),
            sum(each[2] for each in counts),
        )
    size = math.prod(tree.shape)
    return 0 if tree.is_constant else size, size, math.prod(tree.part)


def _mesh_axes(cut: str | tuple[str, ...] | None) -> str:
    return "+".join(one_or_several(cut)) or "-"


def _size(count: int) -> str:
    size = float(count * _BYTES)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.2f} TiB"
