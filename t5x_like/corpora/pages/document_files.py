"""Pages from HTML and Markdown files, one each: documentation, or the copy of a website."""

import atexit
import os
from collections.abc import Iterable, Iterator
from typing import Literal

from t5x_like.corpora.pages.crawled_page import LocatedPage, Page
from t5x_like.corpora.pages.html_text import Extractor, Html, need_markdown
from t5x_like.corpora.pages.page_encoding import decode_body, log_replaced
from t5x_like.corpora.pages.plain_text import content_of_page
from t5x_like.corpora.pages.reading_log import FileLog
from t5x_like.io.decompression import Chunk

# Starting a process for each file would take longer than reading most files.
_extractors: dict[tuple[int, Html], Extractor] = {}


def read_document(
    chunks: Iterable[Chunk],
    log: FileLog,
    *,
    kind: Literal["html", "markdown"],
    html: Html,
    max_page_bytes: int,
) -> Iterator[LocatedPage]:
    """Yield the one page of a file: text without markup, and without code blocks of Markdown.

    Args:
      chunks: Decompressed content of the file.
      log: Log of the file.
      kind: Markup of the file.
      html: Options of text extraction.
      max_page_bytes: Largest file.

    Raises:
      ValueError: The file is damaged and ``on_corruption`` is "fail".
    """
    log.count(f"{kind}-file")
    body = content_of_page(chunks, log, max_page_bytes=max_page_bytes)
    if body is None:
        return
    if kind == "markdown":
        need_markdown()
        source = log.decode(body, 1).removeprefix("\ufeff")
    else:
        source, encoding, _ = decode_body(body, None)
        log_replaced(log, 1, source, body, encoding)
    extract = _extractor(html)
    try:
        text = extract(source, is_markdown=kind == "markdown").strip()
    except ValueError as error:
        log.damage(kind, 1, str(error))
        return
    if log.has_content(text, 1):
        log.count("passed")
        yield LocatedPage(1, Page(log.only_url, text, content_type=f"text/{kind}"))


def _extractor(html: Html) -> Extractor:
    """Return the extractor that this process keeps for all its files.

    Raises:
      ValueError: The options aren't valid.
    """
    key = os.getpid(), html  # a forked process must not share its parent's
    if key not in _extractors:
        _extractors[key] = Extractor(html)
        atexit.register(_extractors[key].close)
    return _extractors[key]
