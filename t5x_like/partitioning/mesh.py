"""Device mesh with five named axes, which partitioning rules and batches refer to."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import AxisType, Mesh

from t5x_like.config_class import config_class

MESH_AXES = ("data", "fsdp", "expert", "context", "model")

# Axes that few runs have. They are shown only if their size is above 1.
_RARE_AXES = ("expert", "context")


@config_class
class MeshConfig:
    """Number of devices along each axis; at most one may be -1, "the rest".

    Attributes:
      data: Copies the weights and splits the batch.
      fsdp: Splits the batch and the weights. Each device keeps a slice, and the full weight exists only while its layer
        runs.
      expert: Splits the batch and the weights as ``fsdp`` does, and gives each group of devices experts of its own. For
        models with fewer experts than devices: those of a group may still be cut along ``fsdp``.
      context: Splits each row of the batch along its length, and copies the weights. Attention sends keys and values
        around. For rows that are too long for a device.
      model: Splits weights and activations inside each layer; should stay within the fastest links.

    >>> MeshConfig(data=2, model=-1).build()  # on 8 devices: data 2, fsdp 1, expert 1, context 1, model 4
    """

    data: int = -1
    fsdp: int = 1
    expert: int = 1
    context: int = 1
    model: int = 1

    def __post_init__(self) -> None:
        for name in MESH_AXES:
            if getattr(self, name) < 1 and getattr(self, name) != -1:
                raise ValueError(
                    f"mesh axis {name}={getattr(self, name)}; give a number of devices, or -1 for the rest"
                )
        if list(self._sizes).count(-1) > 1:
            raise ValueError(f"mesh {self._words}: only one axis can be -1, the rest")

    def build(self, devices: Sequence[Any] | None = None) -> Mesh:
        """Arrange ``devices``, by default all devices of all processes.

        Raises:
          ValueError: The sizes don't multiply to the number of devices.
        """
        chosen = list(jax.devices() if devices is None else devices)
        return Mesh(
            _arrange(self.sizes(len(chosen)), chosen), MESH_AXES, axis_types=(AxisType.Auto,) * len(MESH_AXES)
        )

    def sizes(self, num_devices: int) -> tuple[int, ...]:
        """Return the axis sizes on ``num_devices`` devices, with -1 resolved.

        Raises:
          ValueError: The sizes don't multiply to the number of devices.
        """
        fixed = math.prod(size for size in self._sizes if size != -1)
        if -1 in self._sizes and num_devices % fixed == 0:
            return tuple(num_devices // fixed if size == -1 else size for size in self._sizes)
        if fixed == num_devices:
            return self._sizes
        need = f"a multiple of {fixed}" if -1 in self._sizes else f"exactly {fixed}"
        raise ValueError(
            f"mesh {self._words} needs {need} devices, and there are {num_devices}; "
            "set one axis to -1 to let it take the rest"
        )

    @property
    def _sizes(self) -> tuple[int, ...]:
        return (self.data, self.fsdp, self.expert, self.context, self.model)

    @property
    def _words(self) -> str:
        sizes = shown_sizes(dict(zip(MESH_AXES, self._sizes, strict=True)))
        return " × ".join(f"{name} {size}" for name, size in sizes.items())


def shown_sizes(sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the axes to show to people, with their sizes: ``expert`` and ``context`` only if they are above 1."""
    return {name: size for name, size in sizes.items() if name not in _RARE_AXES or size != 1}


def mesh_text(sizes: Mapping[str, int]) -> str:
    """Return the sizes of a mesh as ``--mesh`` takes them.

    >>> mesh_text({"data": 1, "fsdp": 16, "expert": 1, "context": 1, "model": 4})
    'data=1,fsdp=16,model=4'
    """
    return ",".join(f"{name}={size}" for name, size in shown_sizes(sizes).items())


def _arrange(sizes: tuple[int, ...], devices: list[Any]) -> np.ndarray:
    """Arrange neighboring chips as neighbors in the mesh; join TPU slices along a batch axis."""
    if devices[0].platform != "tpu":
        return np.asarray(devices).reshape(sizes)
    num_slices = len({getattr(device, "slice_index", 0) for device in devices})
    if num_slices == 1:
        return mesh_utils.create_device_mesh(sizes, devices, allow_split_physical_axes=True)
    within, across = sizes_of_slices(sizes, num_slices)
    return mesh_utils.create_hybrid_device_mesh(within, across, devices, allow_split_physical_axes=True)


def sizes_of_slices(sizes: tuple[int, ...], num_slices: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axis sizes within a TPU slice, and the slices along each axis.

    The data center's network between slices is slow, so the first batch axis that can join them does.

    Args:
      sizes: Sizes of the mesh's axes.
      num_slices: Number of slices.

    Raises:
      ValueError: No batch axis is a multiple of the number of slices.
    """
    for axis in (0, 1, 2):
        if sizes[axis] % num_slices == 0:
            across = tuple(num_slices if index == axis else 1 for index in range(len(sizes)))
            return tuple(size // pieces for size, pieces in zip(sizes, across, strict=True)), across
    raise ValueError(
        f"{num_slices} TPU slices are joined along data, fsdp or expert; make one of them {sizes[:3]} a multiple of "
        f"{num_slices}"
    )
