"""Pages from WARC files: the responses of a crawl, HTML or plain text, as text.

The format: ISO 28500, https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/.
"""

import re
from collections.abc import Iterable, Iterator

from t5x_like.corpora.pages.crawled_page import LocatedPage, Page
from t5x_like.corpora.pages.html_text import Extractor, Html
from t5x_like.corpora.pages.http_payload import Response, parse_response
from t5x_like.corpora.pages.page_encoding import decode_body, log_replaced
from t5x_like.corpora.pages.reading_log import FileLog
from t5x_like.corpora.pages.warc_records import WarcRecord, read_records
from t5x_like.io.decompression import Chunk

_HTML = ("text/html", "application/xhtml+xml")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:+-]{1,40})")


def read_warc(
    chunks: Iterable[Chunk], log: FileLog, *, html: Html, max_page_bytes: int
) -> Iterator[LocatedPage]:
    """Yield the pages of one file.

    Args:
      chunks: Decompressed content of the file.
      log: Log of the file.
      html: Options of text extraction.
      max_page_bytes: Largest record and largest decoded body.

    Raises:
      ValueError: The file is damaged and ``on_corruption`` is "fail".
    """
    log.count("warc-file")
    with Extractor(html) as extract:
        for record in read_records(chunks, log, max_bytes=max_page_bytes):
            try:
                page = _page(record, log, extract, max_page_bytes)
            except _UnreadableError as error:
                log.damage(error.kind, record.start, str(error))
                continue
            if page is not None:
                log.count("passed")
                yield LocatedPage(record.start, page)


class _UnreadableError(Exception):
    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


def _page(record: WarcRecord, log: FileLog, extract: Extractor, limit: int) -> Page | None:
    if record.type != "response":
        log.count("filtered:no_response")
        return None
    try:
        response = parse_response(record.content, max_bytes=limit)
    except ValueError as error:
        if not _declares_http(record):
            log.count("filtered:no_http")
            return None
        raise _UnreadableError("http", str(error)) from None
    kind, charset = _content_type(response, record)
    reason = _filter_reason(record, response, kind)
    if reason is not None:
        log.count(f"filtered:{reason}")
        return None
    text, encoding, as_declared = decode_body(response.body, charset)
    if not as_declared:
        log.notice("other_charset", record.start, f"declared as {charset}, but its bytes are {encoding}")
    log_replaced(log, record.start, text, response.body, encoding)
    if kind in _HTML:
        try:
            text = extract(text)
        except ValueError as error:
            raise _UnreadableError("html", str(error)) from None
    text = text.strip()
    if not log.has_content(text, record.start):
        return None
    headers = record.headers
    declared = response.headers.get("content-type", "") or kind
    return Page(record.url, text, headers["warc-date"], declared, headers.get("content-length", ""))


def _filter_reason(record: WarcRecord, response: Response, kind: str) -> str | None:
    if not record.url:
        return "no_url"
    if not 200 <= response.status < 300:
        return "http_status"
    if kind not in (*_HTML, "text/plain"):
        return "content_type"
    return None if record.headers.get("warc-date") else "no_timestamp"


def _declares_http(record: WarcRecord) -> bool:
    """Return False for responses by other protocols, such as Heritrix's lookups of names (``dns:``)."""
    own_kind = record.headers.get("content-type", "application/http").strip().lower()
    return own_kind.startswith("application/http") and not re.match(
        r"(?!https?:)[a-z][a-z0-9+.-]*:", record.url
    )


def _content_type(response: Response, record: WarcRecord) -> tuple[str, str | None]:
    """Return the media type, and the character encoding if it is declared.

    Of several the last one counts, as in browsers (https://fetch.spec.whatwg.org/#concept-header-extract-mime-type).
    """
    declared = response.headers.get("content-type") or record.headers.get("warc-identified-payload-type", "")
    kind, charset = "", None
    for each in declared.split(","):
        own, _, parameters = (part.strip().lower() for part in each.partition(";"))
        named = _CHARSET.search(parameters)
        if own != kind and "/" in own and own != "*/*":
            kind, charset = own, None
        if own == kind and named:
            charset = named[1]
    return kind, charset
