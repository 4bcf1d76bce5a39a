"""Bytes of files that are packed or not (gzip, zstd), a bounded piece at a time, and where some are missing.

gzip as RFC 1952 has it, so any number of members one after another (https://www.rfc-editor.org/rfc/rfc1952), zstd as
RFC 8878 has it (https://www.rfc-editor.org/rfc/rfc8878).
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

_READ = 64 * 2**10  # packed bytes at a time: a member's rest is copied, so small where members are many
_GIVE = 256 * 2**10  # bytes given on together, as far as there are so many
# A kilobyte of zstd is 32 MB at most; its decompressor can't stop earlier.
_READ_ZSTD = 2**10
_GZIP = b"\x1f\x8b\x08"
_ZSTD = b"\x28\xb5\x2f\xfd"
_MAX_WINDOW = 2**27  # as the zstd program without --long


class Cut(NamedTuple):
    """Bytes are missing here. What comes next, if anything does, begins anew."""

    kind: str  # truncated, corrupt, garbage, bomb, unreadable
    reason: str


Piece = bytes | Cut


@dataclass(frozen=True, kw_only=True)
class Caps:
    """Limits of a file's unpacked size.

    Attributes:
      max_bytes: Most unpacked bytes.
      max_ratio: Most unpacked bytes for each packed one.
      counted_from: Unpacked bytes from which the ratio counts.
    """

    max_bytes: int = 2**37
    max_ratio: float = 1000.0
    counted_from: int = 2**26

    def exceeded(self, packed: int, unpacked: int) -> str | None:
        """Returns a description of the limit that is exceeded, or None."""
        if unpacked > self.max_bytes:
            return f"unpacks to more than {self.max_bytes:,} bytes (max_file_bytes)"
        if unpacked > self.counted_from and unpacked > self.max_ratio * packed:
            return (
                f"unpacks to more than {self.max_ratio:g} times its size (max_ratio): a decompression bomb?"
            )
        return None


def is_packed(start: bytes) -> bool:
    """Returns True if these first bytes are those of gzip or zstd."""
    return start.startswith((_GZIP, _ZSTD)) or _is_skippable(start)


def unpack(stream: IO[bytes], caps: Caps = Caps()) -> Iterator[Piece]:
    """Yields the unpacked bytes of a file in pieces of about a quarter of a megabyte.

    The first bytes decide how the file is unpacked. After damage, a gzip file continues with the next member that is
    found.
    """
    start = stream.read(_READ)
    if start.startswith(_GZIP):
        yield from _capped(_Gzip(stream, start), caps)
    elif is_packed(start):
        yield from _capped(_Zstd(stream, start), caps)
    else:
        total = 0
        while start:
            total += len(start)
            if total > caps.max_bytes:
                yield Cut("bomb", f"the file {caps.exceeded(total, total)}")
                return
            yield start
            start = stream.read(_GIVE)


def _capped(unpacker: "_Gzip | _Zstd", caps: Caps) -> Iterator[Piece]:
    total, held, size = 0, [], 0
    for piece in unpacker.pieces():
        if isinstance(piece, Cut) or size + len(piece) > _GIVE:
            if held:
                yield b"".join(held)
            held, size = [], 0
        if isinstance(piece, Cut):
            yield piece
            continue
        total += len(piece)
        exceeded = caps.exceeded(unpacker.at, total)
        if exceeded:
            yield Cut("bomb", f"the file {exceeded}")
            return
        if len(piece) < _GIVE:
            held.append(piece)
            size += len(piece)
        else:
            yield from (piece[at : at + _GIVE] for at in range(0, len(piece), _GIVE))
    if held:
        yield b"".join(held)


class _Gzip:
    """``at``: packed bytes that were read up to now."""

    def __init__(self, stream: IO[bytes], start: bytes) -> None:
        self._stream, self._packed, self.at = stream, start, len(start)

    def _more(self) -> bool:
        read = self._stream.read(_READ)
        self._packed += read
        self.at += len(read)
        return bool(read)

    def pieces(self) -> Iterator[Piece]:
        while True:
            member = self.at - len(self._packed)
            try:
                if not (yield from self._member()):
                    yield Cut("truncated", f"the gzip member at packed byte {member} is cut short")
                    return
            except zlib.error as error:
                yield Cut("corrupt", f"the gzip member at packed byte {member} is corrupt ({error})")
                # The member's own first bytes would be found again.
                self._packed = self._packed[1:] if self.at - len(self._packed) == member else self._packed
                if not self._find_member():
                    return
                continue
            end = self.at - len(self._packed)
            while not self._packed.strip(b"\0") and self._more():  # zeros pad tapes
                self._packed = self._packed.lstrip(b"\0")
            self._packed = self._packed.lstrip(b"\0")
            while len(self._packed) < len(_GZIP) and self._more():
                pass
            if not self._packed:
                return
            if not self._packed.startswith(_GZIP):
                yield Cut(
                    "garbage", f"what follows the gzip member that ends at packed byte {end} is no gzip"
                )
                if not self._find_member():
                    return

    def _member(self) -> Iterator[bytes]:
        inflate: Any = zlib.decompressobj(31)
        while True:
            out = inflate.decompress(self._packed, _GIVE)
            self._packed = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            if out:
                yield out
            if inflate.eof:
                return True
            if not self._packed and not self._more():
                return False

    def _find_member(self) -> bool:
        """Goes to the next bytes that look like a member's first."""
        while (found := self._packed.find(_GZIP)) < 0:
            self._packed = self._packed[-len(_GZIP) + 1 :]
            if not self._more():
                return False
        self._packed = self._packed[found:]
        return True


class _Zstd:
    def __init__(self, stream: IO[bytes], start: bytes) -> None:
        self._stream, self._packed, self.at = stream, start, len(start)

    def pieces(self) -> Iterator[Piece]:
        zstandard = _zstandard()
        opener = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
        while self._fill():
            frame = self.at - len(self._packed)
            if self._packed.startswith(_GZIP) or not (
                self._packed[:4] == _ZSTD or _is_skippable(self._packed)
            ):
                if self._packed.strip(b"\0"):
                    yield Cut("garbage", f"what follows at packed byte {frame} is no zstd")
                return
            part = opener.decompressobj()
            try:
                while not part.eof:
                    if not self._fill():
                        yield Cut("truncated", f"the zstd frame at packed byte {frame} is cut short")
                        return
                    taken, self._packed = self._packed[:_READ_ZSTD], self._packed[_READ_ZSTD:]
                    out = part.decompress(taken)
                    if part.eof:
                        self._packed = part.unused_data + self._packed
                    if out:
                        yield out
            except zstandard.ZstdError as error:
                yield Cut("corrupt", f"the zstd frame at packed byte {frame} is corrupt ({error})")
                return

    def _fill(self) -> bool:
        if len(self._packed) < 4:
            read = self._stream.read(_READ)
            self.at += len(read)
            self._packed += read
        return bool(self._packed)


def _is_skippable(start: bytes) -> bool:
    return len(start) >= 4 and start[1:4] == b"\x2a\x4d\x18" and 0x50 <= start[0] <= 0x5F


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        raise ValueError("zstd files need another package: pip install 't5x-like[corpora]'") from None
    return zstandard
