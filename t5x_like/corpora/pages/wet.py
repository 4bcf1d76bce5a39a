"""Pages from WET files, the text of a crawl, split into pages as TensorFlow Datasets splits them.

TensorFlow Datasets' C4 reads WET files line by line and ignores Content-Length. A line ``WARC/1.0`` begins a page.
Lines that begin with ``WARC``, ``Content-`` or ``CONTENT-`` are headers wherever they occur and never text; the last
value of a header counts. Other lines are text, stripped, without empty lines. This reader does the same, page by page
(tests/fixtures has the reference's output, found by running it on odd records too). At damage, where the reference
stops, ``on_corruption`` decides. One difference: the records of a file that begins with ``WARC/1.1`` begin so.

The format: https://commoncrawl.org/the-data/get-started, https://iipc.github.io/warc-specifications/.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from t5x_like.corpora.pages.crawled_page import LocatedPage, Page
from t5x_like.corpora.pages.reading_log import FileLog
from t5x_like.io.decompression import Chunk, MissingBytes

_HEADS = ("WARC", "Content-", "CONTENT-")
_HEAD_INSIDE = ("\nWARC", "\nContent-", "\nCONTENT-")
_URL, _DATE, _TYPE, _LENGTH = "WARC-Target-URI", "WARC-Date", "Content-Type", "Content-Length"
_LINE_END = re.compile(rb"[\r\n]")
_WHITESPACE = 64  # bytes examined around a line that begins a page
_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class _Record:
    start: int
    data: bytes  # empty for a record that is too long, or the rest of a damaged one
    size: int
    cut: MissingBytes | None = None  # replaces its end


def read_wet(chunks: Iterable[Chunk], log: FileLog, *, max_page_bytes: int) -> Iterator[LocatedPage]:
    """Yield the pages of one file.

    Args:
      chunks: Decompressed content of the file.
      log: Log of the file.
      max_page_bytes: Largest record.

    Raises:
      ValueError: The file is damaged and ``on_corruption`` is "fail".
    """
    log.count("wet-file")
    for record in _records(chunks, log, max_page_bytes):
        page = None
        if record.size > max_page_bytes:
            log.damage(
                "too_long", record.start, f"longer than the {max_page_bytes:,} bytes of max_page_bytes"
            )
        elif record.data:
            page = _page(record, log)
        if page is not None:
            log.count("passed")
            yield LocatedPage(record.start, page)
        if record.cut is not None:
            log.damage(record.cut.kind, record.start, record.cut.reason)


def _records(chunks: Iterable[Chunk], log: FileLog, limit: int) -> Iterator[_Record]:
    parts: list[bytes] = []
    size = start = base = 0
    carry = b""  # an incomplete line
    mark = b""  # line that begins a record
    begun = False  # False in the rest of a damaged record, and in a file of another kind
    seen = False
    for chunk in chunks:
        if isinstance(chunk, MissingBytes):
            yield _Record(start, b"".join(parts) + carry if begun else b"", size + len(carry), chunk)
            start = base + len(carry)
            parts, size, carry, base, begun = [], 0, b"", start, False
            continue
        data = carry + chunk
        if not mark:
            data = data.removeprefix(_MARK)
            mark = b"WARC/1.1" if data.startswith(b"WARC/1.1") else b"WARC/1.0"
            begun = True
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        done = 0
        for at in _beginnings(data, mark, end):
            parts.append(data[done:at])
            size += at - done
            if size and begun:
                yield _Record(start, b"".join(parts) if size <= limit else b"", size)
            parts, size, done, start = [], 0, at, base + at
            begun = seen = True
        parts.append(data[done:end])
        size += end - done
        base += end
        carry = data[end:]
        if size + len(carry) > limit:
            # Such a long record is dropped, and such a long line begins no page: one letter represents it.
            grown = max(0, len(carry) - 1)
            parts, size, base, carry = [], size + grown, base + grown, b"x" if carry else b""
    # The file's last line may lack its end.
    last = next(_beginnings(carry, mark, len(carry)), None) if begun else None
    tail = carry if last is None else carry[:last]
    size += len(tail)
    if size and begun and not seen:
        log.damage("not_warc", None, f"no line {mark.decode()!r} begins a record: not a WET file")
    elif size and begun:
        yield _Record(start, b"".join(parts) + tail if size <= limit else b"", size)
    if last is not None:
        yield _Record(base + last, carry[last:], len(carry) - last)


def _beginnings(data: bytes, mark: bytes, end: int) -> Iterator[int]:
    """Yield the starts of lines that hold only ``mark``, up to ``end``; lines before it are complete."""
    at = data.find(mark, 0, end)
    while at >= 0:
        before = _LINE_END.split(data[max(0, at - _WHITESPACE) : at])[-1]
        after = _LINE_END.split(data[at + len(mark) : at + len(mark) + _WHITESPACE], maxsplit=1)[0]
        if len(before) < _WHITESPACE and not (before + after).decode(errors="replace").strip():
            yield at - len(before)
        at = data.find(mark, at + len(mark), end)


def _page(record: _Record, log: FileLog) -> Page | None:
    decoded = log.decode(record.data, record.start, inside=" of the record", is_cut=record.cut is not None)
    heads, text = _heads_and_text(decoded)
    fields: dict[str, str] = {}
    for head in heads:
        name, colon, value = head.partition(":")
        if colon:
            fields[name] = value.strip()
    missing = _check_length(record, fields.get(_LENGTH, ""), log)
    if missing and record.cut is not None:
        return None
    url, timestamp = fields.get(_URL), fields.get(_DATE)
    if not url:
        log.count("filtered:no_url")
    elif not text:
        log.count("filtered:no_content")
    elif not timestamp:
        log.count("filtered:no_timestamp")
    else:
        if "\0" in text:
            log.notice("nul_bytes", record.start, "the text holds NUL bytes, which are kept")
        return Page(url, text, timestamp, fields.get(_TYPE, ""), fields.get(_LENGTH, ""))
    return None


def _heads_and_text(record: str) -> tuple[list[str], str]:
    lines = list(filter(None, map(str.strip, record.replace("\r", "\n").split("\n"))))
    first = next((index for index, line in enumerate(lines) if not line.startswith(_HEADS)), len(lines))
    heads, text = lines[:first], "\n".join(lines[first:])
    if not any(head in text for head in _HEAD_INSIDE):
        return heads, text
    heads = [line for line in lines if line.startswith(_HEADS)]
    return heads, "\n".join(line for line in lines if not line.startswith(_HEADS))


def _check_length(record: _Record, declared: str, log: FileLog) -> bool:
    """Return True if bytes are missing; log any wrong length, because the file may be damaged there."""
    if not declared:
        return record.cut is not None
    header = re.search(rb"\r?\n\r?\n", record.data)
    there = len(record.data) - header.end() if header else 0
    length = int(declared) if declared.isdecimal() and len(declared) < 18 else None
    if (
        length is not None
        and length <= there
        and not record.data[len(record.data) - there + length :].strip()
    ):
        return False
    if record.cut is None:
        reason = f"Content-Length says {declared[:40]}, but the record has {there} bytes up to the next one or the end"
        log.damage("content_length", record.start, reason)
    return length is None or length > there
