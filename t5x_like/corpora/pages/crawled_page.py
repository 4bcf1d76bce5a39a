"""A page of a crawl, and its position in a file."""

from typing import NamedTuple


class Page(NamedTuple):
    """A web page or another document.

    Attributes:
      url: URL as its source has it; rules normalize it.
      text: The text.
      timestamp: Time of the crawl, ISO 8601.
      content_type: Content type that the crawl declares.
      content_length: In bytes, as the crawl declares it.
      language: ISO 639-1; None until it is identified.
    """

    url: str
    text: str
    timestamp: str = ""
    content_type: str = ""
    content_length: str = ""
    language: str | None = None


class LocatedPage(NamedTuple):
    """A page and its position.

    Attributes:
      position: Offset of its record in the decompressed file (WET, WARC), or its line or row, from 1.
      page: The page.
    """

    position: int
    page: Page
