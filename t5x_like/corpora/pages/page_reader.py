"""Pages from crawl files and other documents of any kind: the public interface of this package."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import IO

from t5x_like.config_class import refuse_unused
from t5x_like.corpora.pages.crawled_page import LocatedPage
from t5x_like.corpora.pages.document_files import read_document
from t5x_like.corpora.pages.file_kinds import KINDS, Kind, find_kind, kind_from_name
from t5x_like.corpora.pages.html_text import Html
from t5x_like.corpora.pages.jsonl import read_jsonl
from t5x_like.corpora.pages.page_fields import Fields
from t5x_like.corpora.pages.parquet import read_parquet
from t5x_like.corpora.pages.plain_text import read_lines, read_text
from t5x_like.corpora.pages.reading_log import FileLog, OnCorruption, ReadLog
from t5x_like.corpora.pages.warc import read_warc
from t5x_like.corpora.pages.wet import read_wet
from t5x_like.io.decompression import Chunk, DecompressionLimits, decompress
from t5x_like.io.files import as_path

_UNITS = {"wet": "record at byte", "warc": "record at byte", "jsonl": "line", "parquet": "row"}
_START = 64  # first bytes that show a file's kind


@dataclass(frozen=True, kw_only=True)
class PageReaderConfig:
    """Options for reading files of pages.

    No kind is an archive of files, so names inside a file never become paths.

    Attributes:
      kind: "wet", "warc", "jsonl", "parquet", "html", "markdown", "text" (a page in each file) or "lines" (a page
        on each line).
        None detects it from each file's name and first bytes. All except parquet may be compressed by gzip or zstd.
      on_corruption: "fail" stops at the first unreadable content, naming file and position; "skip" counts it and
        continues after it. A build may change it when it is continued.
      text_field: Field of JSONL and parquet rows that holds the text.
      url_field: Field that holds the URL.
      timestamp_field: Field that holds the timestamp.
      language_field: Field that holds the language.
      html: Options of text extraction.
      max_page_bytes: Largest page; no more of a page is ever held in memory.
      max_file_bytes: Largest decompressed size of a file.
      max_ratio: Largest ratio of a file's decompressed and stored size; gzip itself allows 1032.
    """

    kind: Kind | None = None
    on_corruption: OnCorruption = field(default="fail", repr=False)
    text_field: str = "text"
    url_field: str = "url"
    timestamp_field: str = "timestamp"
    language_field: str = "language"
    html: Html = field(default_factory=Html)
    max_page_bytes: int = 2**24
    max_file_bytes: int = 2**37
    max_ratio: float = 1000.0

    def __post_init__(self) -> None:
        if self.kind is not None and self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, or None; not {self.kind!r}")
        if self.on_corruption not in ("fail", "skip"):
            raise ValueError(f"on_corruption must be 'fail' or 'skip', not {self.on_corruption!r}")
        for name in ("max_page_bytes", "max_file_bytes", "max_ratio"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}")
        if self.kind not in (None, "jsonl", "parquet"):
            names = ("text_field", "url_field", "timestamp_field", "language_field")
            refuse_unused(self, *names, because=f"kind={self.kind!r} has no fields")
        if self.kind not in (None, "warc", "html", "markdown"):
            refuse_unused(self, "html", because=f"no HTML is read with kind={self.kind!r}")

    @property
    def limits(self) -> DecompressionLimits:
        """Limits of a file's decompressed size."""
        return DecompressionLimits(max_bytes=self.max_file_bytes, max_ratio=self.max_ratio)

    @property
    def fields(self) -> Fields:
        """Names of the fields of JSONL and parquet rows."""
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
    *,
    address: str | None = None,
    on_read: Callable[[int], None] | None = None,
) -> Iterator[LocatedPage]:
    """Yield the pages of one file in its order, in memory that doesn't grow with the file.

    Args:
      path: A local or bucket path.
      reading: Options.
      log: Receives counts of what was read and left out; its ``on_corruption`` is set to that of ``reading``.
      address: URL of a file that is one page, and start of those of pages that have none; None uses the path.
      on_read: Called after each page with the number of stored bytes read so far.

    Raises:
      ValueError: There is no such file, or it is damaged and ``on_corruption`` is "fail". The content of a file raises
        nothing else; errors of the disk or the bucket are passed on.
    """
    file = os.fspath(path)
    log = ReadLog() if log is None else log
    log.on_corruption = reading.on_corruption
    try:
        stream = as_path(file).open("rb")
    except (FileNotFoundError, IsADirectoryError):
        raise ValueError(f"{file!r} is no file; name one, or a pattern such as 'crawl/*.wet.gz'") from None
    with stream:
        for page in _read(stream, file, reading, log, address):
            yield page
            if on_read is not None:
                on_read(stream.tell())


def _read(
    stream: IO[bytes], file: str, reading: PageReaderConfig, log: ReadLog, address: str | None
) -> Iterator[LocatedPage]:
    unknown = FileLog(log, file, reading.kind or kind_from_name(file) or "unknown", "line")
    compressed = stream.read(_START)
    if not compressed:
        unknown.damage("empty_file", None, "the file is empty (0 bytes)")
        return
    stream.seek(0)
    chunks: Iterator[Chunk] = decompress(stream, reading.limits)
    first = next(chunks, b"")
    start = first if isinstance(first, bytes) else b""
    if first == b"":
        unknown.notice("no_content", None, "the file holds nothing once decompressed")
        return
    try:
        kind = find_kind(file, compressed, start, reading.kind)
    except ValueError as error:
        unknown.damage("kind", None, str(error) if start else f"{first[1]}")
        return
    file_log = FileLog(log, file, kind, _UNITS.get(kind, "line"), address)
    if kind == "parquet":
        stream.seek(0)
        limit = reading.max_page_bytes
        yield from read_parquet(
            stream, file_log, fields=reading.fields, max_page_bytes=limit, limits=reading.limits
        )
    else:
        yield from _read_chunks(kind, chain([first], chunks), file_log, reading)


def _read_chunks(
    kind: Kind, chunks: Iterable[Chunk], log: FileLog, reading: PageReaderConfig
) -> Iterator[LocatedPage]:
    limit = reading.max_page_bytes
    if kind == "wet":
        return read_wet(chunks, log, max_page_bytes=limit)
    if kind == "warc":
        return read_warc(chunks, log, html=reading.html, max_page_bytes=limit)
    if kind in ("html", "markdown"):
        return read_document(chunks, log, kind=kind, html=reading.html, max_page_bytes=limit)
    if kind == "jsonl":
        return read_jsonl(chunks, log, fields=reading.fields, max_page_bytes=limit)
    return (read_text if kind == "text" else read_lines)(chunks, log, max_page_bytes=limit)
