"""Groups of devices that talk to each other in a collective, and the mesh axes along which they lie."""

import itertools
import math
import re
from typing import NamedTuple

import numpy as np

_LISTS = re.compile(r"replica_groups=\{(\{[\d,{}]*\})?\}")
_IOTA = re.compile(r"replica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(r"replica_groups=@?[\w.]*mesh\[([^\]]*)\](?:, device_ids=\(([^{]*)\))? ?\{([^}]*)\}")
_ORDER = re.compile(r"\[([\d,]+)\](?:T\(([\d,]+)\))?")
_AXIS_OF_MESH = re.compile(r"'([^']+)'=(\d+)")
_AXIS_OF_GROUP = re.compile(r"'([^']+)'(?::\((\d+)\)(\d+))?")
# Data that TPU programs hand to the host, which exchanges it with other slices: "{1,2}x{0:15}" names two slices.
_TRANSFER = re.compile(r'_xla_megascale_transfer_type="(\w+)"')
_TARGET = re.compile(r'_xla_megascale_target="\{([\d,:]+)\}x')
_PAIRS = re.compile(r"source_target_pairs=\{([\d,{}]*)\}")


BETWEEN_SLICES = ("slices",)  # in the place of mesh axes, for what the data center's network carries


class MeshShape(NamedTuple):
    """Names and sizes of a mesh's axes; device ``i`` of the program is at place ``i`` in row-major order."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def num_devices(self) -> int:
        """Product of the sizes."""
        return math.prod(self.sizes)

    def axes_of(self, groups: np.ndarray | None) -> tuple[str, ...] | None:
        """Return the axes along which each group's devices lie, all of them; ``None`` for other groups.

        Args:
          groups: Device numbers [num_groups, group_size]; ``None`` for one group of all devices.
        """
        large = [name for name, size in zip(self.names, self.sizes, strict=True) if size > 1]
        if groups is None:
            return tuple(large)
        wanted = {frozenset(group) for group in groups.tolist()}
        for count in range(len(large) + 1):
            for axes in itertools.combinations(large, count):
                if {frozenset(group) for group in self.groups_along(axes).tolist()} == wanted:
                    return axes
        return None

    def groups_along(self, axes: tuple[str, ...]) -> np.ndarray:
        """Return the groups of devices that differ along ``axes`` only, [num_groups, group_size]."""
        devices = np.arange(self.num_devices).reshape(self.sizes)
        moved = [self.names.index(name) for name in axes]
        kept = [axis for axis in range(len(self.names)) if axis not in moved]
        size = math.prod(self.sizes[axis] for axis in moved)
        return devices.transpose(kept + moved).reshape(-1, size)

    def axes_of_pairs(self, pairs: np.ndarray) -> tuple[str, ...]:
        """Return the axes along which any source differs from its target.

        Args:
          pairs: Device numbers [N, 2].
        """
        coordinates = np.stack(np.unravel_index(pairs, self.sizes), axis=-1)
        differs = np.any(coordinates[:, 0] != coordinates[:, 1], axis=0)
        return tuple(name for name, moves in zip(self.names, differs.tolist(), strict=True) if moves)


def replica_groups(attributes: str) -> np.ndarray | None:
    """Return the groups of a collective's attributes, [num_groups, group_size]; ``None`` for one group of all.

    Raises:
      ValueError: The groups are written in an unknown way.
    """
    if "replica_groups=" not in attributes:
        return None
    if match := _IOTA.search(attributes):
        return _iota(match)
    if match := _MESH.search(attributes):
        return _along_mesh(match[1], match[3], match[2] or "")
    if match := _LISTS.search(attributes):
        groups = re.findall(r"\{([\d,]+)\}", match[1] or "")
        return (
            np.array([[int(device) for device in group.split(",")] for group in groups]) if groups else None
        )
    where = attributes.index("replica_groups=")
    raise ValueError(
        f"unknown form of replica groups in the compiled program: {attributes[where : where + 120]}"
    )


def source_target_pairs(attributes: str) -> np.ndarray:
    """Return the pairs of a collective permute, [N, 2]."""
    match = _PAIRS.search(attributes)
    pairs = re.findall(r"\{(\d+),(\d+)\}", match[0] if match else "")
    return np.array([[int(device) for device in pair] for pair in pairs]).reshape(-1, 2)


def transfer_between_slices(attributes: str) -> tuple[str, int] | None:
    """Return the kind of a transfer between TPU slices, and their number; ``None`` for other instructions.

    Args:
      attributes: Attributes of a ``send``.
    """
    kind, target = _TRANSFER.search(attributes), _TARGET.search(attributes)
    if kind is None or target is None:
        return None
    num_slices = 0
    for part in target[1].split(","):
        first, _, last = part.partition(":")
        num_slices += int(last or first) - int(first) + 1
    return kind[1].lower().replace("_", "-"), num_slices


def _iota(match: re.Match[str]) -> np.ndarray:
    """``[2,4]<=[4,2]T(1,0)``: numbers from 0, shaped, transposed and cut into 2 groups of 4."""
    return _ordered(match[3], match[4]).reshape(int(match[1]), int(match[2]))


def _ordered(sizes: str, permutation: str | None) -> np.ndarray:
    """Return numbers from 0 in an array of these sizes, transposed."""
    dims = [int(size) for size in sizes.split(",")]
    devices = np.arange(math.prod(dims)).reshape(dims)
    return devices.transpose([int(axis) for axis in permutation.split(",")]) if permutation else devices


def _along_mesh(mesh: str, axes: str, order: str) -> np.ndarray:
    """``mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)) {'y':(1)2}``: groups along axes, or a factor of one.

    ``:(1)2`` is a factor of 2 after one of 1. Devices are in the order of their numbers if none is given.
    """
    sizes: list[int] = []
    grouped: list[int] = []
    parts = {name: (pre, size) for name, pre, size in _AXIS_OF_GROUP.findall(axes)}
    for name, text in _AXIS_OF_MESH.findall(mesh):
        whole = int(text)
        if name not in parts:
            sizes.append(whole)
        elif not parts[name][0]:
            grouped.append(len(sizes))
            sizes.append(whole)
        else:
            before, size = map(int, parts[name])
            grouped.append(len(sizes) + 1)
            sizes += [before, size, whole // before // size]
    if match := _ORDER.search(order):
        numbers = _ordered(match[1], match[2])
    else:
        numbers = np.array(
            [int(axis_index) for axis_index in re.findall(r"\d+", order)] or range(math.prod(sizes))
        )
    devices = numbers.reshape(sizes)
    kept = [axis for axis in range(len(sizes)) if axis not in grouped]
    return devices.transpose(kept + grouped).reshape(-1, math.prod(sizes[axis] for axis in grouped))
