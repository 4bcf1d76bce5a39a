"""Pages between two stages, in Python's ``marshal`` format.

It is fast and runs no code when it is read. Version 2 of the format is the same in every Python 3. Files between stages
live only during one build, are checksummed, and come from no other source.
"""

import marshal
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from t5x_like.corpora.building.blocks import BlockWriter, read_blocks
from t5x_like.corpora.building.tally import RuleOutcome
from t5x_like.corpora.duplicates.duplicate_rule import PagePosition
from t5x_like.corpora.pages.crawled_page import Page

_MARSHAL = 2
_BLOCK_CHARS = 4 * 10**6


class PageVersion(NamedTuple):
    """A page as one input file has it, after the first rules. Sorted tuples put newer versions last.

    Attributes:
      url_digest: MD5 digest of the normalized URL.
      timestamp: Time of the crawl, ISO 8601.
      text_digest: MD5 digest of the text as it was read.
      url: URL as its source has it.
      content_type: Content type that the crawl declares.
      content_length: Content length that the crawl declares.
      source: Number of the input file.
      record: Number of the page in the file.
      text: Text of the page. A dropped page has only its beginning, for samples.
      language: ISO 639-1, if known.
      dropped: Index of the step that dropped the page, and the reason.
      seen: Counts inside the page: step, name, count.
    """

    url_digest: bytes
    timestamp: str
    text_digest: bytes
    url: str
    content_type: str
    content_length: str
    source: int
    record: int
    text: str
    language: str | None
    dropped: tuple[int, str] | None
    seen: tuple[tuple[int, str, int], ...]

    @property
    def position(self) -> PagePosition:
        """Position of the page in the input."""
        return PagePosition(self.url_digest, self.source, self.record)

    @property
    def page(self) -> Page:
        """Page for later steps."""
        return Page(
            self.url, self.text, self.timestamp, self.content_type, self.content_length, self.language
        )

    @classmethod
    def of(cls, position: PagePosition, text_digest: bytes, outcome: RuleOutcome, text: str) -> "PageVersion":
        """Make the version of a page from the outcome of the first rules.

        Args:
          position: Position of the page in the input.
          text_digest: MD5 digest of the text as it was read.
          outcome: Outcome of the rules.
          text: Text to keep.
        """
        page = outcome.page
        return cls(
            url_digest=position.url_digest,
            timestamp=page.timestamp,
            text_digest=text_digest,
            url=page.url,
            content_type=page.content_type,
            content_length=page.content_length,
            source=position.source,
            record=position.record,
            text=text,
            language=page.language,
            dropped=outcome.dropped,
            seen=outcome.seen,
        )


class RemainingPage(NamedTuple):
    """A page that no step has dropped yet, and its position in the input."""

    position: PagePosition
    page: Page


def pack_versions(versions: Iterable[PageVersion]) -> bytes:
    """Serialize versions for a block."""
    return marshal.dumps([tuple(version) for version in versions], _MARSHAL)


def unpack_versions(content: bytes) -> list[PageVersion]:
    """Read the versions of a block."""
    return [PageVersion(*row) for row in marshal.loads(content)]


def write_remaining_pages(writer: BlockWriter, pages: Iterable[RemainingPage]) -> None:
    """Write pages for one reader, in their order.

    Args:
      writer: File to write to, in blocks.
      pages: Pages with their positions.
    """
    rows, chars = [], 0
    for position, page in pages:
        rows.append((*position, *page))
        chars += len(page.text)
        if chars >= _BLOCK_CHARS:
            writer.write(0, marshal.dumps(rows, _MARSHAL))
            rows, chars = [], 0
    if rows:
        writer.write(0, marshal.dumps(rows, _MARSHAL))


def read_remaining_pages(path: str) -> Iterator[RemainingPage]:
    """Yield the pages that ``write_remaining_pages`` wrote."""
    for content in read_blocks(path, 0):
        for row in marshal.loads(content):
            yield RemainingPage(PagePosition(*row[:3]), Page(*row[3:]))
