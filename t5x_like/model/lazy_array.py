"""Arrays that stay where they are until somebody asks for them, so that large models pass through little memory."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Index = tuple[slice, ...]  # one for each dimension


@dataclass(frozen=True, eq=False)
class LazyArray:
    """A float32 array that ``read`` fetches, whole or a part of it, and that nobody keeps.

    ``numpy.asarray`` reads it all. ``by_rows``: reading it row by row of the first axis is no more work.

    >>> unread = LazyArray((2, 3), lambda index: numpy.zeros((2, 3), numpy.float32)[index])
    >>> unread[0:1, 0:2].shape
    (1, 2)
    """

    shape: tuple[int, ...]
    read: Callable[[Index], np.ndarray]
    by_rows: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """Always float32, however it is stored."""
        return np.dtype(np.float32)

    @property
    def ndim(self) -> int:
        """As of any array."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """As of any array."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The size of the array in memory."""
        return self.size * self.dtype.itemsize

    def __getitem__(self, index: Index) -> np.ndarray:
        """That part of it; a slice for each dimension."""
        return self.read(index)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("an array that is not in memory can't be had without copying it there")
        return np.asarray(self.read((slice(None),) * self.ndim), dtype)
