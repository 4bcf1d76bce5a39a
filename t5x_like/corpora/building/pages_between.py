"""Pages on their way from one stage to the next, in Python's own ``marshal`` format.

It is as fast as memory and runs no code when it is read. Its version 2 is the same in every Python 3; files between
stages live as long as one build, are checksummed, and come from nobody else.
"""

import marshal
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from t5x_like.corpora.building.blocks import BlockWriter, read_blocks
from t5x_like.corpora.building.tally import Outcome
from t5x_like.corpora.duplicates.duplicate_rule import PagePlace
from t5x_like.corpora.pages.crawled_page import Page

_MARSHAL = 2
_BLOCK_CHARS = 4 * 10**6


class Version(NamedTuple):
    """A page as some input file has it, and what the first rules made of it. Sorted, a newer one comes later."""

    url_digest: bytes
    timestamp: str
    text_digest: bytes  # md5 of the text as it was read
    url: str
    content_type: str
    content_length: str
    source: int
    record: int
    text: str  # empty where it was dropped, but for the beginning of a sample
    language: str | None
    dropped: tuple[int, str] | None
    seen: tuple[tuple[int, str, int], ...]
    is_sample: bool

    @property
    def place(self) -> PagePlace:
        """Where it stands."""
        return PagePlace(self.url_digest, self.source, self.record)

    @property
    def page(self) -> Page:
        """The page as it goes on."""
        return Page(
            self.url, self.text, self.timestamp, self.content_type, self.content_length, self.language
        )

    @classmethod
    def of(
        cls, place: PagePlace, text_digest: bytes, outcome: Outcome, is_sample: bool, text: str
    ) -> "Version":
        """The version of a page that rules had this outcome for."""
        page = outcome.page
        return cls(
            url_digest=place.url_digest,
            timestamp=page.timestamp,
            text_digest=text_digest,
            url=page.url,
            content_type=page.content_type,
            content_length=page.content_length,
            source=place.source,
            record=place.record,
            text=text,
            language=page.language,
            dropped=outcome.dropped,
            seen=outcome.seen,
            is_sample=is_sample,
        )


class Standing(NamedTuple):
    """A page that is still there, and where it stands."""

    place: PagePlace
    page: Page


def pack_versions(versions: Iterable[Version]) -> bytes:
    """Bytes for a block."""
    return marshal.dumps([tuple(version) for version in versions], _MARSHAL)


def unpack_versions(content: bytes) -> list[Version]:
    """The versions in a block."""
    return [Version(*row) for row in marshal.loads(content)]


def write_standing(writer: BlockWriter, pages: Iterable[Standing]) -> None:
    """Writes pages for one reader, in their order."""
    rows, chars = [], 0
    for place, page in pages:
        rows.append((*place, *page))
        chars += len(page.text)
        if chars >= _BLOCK_CHARS:
            writer.write(0, marshal.dumps(rows, _MARSHAL))
            rows, chars = [], 0
    if rows:
        writer.write(0, marshal.dumps(rows, _MARSHAL))


def read_standing(path: str) -> Iterator[Standing]:
    """The pages that ``write_standing`` wrote."""
    for content in read_blocks(path, 0):
        for row in marshal.loads(content):
            yield Standing(PagePlace(*row[:3]), Page(*row[3:]))
