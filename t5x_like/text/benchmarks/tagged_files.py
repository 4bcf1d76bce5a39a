"""Readers of tagged words: CoNLL's columns (2000, 2003) and Universal Dependencies' CoNLL-U."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from t5x_like.text.benchmarks.record_files import Parse
from t5x_like.text.tasks.rows import BadRow, RawRow, expand, partition
from t5x_like.text.tasks.text_lines import Line, blocks_of, text_lines
from t5x_like.text.templates import RowValues

_DOCUMENT = "-DOCSTART-"
_WORD_ID = re.compile(r"\d+")
_NO_WORD_ID = re.compile(r"\d+-\d+|\d+\.\d+")
_BRACKETS = re.compile(r"(?:\(([^()*\s]+))?(\*?)(\))?")
_NUM_CELLS = 10  # of CoNLL-U
_UPOS = 3


class _Word(NamedTuple):
    text: str
    tag: str
    location: str


# Returns the word and tag of a line; None if the line has no word of its own.
ReadLine = Callable[[str], tuple[str, str] | None]


@dataclass(frozen=True, kw_only=True)
class TaggedFile:
    """Reader of sentences between blank lines, with one word per line. One bad line makes a sentence bad.

    Attributes:
      column: Name of the row's column with class ids.
      classes: Tags in the order of class ids.
      read_line: Returns a line's word and tag.
      begins_chunks: Convert IOB1, where a chunk begins with ``B-`` only after another of its type, to BIO.
    """

    column: str
    classes: Sequence[str]
    read_line: ReadLine
    begins_chunks: bool = False

    def __call__(self, file: str, split: str) -> Iterator[RawRow | BadRow]:
        """Read rows; see ``source.Reader``."""
        del split
        numbers = {word: index for index, word in enumerate(self.classes)}
        for block in blocks_of(text_lines(file)):
            words, faults = partition(expand(block.lines, self._words))
            if fault := next(iter(block.faults + faults), None):
                yield fault
            elif words:
                yield self._row(words, block.location, numbers)

    def _words(self, line: Line) -> Iterator[_Word]:
        if word := self.read_line(line.text):
            yield _Word(*word, line.location)

    def _row(self, words: Sequence[_Word], location: str, numbers: Mapping[str, int]) -> RawRow | BadRow:
        tags: list[str] = []
        for word in words:
            tag = _begun(word.tag, tags[-1] if tags else "O") if self.begins_chunks else word.tag
            if tag not in numbers:
                return BadRow(
                    f"the tag {tag!r} of {word.text!r} is outside the set: {', '.join(numbers)}",
                    word.location,
                )
            tags.append(tag)
        return RawRow(
            {"tokens": [word.text for word in words], self.column: [numbers[tag] for tag in tags]}, location
        )


def _begun(tag: str, before: str) -> str:
    """Convert ``I-LOC`` to ``B-LOC`` if no chunk of that type precedes."""
    is_begun = tag.startswith("I-") and before[2:] != tag[2:]
    return f"B-{tag[2:]}" if is_begun else tag


def columns_of(line: str) -> list[str]:
    """Return the columns of a line, between spaces and tabs; other white space, as U+00A0, belongs to a word."""
    return re.split(r"[ \t]+", line.strip(" \t"))


def conll_line(num_columns: int, tag_column: int = -1) -> ReadLine:
    """Return a reader of a word and one of its tags, separated by spaces or tabs.

    Lines that begin documents have no word.

    Args:
      num_columns: Columns of a line.
      tag_column: Number of the tag's column.

    Raises:
      ValueError: A line has another number of columns.
    """

    def read(line: str) -> tuple[str, str] | None:
        cells = columns_of(line)
        if cells[0] == _DOCUMENT:
            return None
        if len(cells) != num_columns:
            raise ValueError(f"{len(cells)} columns, where {num_columns} are expected: {line!r}")
        return cells[0], cells[tag_column]

    return read


def bracket_tags(cells: Sequence[str]) -> list[str]:
    """Convert a column of brackets, such as ``(A0*``, ``*)``, ``(V*)``, ``*`` and ``(GPE)``, to BIO tags.

    Raises:
      ValueError: A cell has another form, a bracket opens inside another, or one closes or stays open wrongly.
    """
    tags: list[str] = []
    inside = ""
    for cell in cells:
        parts = _BRACKETS.fullmatch(cell)
        if parts is None or not cell:
            raise ValueError(f"{cell!r} is no part of brackets, such as '(A0*', '*' or '*)'")
        begins, _, closes = parts.groups()
        if begins and inside:
            raise ValueError(f"{cell!r} opens inside of {inside!r}")
        if closes and not (begins or inside):
            raise ValueError(f"{cell!r} closes what was not opened")
        tags.append(f"B-{begins}" if begins else f"I-{inside}" if inside else "O")
        inside = "" if closes else begins or inside
    if inside:
        raise ValueError(f"the bracket of {inside!r} is never closed")
    return tags


def conllu_line(line: str) -> tuple[str, str] | None:
    """Return a word and its universal part of speech.

    Comments, ranges of multiword tokens (``3-4``), whose words follow, and empty nodes (``8.1``) have none
    (https://universaldependencies.org/format.html).

    Raises:
      ValueError: The line doesn't have ten columns between tabs, or no word number.
    """
    if line.startswith("#"):
        return None
    cells = line.split("\t")
    if len(cells) != _NUM_CELLS:
        raise ValueError(f"{len(cells)} columns between tabs, where CoNLL-U has {_NUM_CELLS}: {line[:60]!r}")
    if _NO_WORD_ID.fullmatch(cells[0]):
        return None
    if not _WORD_ID.fullmatch(cells[0]):
        raise ValueError(f"{cells[0]!r} is no word's number")
    return cells[1], cells[_UPOS]


def hub_tags(hub_column: str, column: str, names: Sequence[str] = (), classes: Sequence[str] = ()) -> Parse:
    """Return a parser of Hugging Face's rows.

    Words with a tag outside ``classes``, such as the ranges of multiword tokens, are left out.

    Args:
      hub_column: Hugging Face's name of the tag column.
      column: Our name of the tag column.
      names: Hugging Face's tags in the order of its ids, if they differ from ``classes``.
      classes: Our tags in the order of class ids.
    """

    def parse(record: RowValues) -> Iterator[dict[str, object]]:
        tokens, tags = list(record["tokens"]), list(record[hub_column if hub_column in record else column])
        if len(tokens) != len(tags):
            raise ValueError(
                f"{len(tokens)} words, but {len(tags)} {hub_column}; there must be one for each word"
            )
        if names:
            numbers = {index: classes.index(name) for index, name in enumerate(names) if name in classes}
            kept = [(token, numbers[tag]) for token, tag in zip(tokens, tags, strict=True) if tag in numbers]
            tokens, tags = [token for token, _ in kept], [tag for _, tag in kept]
        yield {"tokens": tokens, column: tags}

    return parse
