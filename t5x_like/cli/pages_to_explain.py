"""Pages that somebody wants explained, as they come: also without an address, and without anything on them."""

import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from typing import IO, Any, NamedTuple

from t5x_like.corpora.pages.fields import Fields
from t5x_like.corpora.pages.kinds import Kind, kind_of_content, kind_of_name
from t5x_like.corpora.pages.page import Page
from t5x_like.corpora.pages.reading import Reading, read_pages
from t5x_like.gin_config.user_error import UserError
from t5x_like.io.decompression import Cut, Piece, unpack
from t5x_like.io.files import as_path
from t5x_like.io.lines import in_lines

STANDARD_INPUT = "-"


class PageToExplain(NamedTuple):
    """A page, and how to call it: by its address, or by where it was found. ``fault`` is why it can't be read."""

    name: str
    url: str | None
    page: Page
    fault: str | None = None


def pages_to_explain(file: str, reading: Reading, *, kind: Kind) -> Iterator[PageToExplain]:
    """The pages of a file or, for ``-``, of standard input; ``kind`` is what it is where nothing tells.

    JSONL and plain text may be gzip or zstd, and their pages blank; other kinds are read as for building a corpus. A
    row of JSONL that can't be read is given with its fault, so that the others are explained all the same.

    Raises:
      ValueError: there is no such file, or it can't be read; with file and place.
    """
    if file == STANDARD_INPUT:
        yield from _pages(sys.stdin.buffer, "standard input", reading, kind)
        return
    try:
        stream = as_path(file).open("rb")
    except (FileNotFoundError, IsADirectoryError):
        raise UserError(f"{file!r} is no file") from None
    with stream:
        yield from _pages(stream, file, reading, kind)


def _pages(stream: IO[bytes], file: str, reading: Reading, kind: Kind) -> Iterator[PageToExplain]:
    pieces = unpack(stream, reading.caps)
    first = next(pieces, b"")
    start = first if isinstance(first, bytes) else b""
    kind = reading.kind or kind_of_name(file) or kind_of_content(start) or kind
    pieces = itertools.chain([first], pieces)
    if kind == "text":
        text = _text(b"".join(_whole(piece, file) for piece in pieces), file)
        yield PageToExplain(file, None, Page("", text))
    elif kind == "jsonl":
        yield from _rows(pieces, file, reading)
    elif stream is sys.stdin.buffer:
        raise UserError(f"standard input is a {kind} file; save it, and give its name")
    else:
        for found in read_pages(file, reading):
            yield PageToExplain(found.page.url, found.page.url, found.page)


def _rows(pieces: Iterable[Piece], file: str, reading: Reading) -> Iterator[PageToExplain]:
    for number, line in in_lines(pieces, max_bytes=reading.max_page_bytes):
        place = f"{file}, line {number}"
        try:
            text = _text(_whole(line, place), place)
            if text.strip():
                yield _page_of(_object(text, place), place, reading.fields)
        except UserError as mistake:
            yield PageToExplain(place, None, Page("", ""), str(mistake))


def _page_of(row: dict[str, Any], place: str, fields: Fields) -> PageToExplain:
    values = {name: row.get(name) for name in fields.names}
    url = values[fields.url] if isinstance(values[fields.url], str) else None
    for name, value in values.items():
        if not isinstance(value, str) and (value is not None or name == fields.text):
            known = ", ".join(list(row)[:20])
            fault = f"{place}: {name!r} should be text, not {value!r:.60}; there are {known}"
            return PageToExplain(url or place, url, Page("", ""), fault)
    page = Page(
        url or "", values[fields.text] or "", values[fields.timestamp] or "", language=values[fields.language]
    )
    return PageToExplain(url or place, url, page)


def _object(text: str, place: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{place}: invalid JSON: {error}") from None
    if not isinstance(row, dict):
        raise UserError(f"{place}: an object {{…}} is expected, found {type(row).__name__}")
    return row


def _whole(piece: Piece, place: str) -> bytes:
    if isinstance(piece, Cut):
        raise UserError(f"{place}: {piece.reason}")
    return piece


def _text(content: bytes, place: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{place}: invalid UTF-8 at byte {error.start}") from None
