"""Decompression of gzip and zstd files in bounded chunks, resuming after damage, and splitting into lines.

gzip as in RFC 1952, with any number of members (https://www.rfc-editor.org/rfc/rfc1952); zstd as in RFC 8878
(https://www.rfc-editor.org/rfc/rfc8878).
"""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import IO, NamedTuple

_READ = 64 * 2**10  # stored bytes at a time; small, because the rest is copied for each member
_CHUNK_BYTES = 256 * 2**10  # decompressed bytes of a chunk
# A kilobyte of zstd decompresses to at most 32 MB; its decompressor can't stop earlier.
_READ_ZSTD = 2**10
_GZIP = b"\x1f\x8b\x08"
_ZSTD = b"\x28\xb5\x2f\xfd"
_MAX_WINDOW = 2**27  # as in the zstd program without --long


class MissingBytes(NamedTuple):
    """A gap in a file's content; what follows it, if anything, begins anew.

    Attributes:
      kind: Reason: truncated, corrupt, garbage, bomb, unreadable or too_long.
      reason: Message.
    """

    kind: str
    reason: str


Chunk = bytes | MissingBytes
Line = bytes | MissingBytes


@dataclass(frozen=True, kw_only=True)
class DecompressionLimits:
    """Limits of a file's decompressed size.

    Attributes:
      max_bytes: Most decompressed bytes.
      max_ratio: Most decompressed bytes for each stored one.
      counted_from: Decompressed bytes from which the ratio counts.
    """

    max_bytes: int = 2**37
    max_ratio: float = 1000.0
    counted_from: int = 2**26

    def exceeded(self, compressed: int, decompressed: int) -> str | None:
        """Check sizes against the limits.

        Args:
          compressed: Stored bytes.
          decompressed: Decompressed bytes.

        Returns:
          A description of the limit that is exceeded, or None.
        """
        if decompressed > self.max_bytes:
            return f"decompresses to more than {self.max_bytes:,} bytes (max_file_bytes)"
        if decompressed > self.counted_from and decompressed > self.max_ratio * compressed:
            return f"decompresses to more than {self.max_ratio:g} times its size (max_ratio): a decompression bomb?"
        return None


def is_compressed(start: bytes) -> bool:
    """Return True if these first bytes are those of gzip or zstd."""
    return start.startswith((_GZIP, _ZSTD)) or _is_skippable(start)


def decompress(stream: IO[bytes], limits: DecompressionLimits = DecompressionLimits()) -> Iterator[Chunk]:
    """Yield the decompressed bytes of a file in chunks of about a quarter of a megabyte.

    The first bytes determine the compression. After damage, a gzip file continues with the next member that is found.

    Args:
      stream: The file.
      limits: Limits of the decompressed size; reaching one ends the file with a ``MissingBytes``.
    """
    start = stream.read(_READ)
    if start.startswith(_GZIP):
        yield from _limited(_Gzip(stream, start), limits)
    elif is_compressed(start):
        yield from _limited(_Zstd(stream, start), limits)
    else:
        total = 0
        while start:
            total += len(start)
            if total > limits.max_bytes:
                yield MissingBytes("bomb", f"the file {limits.exceeded(total, total)}")
                return
            yield start
            start = stream.read(_CHUNK_BYTES)


def _limited(decompressor: "_Gzip | _Zstd", limits: DecompressionLimits) -> Iterator[Chunk]:
    total, held, size = 0, [], 0
    for chunk in decompressor.chunks():
        is_gap = isinstance(chunk, MissingBytes)
        if is_gap or size + len(chunk) > _CHUNK_BYTES:
            if held:
                yield b"".join(held)
            held, size = [], 0
        if is_gap:
            yield chunk
            continue
        total += len(chunk)
        exceeded = limits.exceeded(decompressor.at, total)
        if exceeded:
            yield MissingBytes("bomb", f"the file {exceeded}")
            return
        if len(chunk) < _CHUNK_BYTES:
            held.append(chunk)
            size += len(chunk)
        else:
            yield from (chunk[at : at + _CHUNK_BYTES] for at in range(0, len(chunk), _CHUNK_BYTES))
    if held:
        yield b"".join(held)


