"""Plain text as pages: a document a file, or one a line."""

import codecs
from collections.abc import Iterable, Iterator

from t5x_like.corpora.pages.crawled_page import LocatedPage, Page
from t5x_like.corpora.pages.fields import made_up_url
from t5x_like.corpora.pages.reading_log import FileLog
from t5x_like.io.decompression import Cut, Piece
from t5x_like.io.lines import in_lines


def read_text(pieces: Iterable[Piece], log: FileLog, *, max_page_bytes: int) -> Iterator[LocatedPage]:
    """The one page of a file.

    Raises:
      ValueError: damage, under ``on_corruption="fail"``.
    """
    log.count("text-file")
    hint = "; if it has a document a line, say so: kind='lines'"
    content = content_of_page(pieces, log, max_page_bytes=max_page_bytes, hint=hint)
    if content is not None:
        yield from _found(content, 1, log)


def read_lines(pieces: Iterable[Piece], log: FileLog, *, max_page_bytes: int) -> Iterator[LocatedPage]:
    """The pages of a file that has one a line.

    Raises:
      ValueError: damage, under ``on_corruption="fail"``.
    """
    log.count("lines-file")
    for number, line in in_lines(pieces, max_bytes=max_page_bytes):
        if isinstance(line, Cut):
            log.damage(line.kind, number, line.reason)
        else:
            yield from _found(line, number, log)


def _found(content: bytes, place: int, log: FileLog) -> Iterator[LocatedPage]:
    if place == 1:
        content = content.removeprefix(codecs.BOM_UTF8)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        log.damage("invalid_utf8", place, f"invalid UTF-8 at byte {error.start}")
        text = content.decode(errors="replace")
        log.count("replaced_characters", text.count("\ufffd") - content.count("\ufffd".encode()))
    if not text.strip():
        log.count("filtered:no_content")
        return
    if "\0" in text:
        log.notice("nul_bytes", place, "the text holds NUL bytes, which are kept")
    log.count("passed")
    yield LocatedPage(place, Page(made_up_url(log.file, place), text))


def content_of_page(
    pieces: Iterable[Piece], log: FileLog, *, max_page_bytes: int, hint: str = ""
) -> bytes | None:
    """All bytes of the file; None, after telling ``log``, of one that is damaged or too long. ``hint`` ends the latter.

    Raises:
      ValueError: damage, under ``on_corruption="fail"``.
    """
    parts, size = [], 0
    for piece in pieces:
        if isinstance(piece, Cut):
            log.damage(piece.kind, 1, piece.reason)
            return None
        parts.append(piece)
        size += len(piece)
        if size > max_page_bytes:
            log.damage("too_long", 1, f"longer than the {max_page_bytes:,} bytes of max_page_bytes{hint}")
            return None
    return b"".join(parts)
