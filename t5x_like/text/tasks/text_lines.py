"""Lines of plain files, which know their places, and why they can't be read if they are damaged."""

import logging
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

from t5x_like.io.decompression import decompress, split_lines
from t5x_like.io.files import as_path
from t5x_like.io.text_encoding import refuse_foreign
from t5x_like.text.tasks.rows import BadRow, UndecodedRow

_log = logging.getLogger(__name__)

PACKED = (".gz", ".zst")
_MAX_PACKED_LINE = 2**30  # bytes, because a small compressed file may hold a line of any length
_WARNED_OF_NUL: set[str] = set()


class Line(NamedTuple):
    """Line of a file.

    Attributes:
      text: Text without line break and byte order mark; of a damaged line, what can be read.
      number: Number in the file, from 1.
      file: Path of the file.
      content: Bytes with the line break; empty for a line that is lost.
      fault: Reason why the line can't be read; None for a good one.
    """

    text: str
    number: int
    file: str
    content: bytes
    fault: BadRow | None = None

    @property
    def location(self) -> str:
        """Source (``file:line``)."""
        return f"{self.file}:{self.number}"

    @property
    def is_blank(self) -> bool:
        """True if the line is good and has no text."""
        return self.fault is None and not self.text.strip()


def text_lines(file: str, stream: BinaryIO | None = None) -> Iterator[Line]:
    """Yield the lines of a file, which may be compressed by gzip or zstd.

    A compressed file may be empty, as a shard of a small corpus is.

    Args:
      file: Path, or the name of ``stream`` in messages.
      stream: The lines, if they are in no file.

    Raises:
      ValueError: The file is UTF-16 or compressed in another way, so that no line can be used.
    """
    if stream is not None:
        yield from (_decoded(content, file, number) for number, content in enumerate(stream, start=1))
        return
    with as_path(file).open("rb") as opened:
        if not file.lower().endswith(PACKED):
            yield from (_decoded(content, file, number) for number, content in enumerate(opened, start=1))
            return
        for number, content in split_lines(decompress(opened), max_bytes=_MAX_PACKED_LINE):
            if isinstance(content, bytes):
                yield _decoded(content, file, number)
            else:
                yield Line("", number, file, b"", BadRow(content.reason, f"{file}:{number}"))


def _decoded(content: bytes, file: str, number: int) -> Line:
    if number == 1:
        refuse_foreign(content, file)
        content = content.removeprefix(b"\xef\xbb\xbf")
    fault = None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        fault = UndecodedRow(f"invalid UTF-8 at byte {error.start} of the line", f"{file}:{number}")
        text = content.decode("utf-8", "replace")
    if "\0" in text and fault is None:
        warn_of_nul(f"{file}:{number}")
    return Line(text.rstrip("\n").removesuffix("\r"), number, file, content, fault)


def warn_of_nul(location: str) -> None:
    """Warn once for each file: a copy that failed, or a disk that was full, leaves NUL bytes."""
    file = location.rpartition(":")[0]
    if file not in _WARNED_OF_NUL:
        _WARNED_OF_NUL.add(file)
        _log.warning("%s holds NUL bytes, which are kept; is the file damaged?", location)


def filled_lines(lines: Iterable[Line]) -> Iterator[Line | BadRow]:
    """Yield the lines that have text; damaged ones as bad rows."""
    return (line.fault or line for line in lines if not line.is_blank)


class LineBlock(NamedTuple):
    """Lines between blank ones.

    Attributes:
      lines: Good lines.
      faults: Damaged lines among them.
    """

    lines: list[Line]
    faults: list[BadRow]

    @property
    def location(self) -> str:
        """Source of the first line (``file:line``)."""
        return self.lines[0].location if self.lines else self.faults[0].location


def blocks_of(lines: Iterable[Line]) -> Iterator[LineBlock]:
    """Yield the blocks of lines that blank ones divide."""
    block = LineBlock([], [])
    for line in lines:
        if line.fault:
            block.faults.append(line.fault)
        elif not line.is_blank:
            block.lines.append(line)
        elif block != ([], []):
            yield block
            block = LineBlock([], [])
    if block != ([], []):
        yield block
