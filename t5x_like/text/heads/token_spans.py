"""Tokenization with character offsets, for answer spans and classes of words."""

import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t5x_like.text.vocabularies.tokenizer import Tokenizer

# Runs of letters and digits, and every other visible character by itself, as in BERT's basic tokenizer.
_PIECE = re.compile(r"\w+|[^\w\s]")


class TokenSpans(NamedTuple):
    """Token ids with the character offsets of the word that each token belongs to.

    Attributes:
      ids: int32 [L].
      starts: First character, int32 [L].
      ends: Character after the last, int32 [L].
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


def encode_with_spans(tokenizer: Tokenizer, texts: Sequence[str]) -> list[TokenSpans]:
    """Tokenize each word and each sign by itself, including a space before it.

    WordPiece vocabularies give the ids of the whole text. Byte-level ones can differ if signs follow each other.

    Args:
      tokenizer: Tokenizer of the model.
      texts: Texts to tokenize.
    """
    pieces = [list(_PIECE.finditer(text)) for text in texts]
    written = [
        match.string[match.start() - 1 : match.end()]
        if match.start() and match.string[match.start() - 1].isspace()
        else match[0]
        for match in itertools.chain.from_iterable(pieces)
    ]
    encoded = iter(
        tokenizer.encode_all([" " + piece.strip() if piece[0].isspace() else piece for piece in written])
    )
    return [_joined([(next(encoded), match.start(), match.end()) for match in matches]) for matches in pieces]


def encode_words(tokenizer: Tokenizer, rows: Sequence[Sequence[str]], unknown: int) -> list[list[list[int]]]:
    """Return the ids of each word of each row.

    Args:
      tokenizer: Tokenizer.
      rows: Words of each row; all but the first are tokenized as after a space.
      unknown: Id of a word without tokens.
    """
    spaced = [word if index == 0 else f" {word}" for row in rows for index, word in enumerate(row)]
    encoded = iter(tokenizer.encode_all(spaced))
    return [[next(encoded) or [unknown] for _ in row] for row in rows]


def tokens_of(tokens: TokenSpans, answer: tuple[int, int]) -> tuple[int, int]:
    """Return the first and last token that overlap an answer.

    Args:
      tokens: Tokens of the text.
      answer: First character of the answer, and the character after its last.

    Raises:
      ValueError: No token overlaps the answer.
    """
    start, end = answer
    touching = np.flatnonzero((tokens.starts < end) & (tokens.ends > start))
    if not len(touching):
        raise ValueError(f"no token covers the answer at characters {start} to {end}")
    return int(touching[0]), int(touching[-1])


def _joined(parts: Sequence[tuple[list[int], int, int]]) -> TokenSpans:
    counts = [len(ids) for ids, _, _ in parts]
    ids = [token_id for part, _, _ in parts for token_id in part]
    starts, ends = (np.repeat([part[side] for part in parts], counts) for side in (1, 2))
    return TokenSpans(np.array(ids, np.int32), starts.astype(np.int32), ends.astype(np.int32))
