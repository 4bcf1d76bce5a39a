"""Arrays that are read when they are needed, so that large models pass through little memory."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import Sharding

Index = tuple[slice, ...]  # one for each dimension

# Arrays up to this size are read once, and whole; larger ones once for each part that this process holds of them.
_WHOLE_BYTES = 2**30


@dataclass(frozen=True, eq=False)
class LazyArray:
    """A float32 array that is read at each access; ``numpy.asarray`` reads all of it.

    Attributes:
      shape: Shape of the array.
      read: Returns a part of the array, given a slice for each dimension.
      by_rows: Reading row by row of the first axis is no more work than reading all at once.

    >>> unread = LazyArray((2, 3), lambda index: numpy.zeros((2, 3), numpy.float32)[index])
    >>> unread[0:1, 0:2].shape
    (1, 2)
    """

    shape: tuple[int, ...]
    read: Callable[[Index], np.ndarray]
    by_rows: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """Float32, even if another type is stored."""
        return np.dtype(np.float32)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the array in memory."""
        return self.size * self.dtype.itemsize

    def __getitem__(self, index: Index) -> np.ndarray:
        """Read a part; ``index`` has a slice for each dimension."""
        return self.read(index)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("an array that is not in memory can't be had without copying it there")
        return np.asarray(self.read((slice(None),) * self.ndim), dtype)


def sum_of(first: Any, second: Any) -> LazyArray:
    """Return the sum of two arrays of one shape, which are read when it is.

    Args:
      first: An array, a lazy one or a shape.
      second: Another one.
    """
    return LazyArray(first.shape, lambda index: np.asarray(first[index]) + np.asarray(second[index]))


def put_on_devices(array: Any, sharding: Sharding | None, *, whole_bytes: int = _WHOLE_BYTES) -> jax.Array:
    """Place an array on devices; a large lazy one part by part.

    Args:
      array: An array. Of a lazy one, memory holds one part at a time, or at most ``whole_bytes``.
      sharding: Device of each part; ``None`` for the first device.
      whole_bytes: Lazy arrays up to this size are read once and whole; larger ones once for each part.
    """
    if not isinstance(array, LazyArray):
        return jax.device_put(array, sharding)
    if sharding is None or (array.nbytes <= whole_bytes and sharding.is_fully_addressable):
        return jax.device_put(np.asarray(array), sharding)
    devices_of: dict[tuple[Any, ...], list[Any]] = {}
    for device, index in sharding.addressable_devices_indices_map(array.shape).items():
        assert index is not None
        bounds = tuple(cut.indices(size) for cut, size in zip(index, array.shape, strict=True))
        devices_of.setdefault(bounds, []).append(device)
    placed = []
    for bounds, devices in devices_of.items():
        part = array[tuple(slice(*bound) for bound in bounds)]
        # Waiting keeps the next part from being read while this one still takes memory here.
        placed += jax.block_until_ready([jax.device_put(part, device) for device in devices])
    return jax.make_array_from_single_device_arrays(array.shape, sharding, placed)
