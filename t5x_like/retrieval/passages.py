"""Passages of long texts: pieces of at most so many tokens, which end between words and may overlap."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from t5x_like.retrieval.source_texts import SourceText
from t5x_like.text.vocabularies.tokenizer import Tokenizer

_LONGEST_WORD = 64  # characters; more than that is writing without spaces


class Passage(NamedTuple):
    """Piece of a text that is found as a whole.

    Attributes:
      id: Id of the text.
      file: File of the text.
      index: Position among the text's passages, from 0.
      text: Characters of the passage.
    """

    id: str
    file: str
    index: int
    text: str


@dataclass(frozen=True, kw_only=True)
class PassageLength:
    """Lengths of passages in tokens of the model's tokenizer, without special ones.

    Attributes:
      length: Most tokens of a passage; 0 leaves every text whole, and the model reads its beginning.
      overlap: Most tokens at a passage's beginning that are the end of the one before.
    """

    length: int = 256
    overlap: int = 32

    def __post_init__(self) -> None:
        if self.length < 0:
            raise ValueError(
                f"passage_length is {self.length}; give a length in tokens, or 0 for whole texts"
            )
        if self.overlap < 0 or (self.length and self.overlap >= self.length):
            raise ValueError(
                f"passage_overlap is {self.overlap}; give 0 or more tokens, and fewer than the {self.length} of a "
                "passage"
            )


def cut_passages(
    texts: Iterable[SourceText], tokenizer: Tokenizer, lengths: PassageLength
) -> Iterator[Passage]:
    """Yield the passages of texts, in order.

    Args:
      texts: Texts, which may be a stream.
      tokenizer: Tokenizer that counts tokens.
      lengths: Lengths of passages.
    """
    for source in texts:
        pieces = split_text(source.text, tokenizer, lengths) if lengths.length else [source.text.strip()]
        for index, text in enumerate(pieces):
            yield Passage(source.id, source.file, index, text)


def split_text(text: str, tokenizer: Tokenizer, lengths: PassageLength) -> list[str]:
    """Return the passages of one text, without white space around them.

    Words are tokenized one by one, so a passage as a whole may have a few tokens more or fewer.

    Args:
      text: Text to split.
      tokenizer: Tokenizer that counts tokens.
      lengths: Lengths of passages.
    """
    words = re.findall(r"\s*\S+", text)
    sizes = [len(ids) for ids in tokenizer.encode_all(words)]
    if any(map(_is_long, words, sizes, [lengths.length] * len(words))):
        piece = re.compile(rf"\s*\S{{1,{max(lengths.length // 4, 1)}}}")
        divided = (
            piece.findall(word) if _is_long(word, size, lengths.length) else [word]
            for word, size in zip(words, sizes, strict=True)
        )
        words = list(itertools.chain.from_iterable(divided))
        sizes = [len(ids) for ids in tokenizer.encode_all(words)]
    ends = np.cumsum([0, *sizes])
    return ["".join(words[first:stop]).strip() for first, stop in _windows(ends, lengths)]


def _is_long(word: str, size: int, length: int) -> bool:
    """Return whether a word is divided: it is longer than a passage, or is writing without spaces."""
    return size > (length if len(word) <= _LONGEST_WORD else length // 4)


def _windows(ends: np.ndarray, lengths: PassageLength) -> Iterator[tuple[int, int]]:
    """Yield the words of each passage, as ranges.

    Args:
      ends: Number of tokens before each word, and before the end.
      lengths: Lengths of passages.
    """
    num_words, first = len(ends) - 1, 0
    while first < num_words:
        stop = int(np.searchsorted(ends, ends[first] + lengths.length, side="right")) - 1
        stop = max(stop, first + 1)  # a word that is longer than a passage
        yield first, stop
        if stop == num_words:
            return
        # The overlap is shorter where the next word would not fit after it.
        earliest = max(ends[stop] - lengths.overlap, ends[stop + 1] - lengths.length)
        first = min(int(np.searchsorted(ends, earliest, side="left")), stop)


def as_rows(passages: Sequence[Passage]) -> list[dict[str, object]]:
    """Return passages as objects for JSONL."""
    return [passage._asdict() for passage in passages]
