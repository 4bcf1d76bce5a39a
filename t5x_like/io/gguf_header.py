"""Metadata of ``.gguf`` files, with a check of the header against the file's size.

The package gguf believes every count and length: a small file with a large count keeps it busy for hours.
The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import struct
from typing import IO, Any, Never

from t5x_like.io.files import PathLike, as_path, lfs_advice

_STRING, _ARRAY = 8, 9
# Each type of a number, as module struct names it.
_CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_MAX_ITEMS = 2**22  # in arrays; the largest published vocabulary has a quarter of a million pieces
_MAX_DIMENSIONS = 4  # of a tensor, as in llama.cpp


def read_metadata(path: PathLike) -> dict[str, Any]:
    """Return the metadata by name, after a check of the whole header.

    Bytes that are no UTF-8 become lone surrogates, so that strings stay different.

    Raises:
      ValueError: The file is no GGUF file, or has a count or a length that can't be.
    """
    with as_path(path).open("rb") as stream:
        return _Header(stream, str(path), as_path(path).stat().length).read()


class _Header:
    def __init__(self, stream: IO[bytes], where: str, size: int) -> None:
        self._stream, self._where, self._size = stream, where, size
        self._num_items = 0

    def read(self) -> dict[str, Any]:
        """Read all that comes before the tensors' data, and return the metadata."""
        if (beginning := self._stream.read(4)) != b"GGUF":
            if advice := lfs_advice(beginning + self._stream.read(60)):
                raise ValueError(f"{self._where} {advice}")
            self._refuse("it does not begin with GGUF")
        version = self._number("I", "version")
        if version % 2**16 == 0:
            self._refuse("it is of the other byte order")
        num_tensors, num_values = self._number("Q", "tensor count"), self._number("Q", "metadata count")
        metadata: dict[str, Any] = {}
        for _ in range(self._possible(num_values, 13, "metadata values")):
            name = self._text("a name")
            metadata[name] = self._value(self._number("I", "type of a value"))
        for _ in range(self._possible(num_tensors, 24, "tensors")):
            self._text("a tensor's name")
            if (num_dimensions := self._number("I", "number of dimensions")) > _MAX_DIMENSIONS:
                self._refuse(f"a tensor has {num_dimensions:,} dimensions")
            self._bytes(8 * num_dimensions + 12, "a tensor's shape")
        return metadata

    def _value(self, kind: int) -> object:
        if kind == _STRING:
            return self._text("a text")
        if kind == _ARRAY:
            return self._array()
        if kind in _CODES:
            return self._numbers(_CODES[kind], 1, "a value")[0]
        return self._refuse(f"there is no value of type {kind}")

    def _array(self) -> list[object]:
        kind, length = self._number("I", "type of an array"), self._number("Q", "length of an array")
        if kind == _ARRAY:
            self._refuse("an array is in an array")
        size = struct.calcsize(f"<{_CODES[kind]}") if kind in _CODES else 8
        self._possible(length, size, "values of an array")
        self._num_items += length
        if self._num_items > _MAX_ITEMS:
            self._refuse(f"its arrays have more than {_MAX_ITEMS:,} values")
        if kind in _CODES:
            return list(self._numbers(_CODES[kind], length, "an array"))
        return [self._value(kind) for _ in range(length)]

    def _text(self, what: str) -> str:
        length = self._number("Q", f"length of {what}")
        return self._bytes(length, what).decode("utf-8", errors="surrogateescape")

    def _numbers(self, code: str, length: int, what: str) -> tuple[Any, ...]:
        layout = struct.Struct(f"<{length}{code}")
        return layout.unpack(self._bytes(layout.size, what))

    def _number(self, code: str, what: str) -> int:
        raw = self._stream.read(struct.calcsize(code))
        if len(raw) < struct.calcsize(code):
            self._refuse(f"it ends before a {what}")
        return struct.unpack(f"<{code}", raw)[0]

    def _possible(self, count: int, min_bytes: int, what: str) -> int:
        """Return a count of things of at least ``min_bytes``, if the rest of the file can hold them."""
        if count * min_bytes > self._size - self._stream.tell():
            self._refuse(f"it says that {count:,} {what} follow, which the file is too short for")
        return count

    def _bytes(self, length: int, what: str) -> bytes:
        if length > self._size - self._stream.tell():
            self._refuse(f"{what} of {length:,} bytes does not fit into the file")
        return self._stream.read(length)

    def _refuse(self, reason: str) -> Never:
        raise ValueError(
            f"{self._where} is damaged or cut short, or no GGUF file: it has {self._size:,} bytes ({reason}); fetch "
            "it again"
        )
