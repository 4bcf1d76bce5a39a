"""Pages from JSONL files: one object on each line."""

import codecs
import json
from collections.abc import Iterable, Iterator

from t5x_like.corpora.pages.crawled_page import LocatedPage
from t5x_like.corpora.pages.page_fields import Fields, page_of
from t5x_like.corpora.pages.reading_log import FileLog
from t5x_like.io.decompression import Chunk


def read_jsonl(
    chunks: Iterable[Chunk], log: FileLog, *, fields: Fields, max_page_bytes: int
) -> Iterator[LocatedPage]:
    """Yield the pages of one file; blank lines are skipped.

    Args:
      chunks: Decompressed content of the file.
      log: Log of the file.
      fields: Names of the rows' fields.
      max_page_bytes: Longest line.

    Raises:
      ValueError: The file is damaged and ``on_corruption`` is "fail".
    """
    log.count("jsonl-file")
    for number, line in log.good_lines(chunks, max_bytes=max_page_bytes):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if not line.strip():
            continue
        value = _parsed(log.decode(line, number, inside=" of the line"), number, log)
        page = None if value is None else page_of(value, number, fields, log)
        if page is not None:
            log.count("passed")
            yield LocatedPage(number, page)


def _parsed(text: str, number: int, log: FileLog) -> dict[str, object] | None:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        log.damage("not_json", number, f"invalid JSON: {error.msg} at column {error.colno}")
    except (ValueError, RecursionError) as error:  # thousands of digits; a million brackets
        log.damage("not_json", number, f"JSON that can't be read: {error}")
    else:
        if isinstance(value, dict):
            return value
        log.damage("not_json", number, f"an object {{…}} is expected, found {type(value).__name__}")
    return None
