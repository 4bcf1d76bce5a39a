"""Puts weights where they belong on a mesh, the large ones part by part."""

from typing import Any

import jax
import numpy as np
from jax.sharding import Sharding

from t5x_like.model.lazy_array import LazyArray

# Arrays up to this size are read once, and whole; larger ones once for each part that this process holds of them.
_WHOLE_BYTES = 2**30


def put(array: Any, sharding: Sharding | None, *, whole_bytes: int = _WHOLE_BYTES) -> jax.Array:
    """``array`` as ``sharding`` cuts it. Of an unread one, memory holds one part at a time, or ``whole_bytes``."""
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
