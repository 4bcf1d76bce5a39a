"""Check of a ``.gguf`` file's header against the file's size, before the package gguf reads it.

That package believes every count and length: a small file with a large count keeps it busy for hours.
The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import struct
from typing import IO, Never

from t5x_like.io.files import PathLike, as_path

_STRING, _ARRAY = 8, 9
_SIZES = {
    0: 1,
    1: 1,
    2: 2,
    3: 2,
    4: 4,
    5: 4,
    6: 4,
    7: 1,
    10: 8,
    11: 8,
    12: 8,
}  # bytes of each type of a value
_MAX_ITEMS = 2**22  # in arrays; the largest published vocabulary has a quarter of a million pieces
_MAX_DIMENSIONS = 4  # of a tensor, as in llama.cpp


def check_header(path: PathLike) -> None:
    """Walk through the metadata and the list of tensors.

    Raises:
      ValueError: The file is no GGUF file, or has a count or a length that can't be.
    """
    with as_path(path).open("rb") as stream:
        _Header(stream, str(path), as_path(path).stat().length).check()


class _Header:
    def __init__(self, stream: IO[bytes], where: str, size: int) -> None:
        self._stream, self._where, self._size = stream, where, size
        self._num_items = 0

    def check(self) -> None:
        """Read all that comes before the tensors' data."""
        if self._stream.read(4) != b"GGUF":
            self._refuse("it does not begin with GGUF")
        version = self._number("I", "version")
        if version % 2**16 == 0:
            self._refuse("it is of the other byte order")
        num_tensors, num_values = self._number("Q", "tensor count"), self._number("Q", "metadata count")
        for _ in range(self._possible(num_values, 13, "metadata values")):
            self._skip(self._number("Q", "length of a name"), "a name")
            self._value(self._number("I", "type of a value"))
        for _ in range(self._possible(num_tensors, 24, "tensors")):
            self._skip(self._number("Q", "length of a name"), "a tensor's name")
            if (num_dimensions := self._number("I", "number of dimensions")) > _MAX_DIMENSIONS:
                self._refuse(f"a tensor has {num_dimensions:,} dimensions")
            self._skip(8 * num_dimensions + 12, "a tensor's shape")

    def _value(self, kind: int) -> None:
        if kind == _STRING:
            self._skip(self._number("Q", "length of a text"), "a text")
        elif kind == _ARRAY:
            self._array()
        elif kind in _SIZES:
            self._skip(_SIZES[kind], "a value")
        else:
            self._refuse(f"there is no value of type {kind}")

    def _array(self) -> None:
        kind, length = self._number("I", "type of an array"), self._number("Q", "length of an array")
        if kind == _ARRAY:
            self._refuse("an array is in an array")
        self._possible(length, _SIZES.get(kind, 8), "values of an array")
        self._num_items += length
        if self._num_items > _MAX_ITEMS:
            self._refuse(f"its arrays have more than {_MAX_ITEMS:,} values")
        if kind in _SIZES:
            self._skip(length * _SIZES[kind], "an array")
            return
        for _ in range(length):
            self._value(kind)

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

    def _skip(self, length: int, what: str) -> None:
        if length > self._size - self._stream.tell():
            self._refuse(f"{what} of {length:,} bytes does not fit into the file")
        self._stream.seek(length, 1)

    def _refuse(self, reason: str) -> Never:
        raise ValueError(
            f"{self._where} is damaged or cut short, or no GGUF file: it has {self._size:,} bytes ({reason}); fetch "
            "it again"
        )
