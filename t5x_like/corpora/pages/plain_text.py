"""Pages from plain text: one in each file, or one on each line."""

import codecs
from collections.abc import Iterable, Iterator

from t5x_like.corpora.pages.crawled_page import LocatedPage, Page
from t5x_like.corpora.pages.reading_log import FileLog
from t5x_like.io.decompression import Chunk, MissingBytes


def read_text(chunks: Iterable[Chunk], log: FileLog, *, max_page_bytes: int) -> Iterator[LocatedPage]:
    """Yield the one page of a file.

    Args:
      chunks: Decompressed content of the file.
      log: Log of the file.
      max_page_bytes: Largest file.

    Raises:
      ValueError: The file is damaged and ``on_corruption`` is "fail".
    """
    log.count("text-file")
    hint = "; if it has a document a line, say so: kind='lines'"
    content = content_of_page(chunks, log, max_page_bytes=max_page_bytes, hint=hint)
    if content is not None:
        yield from _page(content, 1, log.only_url, log)


def read_lines(chunks: Iterable[Chunk], log: FileLog, *, max_page_bytes: int) -> Iterator[LocatedPage]:
    """Yield the pages of a file that has one on each line.

    Args:
      chunks: Decompressed content of the file.
      log: Log of the file.
      max_page_bytes: Longest line.

    Raises:
      ValueError: The file is damaged and ``on_corruption`` is "fail".
    """
    log.count("lines-file")
    for number, line in log.good_lines(chunks, max_bytes=max_page_bytes):
        yield from _page(line, number, log.placeholder_url(number), log)


def _page(content: bytes, position: int, url: str, log: FileLog) -> Iterator[LocatedPage]:
    if position == 1:
        content = content.removeprefix(codecs.BOM_UTF8)
    text = log.decode(content, position)
    if log.has_content(text, position):
        log.count("passed")
        yield LocatedPage(position, Page(url, text))


def content_of_page(
    chunks: Iterable[Chunk], log: FileLog, *, max_page_bytes: int, hint: str = ""
) -> bytes | None:
    """Return the whole content of a file, or None (after logging the reason) if it is damaged or too long.

    Args:
      chunks: Decompressed content of the file.
      log: Log of the file.
      max_page_bytes: Largest content.
      hint: End of the message about content that is too long.

    Raises:
      ValueError: The file is damaged and ``on_corruption`` is "fail".
    """
    parts, size = [], 0
    for chunk in chunks:
        if isinstance(chunk, MissingBytes):
            log.damage(chunk.kind, 1, chunk.reason)
            return None
        parts.append(chunk)
        size += len(chunk)
        if size > max_page_bytes:
            log.damage("too_long", 1, f"longer than the {max_page_bytes:,} bytes of max_page_bytes{hint}")
            return None
    return b"".join(parts)
