"""Pages from rows of JSONL and parquet files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.pages.reading_log import FileLog


@dataclass(frozen=True, kw_only=True)
class Fields:
    """Names of the fields of a row. All except the text may be missing or null."""

    text: str = "text"
    url: str = "url"
    timestamp: str = "timestamp"
    language: str = "language"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all four fields."""
        return self.text, self.url, self.timestamp, self.language


def page_of(row: Mapping[str, Any], position: int, fields: Fields, log: FileLog) -> Page | None:
    """Return the page of a row, or None (after logging the reason) for a row without usable text.

    Args:
      row: The row.
      position: Its line or row number, from 1.
      fields: Names of its fields.
      log: Log of its file.

    Raises:
      ValueError: The row is damaged and ``on_corruption`` is "fail".
    """
    text = row.get(fields.text)
    if text is None:
        names = ", ".join(list(row)[:20]) or "none"
        log.damage("no_text", position, f"no field {fields.text!r}; there are {names}; name it by text_field")
        return None
    timestamp: Any = row.get(fields.timestamp)
    values = {
        fields.text: text,
        fields.url: row.get(fields.url),
        fields.timestamp: timestamp.isoformat() if hasattr(timestamp, "isoformat") else timestamp,
        fields.language: row.get(fields.language),
    }
    for name, value in values.items():
        if not isinstance(value, str | None):
            log.damage("not_text", position, f"{name!r} should be text, not {type(value).__name__}")
            return None
        if value is not None and not value.isascii() and not _is_unicode(value):
            log.damage("lone_surrogate", position, f"{name!r} holds half a character (a lone surrogate)")
            return None
    if not log.has_content(text, position):
        return None
    url = values[fields.url] or log.placeholder_url(position)
    return Page(url, text, values[fields.timestamp] or "", language=values[fields.language])


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
