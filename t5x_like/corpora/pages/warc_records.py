"""Records of WARC files, delimited by Content-Length; where that is wrong, reading resumes at the next record."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from t5x_like.corpora.pages.reading_log import FileLog
from t5x_like.io.decompression import Chunk, MissingBytes

_MAX_HEADER = 256 * 2**10
_VERSION = re.compile(rb"WARC/\d{1,3}\.\d{1,3}[ \t]*\r?\n")
_HEADER_END = re.compile(rb"\r?\n\r?\n")
_NEXT = re.compile(rb"\r?\n\r?\n(?=WARC/\d{1,3}\.\d{1,3}[ \t]*\r?\n)")
# Bytes between records, and before the first one. Some writers leave a NUL there.
_BETWEEN = b"\r\n\xef\xbb\xbf\0"
_FOLD = re.compile(r"\r?\n[ \t]+")  # a header's value continues
_VERSION_START = b"WARC/"
_MARK = b"\nWARC/"
_AFTER = 12  # bytes after a record that show whether it ends there
_OVERLAP = 32  # bytes: the longest match of _NEXT


class WarcRecord(NamedTuple):
    """One record.

    Attributes:
      start: Offset in the decompressed file.
      type: WARC-Type.
      url: WARC-Target-URI.
      headers: Values by lower-case name.
      content: Bytes after the headers; empty for long records that are no responses.
    """

    start: int
    type: str
    url: str
    headers: dict[str, str]
    content: bytes


class _Buffer:
    """Bytes of a file up to the next ``MissingBytes``; ``start`` is the offset of the first buffered byte."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self._chunks = iter(chunks)
        self.held, self.start = b"", 0
        self.cut: MissingBytes | None = None
        self.ended = False

    def fill(self, size: int) -> bool:
        """Read until ``size`` bytes are buffered; return False if the file or the readable part ends before."""
        parts, there = [self.held], len(self.held)
        while there < size and self.cut is None and not self.ended:
            chunk = next(self._chunks, None)
            if chunk is None:
                self.ended = True
            elif isinstance(chunk, MissingBytes):
                self.cut = chunk
            else:
                parts.append(chunk)
                there += len(chunk)
        if len(parts) > 1:
            self.held = b"".join(parts)
        return there >= size

    def drop(self, size: int) -> None:
        """Advance by up to ``size`` bytes."""
        while size > len(self.held):
            size -= len(self.held)
            self.start += len(self.held)
            self.held = b""
            if not self.fill(1):
                return
        self.held = self.held[size:]
        self.start += size

    def find_next(self) -> None:
        """Advance to the next record, or to the end of the bytes before a ``MissingBytes``."""
        more = True
        while more:
            more = self.fill(_OVERLAP + 1)
            match = _find_next(self.held)
            if match:
                self.drop(match.end())
                return
            self.drop(len(self.held) - _OVERLAP if more else len(self.held))


def _find_next(held: bytes) -> re.Match[bytes] | None:
    at = held.find(_MARK)  # far faster than searching the expression
    while at >= 0:
        match = _NEXT.search(held, max(0, at - 3), at + _OVERLAP)
        if match:
            return match
        at = held.find(_MARK, at + 1)
    return None


def read_records(chunks: Iterable[Chunk], log: FileLog, *, max_bytes: int) -> Iterator[WarcRecord]:
    """Yield the records of a file; damaged ones are logged and left out.

    Args:
      chunks: Decompressed content of the file.
      log: Log of the file.
      max_bytes: Largest response.

    Raises:
      ValueError: The file is damaged and ``on_corruption`` is "fail".
    """
    buffer = _Buffer(chunks)
    after_cut = False
    while True:
        while buffer.fill(1) and buffer.held[0] in _BETWEEN:
            buffer.drop(len(buffer.held) - len(buffer.held.lstrip(_BETWEEN)))
        if buffer.held:
            record = _record(buffer, log, max_bytes, after_cut=after_cut)
            after_cut = False
            if record is not None:
                yield record
        elif buffer.cut is not None:
            log.damage(buffer.cut.kind, buffer.start, buffer.cut.reason)
            buffer.cut, after_cut = None, True
        else:
            return


def _record(buffer: _Buffer, log: FileLog, limit: int, *, after_cut: bool) -> WarcRecord | None:
    """Return the record that begins here, or None; advance to the next one."""
    start = buffer.start
    if not _VERSION.match(buffer.held if buffer.fill(_OVERLAP) else buffer.held + b"\n"):
        if not after_cut:
            log.damage(
                "not_warc",
                start,
                "WARC/1.0 should begin a record here (was the Content-Length before it wrong?)",
            )
        buffer.find_next()
        return None
    headers = _headers(buffer)
    if headers is None:
        if buffer.cut is None:
            log.damage("truncated", start, "the header of the record has no end")
        buffer.drop(1)
        buffer.find_next()
        return None
    declared = headers.get("content-length", "")
    if not declared.isdecimal() or len(declared) > 17:
        log.damage(
            "content_length", start, f"Content-Length says {declared[:40]!r}, a number of bytes is needed"
        )
        buffer.find_next()
        return None
    type = headers.get("warc-type", "").lower()
    record = WarcRecord(start, type, headers.get("warc-target-uri", "").strip("<>"), headers, b"")
    if int(declared) <= limit:
        content = _content(buffer, int(declared), start, log)
        return None if content is None else record._replace(content=content)
    if type == "response":
        log.damage("too_long", start, f"{int(declared):,} bytes, more than the {limit:,} of max_page_bytes")
        buffer.find_next()
        return None
    end = buffer.start + int(declared)
    buffer.drop(int(declared))
    if buffer.start < end and buffer.cut is None:
        log.damage("truncated", start, f"Content-Length says {declared}; the file ends before")
    return record


def _headers(buffer: _Buffer) -> dict[str, str] | None:
    """Read the header of a record, by lower-case name; None if it has no end."""
    size = _OVERLAP
    while (match := _HEADER_END.search(buffer.held)) is None:
        if size > _MAX_HEADER or not buffer.fill(len(buffer.held) + 1):
            return None
        size = len(buffer.held)
    header = buffer.held[: match.start()].decode(errors="replace")
    buffer.drop(match.end())
    pairs = (line.partition(":") for line in _FOLD.sub(" ", header).split("\n")[1:])
    return {name.strip().lower(): value.strip() for name, colon, value in pairs if colon}


def _content(buffer: _Buffer, size: int, start: int, log: FileLog) -> bytes | None:
    buffer.fill(size + _AFTER)
    content, after = buffer.held[:size], buffer.held[size : size + _AFTER]
    if len(content) == size and _is_end(after):
        buffer.drop(size)
        return content
    match = _find_next(buffer.held)
    there = match.start() if match else len(content)
    if match is not None or len(content) == size:
        length = "more" if match is None else f"{there}"
        log.damage(
            "content_length",
            start,
            f"Content-Length says {size}, but the next record comes after {length} bytes",
        )
    elif buffer.cut is None:
        log.damage("truncated", start, f"Content-Length says {size}, but the file ends after {there} bytes")
    if match is not None:
        buffer.drop(match.end())
    else:
        buffer.find_next()
    return None


def _is_end(after: bytes) -> bool:
    """Return whether a record may end here: before any line breaks, and the next record or the end of the file.

    Two are required (ISO 28500), and writers leave one, write them as line feeds, or count some of them as content.
    """
    rest = after.lstrip(_BETWEEN)
    return rest.startswith(_VERSION_START) or _VERSION_START.startswith(rest)
