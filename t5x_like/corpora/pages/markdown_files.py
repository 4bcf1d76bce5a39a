"""Pages from Markdown files, one each, as plain text without markup and code blocks."""

from collections.abc import Iterable, Iterator

from t5x_like.corpora.pages.crawled_page import LocatedPage, Page
from t5x_like.corpora.pages.html_files import extractor
from t5x_like.corpora.pages.html_text import Html, need_markdown
from t5x_like.corpora.pages.plain_text import content_of_page
from t5x_like.corpora.pages.reading_log import FileLog
from t5x_like.io.decompression import Chunk


def read_markdown(
    chunks: Iterable[Chunk], log: FileLog, *, html: Html, max_page_bytes: int
) -> Iterator[LocatedPage]:
    """Yield the one page of a file.

    Args:
      chunks: Decompressed content of the file.
      log: Log of the file.
      html: Options of text extraction.
      max_page_bytes: Largest file.

    Raises:
      ValueError: The file is damaged and ``on_corruption`` is "fail".
    """
    log.count("markdown-file")
    content = content_of_page(chunks, log, max_page_bytes=max_page_bytes)
    if content is None:
        return
    source = log.decode(content, 1).removeprefix("\ufeff")
    need_markdown()
    extract = extractor(html)
    try:
        text = extract(source, is_markdown=True).strip()
    except ValueError as error:
        log.damage("markdown", 1, str(error))
        return
    if log.has_content(text, 1):
        log.count("passed")
        yield LocatedPage(1, Page(log.only_url, text, content_type="text/markdown"))
