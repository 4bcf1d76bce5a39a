"""The Debian Administrator's Handbook as parallel text: English and German sentences.

python -m data.prepare.debian_handbook --package debian-handbook_11.20220922_all.deb --output data/debian_handbook
"""

import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from data.prepare.packages import read_members
from data.prepare.preparation import prepare_from_command_line
from data.prepare.splits import hold_out, shuffle_by_key, write_tsv

SEED = 0
LANGUAGES = {"en": "en-US", "de": "de-DE"}
NUM_HELD_OUT_PAGES = {"validation": 7, "test": 7}
MIN_WORDS, MAX_WORDS = 3, 60
MAX_SHARED_WORDS = 0.5
MAX_LENGTH_RATIO = 2.0

_FOLDER = "usr/share/doc/debian-handbook/html"
# A sentence ends here; the next begins with a capital letter, a digit or an opening quotation mark.
_END = re.compile(r"(?<=[.!?])\s+(?=[\"„“»A-ZÄÖÜ0-9])")
_ABBREVIATION = re.compile(r"(?:\b(?:z\.B|d\.h|u\.a|bzw|usw|ca|Nr|Abs|e\.g|i\.e|etc|vs|cf|Mr|Dr)|\b\w)\.$")

Pair = tuple[str, str]


def prepare(package: str | os.PathLike[str], output: str | os.PathLike[str]) -> None:
    """Write ``train.tsv``, ``validation.tsv`` and ``test.tsv`` with the columns ``en`` and ``de``.

    Whole pages are held out, and a pair of one split is in no other.

    Args:
      package: Debian's debian-handbook package.
      output: Folder of the splits.
    """
    pages = read_pages(package)
    ordered = shuffle_by_key(
        [name for name, pairs in sorted(pages.items()) if len(pairs) >= 20], str, seed=SEED
    )
    names = hold_out(ordered, NUM_HELD_OUT_PAGES, rest="train")
    names["train"] = [name for name in pages if name not in {*names["validation"], *names["test"]}]
    seen: set[str] = set()
    for split in ("test", "validation", "train"):
        kept = [pair for name in sorted(names[split]) for pair in pages[name] if pair[0] not in seen]
        kept = list(dict.fromkeys(kept))
        seen |= {english for english, _ in kept}
        write_tsv(Path(output) / f"{split}.tsv", tuple(LANGUAGES), kept)


def read_pages(package: str | os.PathLike[str]) -> dict[str, list[Pair]]:
    """Return the pairs of sentences of each page by its file name.

    Pages have the same paragraphs in both languages. A page with more or fewer of them in one is left out.
    """
    paragraphs = {
        language: {
            Path(name).name: paragraphs_of(content.decode("utf-8"))
            for name, content in read_members(package, f"{_FOLDER}/{folder}/*.html")
        }
        for language, folder in LANGUAGES.items()
    }
    english, german = paragraphs.values()
    return {
        name: [
            pair for pair in zip(english[name], german[name], strict=True) for pair in sentence_pairs(*pair)
        ]
        for name in sorted(english.keys() & german.keys())
        if len(english[name]) == len(german[name])
    }


def paragraphs_of(html: str) -> list[str]:
    """Return the text of each paragraph of a page."""
    reader = _Paragraphs()
    reader.feed(html)
    return [" ".join("".join(parts).split()) for parts in reader.paragraphs]


def sentence_pairs(english: str, german: str) -> Iterator[Pair]:
    """Yield the translated sentences of a paragraph.

    Where a paragraph has more sentences in one language, it is one pair. Long sentences are left out, and those of very
    different lengths, and those that share most words, which are not translated.
    """
    pairs = zip(sentences(english), sentences(german), strict=False)
    if len(sentences(english)) != len(sentences(german)):
        pairs = iter([(english, german)])
    for first, second in pairs:
        words, others = first.split(), second.split()
        lengths = sorted((len(first), len(second)))
        is_short = MIN_WORDS <= len(words) <= MAX_WORDS and len(others) <= MAX_WORDS
        is_translated = len(set(words) & set(others)) <= MAX_SHARED_WORDS * min(len(words), len(others))
        if is_short and is_translated and lengths[1] <= MAX_LENGTH_RATIO * lengths[0] + 20:
            yield first, second


def sentences(paragraph: str) -> list[str]:
    """Return the sentences of a paragraph."""
    found: list[str] = []
    for part in _END.split(paragraph):
        if found and _ABBREVIATION.search(found[-1]):
            found[-1] += f" {part}"
        else:
            found.append(part)
    return found


class _Paragraphs(HTMLParser):
    """Collects the text of ``<div class="para">``; lists and boxes inside end it."""

    def __init__(self) -> None:
        super().__init__()
        self.paragraphs: list[list[str]] = []
        self._open: list[bool] = []  # of each open div, whether it is a paragraph

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "div":
            is_paragraph = ("class", "para") in attrs
            self._open.append(is_paragraph)
            if is_paragraph:
                self.paragraphs.append([])

    def handle_endtag(self, tag: str) -> None:
        if tag == "div" and self._open:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1]:
            self.paragraphs[-1].append(data)


if __name__ == "__main__":
    prepare_from_command_line(
        prepare, about=__doc__, package="Debian's debian-handbook_*.deb (apt-get download debian-handbook)"
    )