class _Gzip:
    """Decompresses gzip; ``at`` is the number of stored bytes read so far."""

    def __init__(self, stream: IO[bytes], start: bytes) -> None:
        self._stream, self._compressed, self.at = stream, start, len(start)

    def _more(self) -> bool:
        read = self._stream.read(_READ)
        self._compressed += read
        self.at += len(read)
        return bool(read)

    def chunks(self) -> Iterator[Chunk]:
        """Yield decompressed bytes and gaps."""
        while True:
            member = self.at - len(self._compressed)
            try:
                if not (yield from self._member()):
                    yield MissingBytes(
                        "truncated", f"the gzip member at compressed byte {member} is cut short"
                    )
                    return
            except zlib.error as error:
                yield MissingBytes(
                    "corrupt", f"the gzip member at compressed byte {member} is corrupt ({error})"
                )
                # Otherwise the member's own first bytes would be found again.
                if self.at - len(self._compressed) == member:
                    self._compressed = self._compressed[1:]
                if not self._find_member():
                    return
                continue
            end = self.at - len(self._compressed)
            while not self._compressed.strip(b"\0") and self._more():  # zeros are padding
                self._compressed = self._compressed.lstrip(b"\0")
            self._compressed = self._compressed.lstrip(b"\0")
            while len(self._compressed) < len(_GZIP) and self._more():
                pass
            if not self._compressed:
                return
            if not self._compressed.startswith(_GZIP):
                yield MissingBytes(
                    "garbage", f"what follows the gzip member that ends at compressed byte {end} is no gzip"
                )
                if not self._find_member():
                    return

    def _member(self) -> Iterator[bytes]:
        inflate = zlib.decompressobj(31)
        while True:
            out = inflate.decompress(self._compressed, _CHUNK_BYTES)
            self._compressed = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            if out:
                yield out
            if inflate.eof:
                return True
            if not self._compressed and not self._more():
                return False

    def _find_member(self) -> bool:
        """Advance to the next bytes that look like a member's first ones."""
        while (offset := self._compressed.find(_GZIP)) < 0:
            self._compressed = self._compressed[-len(_GZIP) + 1 :]
            if not self._more():
                return False
        self._compressed = self._compressed[offset:]
        return True


class _Zstd:
    def __init__(self, stream: IO[bytes], start: bytes) -> None:
        self._stream, self._compressed, self.at = stream, start, len(start)

    def chunks(self) -> Iterator[Chunk]:
        """Yield decompressed bytes and gaps."""
        zstandard = import_zstandard()
        decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
        while self._fill():
            frame = self.at - len(self._compressed)
            if self._compressed.startswith(_GZIP) or not (
                self._compressed[:4] == _ZSTD or _is_skippable(self._compressed)
            ):
                if self._compressed.strip(b"\0"):
                    yield MissingBytes("garbage", f"what follows at compressed byte {frame} is no zstd")
                return
            part = decompressor.decompressobj()
            try:
                while not part.eof:
                    if not self._fill():
                        yield MissingBytes(
                            "truncated", f"the zstd frame at compressed byte {frame} is cut short"
                        )
                        return
                    compressed, self._compressed = (
                        self._compressed[:_READ_ZSTD],
                        self._compressed[_READ_ZSTD:],
                    )
                    out = part.decompress(compressed)
                    if part.eof:
                        self._compressed = part.unused_data + self._compressed
                    if out:
                        yield out
            except zstandard.ZstdError as error:
                yield MissingBytes(
                    "corrupt", f"the zstd frame at compressed byte {frame} is corrupt ({error})"
                )
                return

    def _fill(self) -> bool:
        if len(self._compressed) < 4:
            read = self._stream.read(_READ)
            self.at += len(read)
            self._compressed += read
        return bool(self._compressed)


def _is_skippable(start: bytes) -> bool:
    return len(start) >= 4 and start[1:4] == b"\x2a\x4d\x18" and 0x50 <= start[0] <= 0x5F


def import_zstandard() -> ModuleType:
    """Import zstandard.

    Raises:
      ValueError: It isn't installed.
    """
    try:
        import zstandard
    except ImportError as error:
        raise missing_library("zstandard", error) from error
    return zstandard


def missing_library(name: str, error: ImportError) -> ValueError:
    """Return the error for a library of the extra ``corpora`` that isn't installed.

    Args:
      name: Name of the library.
      error: Reason that its import gave.
    """
    return ValueError(f"{name} is needed, but {error}; pip install 't5x-like[corpora]'")


def split_lines(chunks: Iterable[Chunk], *, max_bytes: int) -> Iterator[tuple[int, Line]]:
    """Yield lines without their ends (``\\n`` or ``\\r\\n``) and their numbers from 1.

    A line that is too long becomes a ``MissingBytes`` of kind ``too_long``. A line that a gap interrupts is left out.

    Args:
      chunks: Chunks of a file.
      max_bytes: Longest line.
    """
    number, parts, size = 1, [], 0
    for chunk in chunks:
        if isinstance(chunk, MissingBytes):
            yield number, chunk
            number, parts, size = number + (size > 0), [], 0
            continue
        lines = chunk.split(b"\n")
        for line in lines[:-1]:
            parts.append(line)
            size += len(line)
            yield number, _line(parts, size, max_bytes)
            number, parts, size = number + 1, [], 0
        parts.append(lines[-1])
        size += len(lines[-1])
        if size > max_bytes:
            parts = []
    if size:
        yield number, _line(parts, size, max_bytes)


def _line(parts: list[bytes], size: int, limit: int) -> Line:
    if size > limit:
        return MissingBytes("too_long", f"{size:,} bytes, more than the {limit:,} of max_page_bytes")
    return b"".join(parts).removesuffix(b"\r")
