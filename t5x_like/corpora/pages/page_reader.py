"""Pages of crawls and other documents, whatever kind of file holds them: the one door to this folder."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import IO

from t5x_like.corpora.pages.crawled_page import LocatedPage
from t5x_like.corpora.pages.fields import Fields
from t5x_like.corpora.pages.file_kinds import KINDS, Kind, find_kind, kind_of_name
from t5x_like.corpora.pages.html_files import read_html
from t5x_like.corpora.pages.html_text import Html
from t5x_like.corpora.pages.jsonl import read_jsonl
from t5x_like.corpora.pages.parquet import read_parquet
from t5x_like.corpora.pages.plain_text import read_lines, read_text
from t5x_like.corpora.pages.reading_log import FileLog, OnCorruption, ReadLog
from t5x_like.corpora.pages.warc import read_warc
from t5x_like.corpora.pages.wet import read_wet
from t5x_like.io.decompression import Caps, Piece, unpack
from t5x_like.io.files import as_path

_UNITS = {"wet": "record at byte", "warc": "record at byte", "jsonl": "line", "parquet": "row"}
_START = 64  # bytes by which a file's kind is told


@dataclass(frozen=True, kw_only=True)
class PageReaderConfig:
    """How files of pages are read.

    ``kind``: "wet", "warc", "jsonl", "parquet", "html" and "text" (a page a file), "lines" (one a line); by default
    as each file's name and first bytes tell. Any but parquet may be gzip or zstd. No kind is an archive of files, so
    that no name inside a file ever becomes a path.

    ``on_corruption="fail"`` stops at the first thing that can't be read, naming file and place; "skip" counts it and
    continues after it. No more than ``max_page_bytes`` of a page are ever held; a file may unpack to ``max_file_bytes``
    at most, and to ``max_ratio`` times its size.
    """

    kind: Kind | None = None
    on_corruption: OnCorruption = field(default="fail", repr=False)  # which a build may change on its way
    text_field: str = "text"
    url_field: str = "url"
    timestamp_field: str = "timestamp"
    language_field: str = "language"
    html: Html = field(default_factory=Html)
    max_page_bytes: int = 2**24
    max_file_bytes: int = 2**37
    max_ratio: float = 1000.0  # gzip's own limit is 1032

    def __post_init__(self) -> None:
        if self.kind is not None and self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, or None; not {self.kind!r}")
        if self.on_corruption not in ("fail", "skip"):
            raise ValueError(f"on_corruption must be 'fail' or 'skip', not {self.on_corruption!r}")
        for name in ("max_page_bytes", "max_file_bytes", "max_ratio"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}")

    @property
    def caps(self) -> Caps:
        """How much a file may unpack to."""
        return Caps(max_bytes=self.max_file_bytes, max_ratio=self.max_ratio)

    @property
    def fields(self) -> Fields:
        """The fields of JSONL and parquet."""
        return Fields(
            text=self.text_field,
            url=self.url_field,
            timestamp=self.timestamp_field,
            language=self.language_field,
        )


def read_pages(
    path: str | os.PathLike[str],
    reading: PageReaderConfig = PageReaderConfig(),
    log: ReadLog | None = None,
) -> Iterator[LocatedPage]:
    """The pages of one file, local or in a bucket, in its order, in memory that doesn't grow with the file.

    What was left out is counted in ``log``, whose ``on_corruption`` is set to that of ``reading``.

    Raises:
      ValueError: no such file, or damage under ``on_corruption="fail"``. Whatever the file holds, nothing else is
        raised; what the disk or the bucket raises comes as it is.
    """
    file = os.fspath(path)
    log = ReadLog() if log is None else log
    log.on_corruption = reading.on_corruption
    try:
        stream = as_path(file).open("rb")
    except (FileNotFoundError, IsADirectoryError):
        raise ValueError(f"{file!r} is no file; name one, or a pattern such as 'crawl/*.wet.gz'") from None
    with stream:
        yield from _read(stream, file, reading, log)


def _read(stream: IO[bytes], file: str, reading: PageReaderConfig, log: ReadLog) -> Iterator[LocatedPage]:
    unknown = FileLog(log, file, reading.kind or kind_of_name(file) or "unknown", "line")
    packed = stream.read(_START)
    if not packed:
        unknown.damage("empty_file", None, "the file is empty (0 bytes)")
        return
    stream.seek(0)
    pieces: Iterator[Piece] = unpack(stream, reading.caps)
    first = next(pieces, b"")
    start = first if isinstance(first, bytes) else b""
    if start or not isinstance(first, bytes):
        try:
            kind = find_kind(file, packed, start, reading.kind)
        except ValueError as error:
            unknown.damage("kind", None, str(error) if start else f"{first[1]}")
            return
    else:
        unknown.notice("no_content", None, "the file holds nothing once unpacked")
        return
    told = FileLog(log, file, kind, _UNITS.get(kind, "line"))
    if kind == "parquet":
        stream.seek(0)
        limit = reading.max_page_bytes
        yield from read_parquet(stream, told, fields=reading.fields, max_page_bytes=limit, caps=reading.caps)
    else:
        yield from _of_pieces(kind, chain([first], pieces), told, reading)


def _of_pieces(
    kind: Kind, pieces: Iterable[Piece], log: FileLog, reading: PageReaderConfig
) -> Iterator[LocatedPage]:
    limit = reading.max_page_bytes
    if kind == "wet":
        return read_wet(pieces, log, max_page_bytes=limit)
    if kind == "warc":
        return read_warc(pieces, log, html=reading.html, max_page_bytes=limit)
    if kind == "html":
        return read_html(pieces, log, html=reading.html, max_page_bytes=limit)
    if kind == "jsonl":
        return read_jsonl(pieces, log, fields=reading.fields, max_page_bytes=limit)
    return (read_text if kind == "text" else read_lines)(pieces, log, max_page_bytes=limit)
