"""What every rule looks at."""

from typing import NamedTuple


class Page(NamedTuple):
    """A page of the web, or another document: its address and its text."""

    url: str  # as its source has it, later normalised
    text: str
    timestamp: str = ""  # ISO 8601, when it was fetched
    content_type: str = ""  # as the crawl declares it
    content_length: str = ""  # bytes, as the crawl declares it
    language: str | None = None  # ISO 639-1, once it is known
