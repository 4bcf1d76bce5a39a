"""Partitioning rules: from axis names of weights to axes of the mesh."""

import difflib
import math
from typing import NamedTuple

from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from t5x_like.nested_values import one_or_several

# Mesh axes a dimension may be cut along, in order of preference. An array uses each mesh axis once: its first
# dimension that names the mesh axis, and that the axis divides, takes it. Axes in parentheses cut a dimension together
# or not at all.
#
# Rows of an embedding table are cut over all axes, not rows over one and columns over the other, which makes
# XLA rebuild the whole table at every lookup ("involuntary full rematerialization"). In the head's kernel
# [embed, vocab] the embed dimension comes first and takes fsdp and expert. Norm scales are small: cutting them would
# cost more communication than it saves memory.
#
# Experts are cut along expert and fsdp, each expert kept whole there: tokens travel to their experts within the axes
# that have split them (see experts.py) and expert weights, the most there are, never travel. Along data weights are
# copies by definition, and model already cuts inside each expert. Where fsdp doesn't divide what expert leaves, "embed"
# takes it and experts are gathered along it as other weights are. For other weights the expert axis is one more fsdp.
# The router's scores are needed for every token: they stay whole.
RULES: dict[str, tuple[str | tuple[str, ...], ...]] = {
    "layers": (),
    "vocab": ("model", ("fsdp", "expert")),
    "entities": ("model", ("fsdp", "expert")),
    "embed": ("fsdp", "expert"),
    "mlp": ("model",),
    "joined_heads": ("model",),
    "joined_kv_heads": ("model",),
    "heads": ("model",),
    "experts": ("expert", "fsdp"),
    "experts_router": (),
    "relpos_buckets": (),
    "kv": (),
    "conv": (),
    "norm": (),
    "positions": (),
    "embed_factor": (),
    "classes": (),
    "characters": (),
    "adapter": (),
}

# Activations and batches: rows are cut along all axes that carry data, and along their length.
BATCH_MESH_AXES = ("data", "fsdp", "expert")
CONTEXT_MESH_AXIS = "context"


class UnsplitDimension(NamedTuple):
    """A dimension that a mesh axis does not divide, and that stays whole along it."""

    axis: str
    size: int
    mesh_axis: str
    mesh_size: int


def spec_for(
    axes: tuple[str, ...], shape: tuple[int, ...], mesh: Mesh | AbstractMesh
) -> tuple[PartitionSpec, list[UnsplitDimension]]:
    """Return the partition spec of an array, and dimensions that had to stay whole.

    Args:
      axes: Axis name of each dimension.
      shape: Shape of the array.
      mesh: Devices.

    Raises:
      ValueError: An axis has no rule, or there isn't one name for each dimension.
    """
    if len(axes) != len(shape):
        raise ValueError(f"axes {axes} name {len(axes)} dimensions of an array of shape {shape}")
    used: list[tuple[str, ...]] = []
    dropped: list[tuple[UnsplitDimension, tuple[str, ...]]] = []
    for axis, size in zip(axes, shape, strict=True):
        chosen_axes: tuple[str, ...] = ()
        pieces = 1
        for group in _rule(axis):
            names = tuple(
                name
                for name in one_or_several(group)
                if mesh.shape[name] > 1 and not any(name in earlier for earlier in used)
            )
            parts = math.prod(mesh.shape[name] for name in names)
            if size % (pieces * parts):
                dropped.append((UnsplitDimension(axis, size, " x ".join(names), parts), names))
                continue
            chosen_axes, pieces = (*chosen_axes, *names), pieces * parts
        used.append(chosen_axes)
    still_whole = [
        drop
        for drop, names in dropped
        if not any(name in chosen_axes for name in names for chosen_axes in used)
    ]
    return PartitionSpec(
        *(chosen_axes[0] if len(chosen_axes) == 1 else chosen_axes or None for chosen_axes in used)
    ), still_whole


def sharding_for(axes: tuple[str, ...], shape: tuple[int, ...], mesh: Mesh) -> NamedSharding:
    """Return the sharding of one array.

    Args:
      axes: Axis name of each dimension.
      shape: Shape of the array.
      mesh: Devices.
    """
    return NamedSharding(mesh, spec_for(axes, shape, mesh)[0])


def _rule(axis: str) -> tuple[str | tuple[str, ...], ...]:
    if axis in RULES:
        return RULES[axis]
    near = difflib.get_close_matches(axis, RULES, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known axes: {', '.join(RULES)}"
    raise ValueError(f"no partitioning rule for the weight axis {axis!r}; {hint}")
