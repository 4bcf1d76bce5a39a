"""A page of a crawl, and its place in a file."""

from typing import NamedTuple


class Page(NamedTuple):
    """A page of the web, or another document: its address and its text."""

    url: str  # as its source has it, later normalised
    text: str
    timestamp: str = ""  # ISO 8601, when it was fetched
    content_type: str = ""  # as the crawl declares it
    content_length: str = ""  # bytes, as the crawl declares it
    language: str | None = None  # ISO 639-1, once it is known


class LocatedPage(NamedTuple):
    """``place``: the byte of the unpacked file at which its record begins (WET, WARC), or its line or row, from 1."""

    place: int
    page: Page
