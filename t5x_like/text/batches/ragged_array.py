"""Many token sequences in one flat array, as small as their ids allow."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np


class RaggedArray:
    """Sequences of token ids, read by number."""

    def __init__(self, flat: np.ndarray, ends: np.ndarray) -> None:
        self.flat = flat
        self.ends = ends  # int64 [sequences]

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, number: int) -> np.ndarray:
        start = self.ends[number - 1] if number else 0
        return self.flat[start : self.ends[number]].astype(np.int32)

    def part(self, numbers: np.ndarray) -> "RaggedArray":
        """Some of the sequences, in the order given."""
        found = [
            self.flat[end - size : end]
            for end, size in zip(self.ends[numbers], self.lengths[numbers], strict=True)
        ]
        ends = np.cumsum([len(each) for each in found], dtype=np.int64)
        return RaggedArray(np.concatenate([self.flat[:0], *found]), ends)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each sequence."""
        return np.diff(self.ends, prepend=0)

    def views(self) -> Iterator[memoryview]:
        """The bytes of each sequence, as they are held."""
        flat: Any = self.flat  # a buffer, though its type does not say so
        content, start, size = memoryview(flat).cast("B"), 0, self.flat.itemsize
        for end in (self.ends * size).tolist():
            yield content[start:end]
            start = end


class RaggedArrayBuilder:
    """Collects sequences for a Ragged."""

    def __init__(self, vocab_size: int) -> None:
        self._dtype = np.uint16 if vocab_size <= 2**16 else np.int32
        self._parts: list[np.ndarray] = []
        self._lengths: list[int] = []
        self.num_tokens = 0

    def extend(self, sequences: Iterable[Sequence[int] | np.ndarray]) -> None:
        """Appends sequences."""
        for sequence in sequences:
            self._parts.append(np.asarray(sequence, self._dtype))
            self._lengths.append(len(sequence))
            self.num_tokens += len(sequence)
        if len(self._parts) > 50_000:  # each small array costs a hundred bytes of its own
            self._parts = [np.concatenate(self._parts)]

    def build(self) -> RaggedArray:
        """The sequences collected so far."""
        flat = np.concatenate(self._parts) if self._parts else np.zeros(0, self._dtype)
        return RaggedArray(flat, np.cumsum(self._lengths, dtype=np.int64))
