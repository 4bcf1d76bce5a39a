"""Readers of tagged words: CoNLL's columns (2000, 2003) and Universal Dependencies' CoNLL-U."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from t5x_like.text.tasks.row_files import decode_line, lines_of
from t5x_like.text.tasks.rows import BadRow, RawRow

_DOCUMENT = "-DOCSTART-"
_WORD_ID = re.compile(r"\d+")
_NO_WORD_ID = re.compile(r"\d+-\d+|\d+\.\d+")
_BRACKETS = re.compile(r"(?:\(([^()*\s]+))?(\*?)(\))?")
_NUM_CELLS = 10  # of CoNLL-U
_UPOS = 3


class _Sentence:
    """Lines of a sentence, collected while reading."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.tokens: list[str] = []
        self.tags: list[str] = []
        self.fault: BadRow | None = None

    def row(self, file: str, column: str, classes: Mapping[str, int]) -> RawRow | BadRow:
        if self.fault:
            return self.fault
        tags = [classes[tag] for tag in self.tags]
        return RawRow({"tokens": self.tokens, column: tags}, f"{file}:{self.first}")


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
        numbers = {word: number for number, word in enumerate(self.classes)}
        sentence: _Sentence | None = None
        for number, line in lines_of(file):
            text = decode_line(line, file, number)
            if not isinstance(text, BadRow) and not text.strip():
                yield from self._finished(sentence, file, numbers)
                sentence = None
                continue
            sentence = sentence or _Sentence(number)
            self._add(sentence, text, f"{file}:{number}", numbers)
        yield from self._finished(sentence, file, numbers)

    def _add(self, sentence: _Sentence, text: str | BadRow, place: str, numbers: Mapping[str, int]) -> None:
        if isinstance(text, BadRow):
            sentence.fault = sentence.fault or text
            return
        try:
            found = self.read_line(text)
        except ValueError as error:
            sentence.fault = sentence.fault or BadRow(str(error), place)
            return
        if found is None:
            return
        word, tag = found
        if self.begins_chunks:
            tag = _begun(tag, sentence.tags[-1] if sentence.tags else "O")
        if tag not in numbers:
            reason = f"the tag {tag!r} of {word!r} is outside the set: {', '.join(numbers)}"
            sentence.fault = sentence.fault or BadRow(reason, place)
        sentence.tokens.append(word)
        sentence.tags.append(tag)

    def _finished(
        self, sentence: _Sentence | None, file: str, numbers: Mapping[str, int]
    ) -> Iterator[RawRow | BadRow]:
        if sentence and (sentence.tokens or sentence.fault):
            yield sentence.row(file, self.column, numbers)


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


def hub_tags(theirs: str, ours: str, names: Sequence[str] = (), classes: Sequence[str] = ()) -> Any:
    """Return a parser of Hugging Face's rows.

    Words with a tag outside ``classes``, such as the ranges of multiword tokens, are left out.

    Args:
      theirs: Hugging Face's name of the tag column.
      ours: Our name of the tag column.
      names: Hugging Face's tags in the order of its ids, if they differ from ``classes``.
      classes: Our tags in the order of class ids.
    """

    def parse(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        tokens, tags = list(record["tokens"]), list(record[theirs if theirs in record else ours])
        if len(tokens) != len(tags):
            raise ValueError(
                f"{len(tokens)} words, but {len(tags)} {theirs}; there must be one for each word"
            )
        if names:
            numbers = {index: classes.index(name) for index, name in enumerate(names) if name in classes}
            kept = [(token, numbers[tag]) for token, tag in zip(tokens, tags, strict=True) if tag in numbers]
            tokens, tags = [token for token, _ in kept], [tag for _, tag in kept]
        yield {"tokens": tokens, ours: tags}

    return parse
