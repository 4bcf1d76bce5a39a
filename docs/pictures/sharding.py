"""Three arrays on a mesh of eight devices, cut by the rules that training uses."""

import os
from typing import NamedTuple

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"

import jax
from jax.sharding import NamedSharding, PartitionSpec
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from docs.pictures.style import Palette, add_box, new_figure
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.rules import BATCH_MESH_AXES, spec_for


class ShardedArray(NamedTuple):
    """One array of the picture.

    Attributes:
      title: what it is.
      axes: a name for each dimension, as in the rules; "rows" and "length" are a batch's.
      shape: of the array.
    """

    title: str
    axes: tuple[str, str]
    shape: tuple[int, int]


MESH = MeshConfig(data=2, fsdp=2, model=2)
ARRAYS = (
    ShardedArray("a batch", ("rows", "length"), (16, 512)),
    ShardedArray("token embedding", ("vocab", "embed"), (32128, 768)),
    ShardedArray("feed-forward kernel", ("embed", "mlp"), (768, 2048)),
)


class Piece(NamedTuple):
    """A part of an array, as shares of it: top, bottom, left, right; and the devices that hold it."""

    top: float
    bottom: float
    left: float
    right: float
    devices: tuple[int, ...]


def pieces(array: ShardedArray) -> tuple[str, list[Piece]]:
    """Return the partition spec of an array and its parts."""
    mesh = MESH.build(jax.devices()[:8])
    is_batch = array.axes[0] == "rows"
    spec = PartitionSpec(BATCH_MESH_AXES) if is_batch else spec_for(array.axes, array.shape, mesh)[0]
    holders: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for device, index in NamedSharding(mesh, spec).devices_indices_map(array.shape).items():
        part = tuple(each.indices(size)[:2] for each, size in zip(index, array.shape, strict=True))
        holders.setdefault(part, []).append(device.id)
    shares = []
    for part, ids in holders.items():
        (top, bottom), (left, right) = part
        height, width = array.shape
        shares.append(Piece(top / height, bottom / height, left / width, right / width, tuple(sorted(ids))))
    names = [
        each if isinstance(each, str) else "+".join(each) if each else "whole" for each in (*spec, None, None)
    ][:2]
    return ", ".join(f"{axis}: {name}" for axis, name in zip(array.axes, names, strict=True)), shares


def draw(palette: Palette) -> Figure:
    """Draw the mesh, then the arrays with the devices that hold each part."""
    figure, axes = new_figure(9.6, 4.0)
    _draw_mesh(axes, palette)
    for number, array in enumerate(ARRAYS):
        _draw_array(axes, array, 3.15 + number * 2.2, palette)
    return figure


def _draw_mesh(axes: Axes, palette: Palette) -> None:
    axes.text(1.4, 3.72, "data 2 × fsdp 2 × model 2", ha="center", weight="bold", fontsize=10)
    devices = MESH.build(jax.devices()[:8]).devices
    for data in range(2):
        left, bottom = 0.25, 2.05 - data * 1.6
        add_box(axes, left, bottom, 2.3, 1.45, face="none", edge=palette.line)
        axes.text(left + 0.1, bottom + 1.26, f"data {data}", color=palette.faint, fontsize=8.5, va="center")
        for fsdp in range(2):
            for model in range(2):
                x, y = left + 0.75 + model * 0.75, bottom + 0.62 - fsdp * 0.52
                add_box(axes, x, y, 0.62, 0.42, face=palette.paper, edge=palette.accents[2])
                axes.text(
                    x + 0.31, y + 0.2, str(devices[data, fsdp, 0, 0, model].id), ha="center", va="center"
                )
            axes.text(
                left + 0.1,
                bottom + 0.82 - fsdp * 0.52,
                f"fsdp {fsdp}",
                color=palette.faint,
                fontsize=8.5,
                va="center",
            )
        for model in range(2):
            axes.text(
                left + 1.06 + model * 0.75,
                bottom + 1.16,
                f"model {model}",
                color=palette.faint,
                fontsize=8,
                ha="center",
            )


def _draw_array(axes: Axes, array: ShardedArray, left: float, palette: Palette) -> None:
    width, top, height = 1.9, 3.1, 2.3
    spec, parts = pieces(array)
    axes.text(left + width / 2, 3.72, array.title, ha="center", weight="bold", fontsize=10)
    shape = " × ".join(f"{size:,}" for size in array.shape)
    axes.text(
        left + width / 2,
        3.5,
        f"{' × '.join(array.axes)}: {shape}",
        ha="center",
        color=palette.faint,
        fontsize=8.5,
    )
    axes.text(left + width / 2, 3.24, spec, ha="center", color=palette.accents[1], fontsize=8.5)
    for number, part in enumerate(sorted(parts)):
        x, y = left + part.left * width, top - part.bottom * height
        wide, high = (part.right - part.left) * width, (part.bottom - part.top) * height
        color = palette.accents[number % len(palette.accents)]
        axes.add_patch(
            Rectangle((x, y), wide, high, facecolor=color, alpha=0.28, edgecolor=color, linewidth=1)
        )
        axes.text(
            x + wide / 2,
            y + high / 2,
            " ".join(map(str, part.devices)),
            ha="center",
            va="center",
            fontsize=10,
        )
    copies = 8 * len(parts[0].devices) // 8
    words = f"{len(parts)} parts, each on {copies} devices"
    axes.text(left + width / 2, 0.52, words, ha="center", color=palette.faint, fontsize=8.5)
