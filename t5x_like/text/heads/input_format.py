"""Inputs of heads in the encoder's pretraining format: [CLS] A [SEP] B [SEP], or A <sep> B <sep> <cls>."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from t5x_like.text.vocabularies.vocabulary_ids import ids_of

# RoBERTa and similar models separate texts by two </s>, and have no token types (Liu et al. 2019,
# https://arxiv.org/abs/1907.11692, and fairseq's code).
_TWICE = "</s>"

# XLNet's cls, which comes last, in its own segment (Yang et al. 2019, §2.5, https://arxiv.org/abs/1906.08237).
_LAST = "<cls>"


class EncoderInput(NamedTuple):
    """One input row of an encoder.

    Attributes:
      tokens: Ids, int32 [L].
      second: Start of the second text; L if there is one text.
      num_cut: Number of tokens that were cut off.
    """

    tokens: np.ndarray
    second: int
    num_cut: int


class InputFormat(NamedTuple):
    """Special ids around texts, and the maximum row length.

    Attributes:
      cls: Classification id.
      sep: Separation id.
      twice: Whether texts are separated by two ids and have no token types.
      limit: Maximum row length in tokens.
      cls_last: Whether rows are A <sep> B <sep> <cls>, and contexts precede questions.
    """

    cls: int
    sep: int
    twice: bool
    limit: int
    cls_last: bool = False

    @property
    def before(self) -> int:
        """Number of special ids before the first text."""
        return 0 if self.cls_last else 1

    def cls_position(self, length: int) -> int:
        """Return the position of the class token in a row of ``length`` tokens."""
        return length - 1 if self.cls_last else 0

    @property
    def between(self) -> int:
        """Number of separators between two texts."""
        return 2 if self.twice else 1

    def max_tokens(self, num_texts: int) -> int:
        """Return the maximum number of tokens of all texts of a row."""
        return self.limit - 2 - (self.between if num_texts == 2 else 0)

    def join(self, texts: Sequence[Sequence[int]]) -> EncoderInput:
        """Build the row of one text or two; the longer one is cut at its end until both fit, as in BERT's code."""
        sizes = fit([len(text) for text in texts], self.max_tokens(len(texts)))
        num_cut = sum(map(len, texts)) - sum(sizes)
        kept = [list(text[:size]) for text, size in zip(texts, sizes, strict=True)]
        tokens = [*[self.cls] * self.before, *kept[0], self.sep]
        second = len(tokens) + self.between - 1
        if len(kept) == 2:
            tokens += [*[self.sep] * (self.between - 1), *kept[1], self.sep]
        if self.cls_last:
            tokens.append(self.cls)
            second = second if len(kept) == 2 else len(tokens)
        return EncoderInput(np.array(tokens, np.int32), min(second, len(tokens)), num_cut)

    def token_types(self, length: int, second: int) -> np.ndarray:
        """Return token types, int32 [L]: 1 from the second text on, and 2 for a class token at the end.

        Args:
          length: Row length L.
          second: Start of the second text.
        """
        types = (np.arange(length) >= second).astype(np.int32)
        if self.cls_last:
            types[-1] = 2
        return types * (not self.twice)


def input_format_of(tokenizer: Any, limit: int) -> InputFormat:
    """Return the format that the vocabulary's special ids imply.

    Args:
      tokenizer: Tokenizer of the encoder.
      limit: Maximum row length in tokens.

    Raises:
      ValueError: The vocabulary lacks cls or sep, or the limit is too short for two texts.
    """
    ids = ids_of(tokenizer)
    if ids.cls is None or ids.sep is None:
        raise ValueError(
            f"{tokenizer} has no ids to begin and to separate texts ([CLS] and [SEP]), which encoders' heads need; "
            "use the vocabulary of the encoder's own checkpoint"
        )
    twice, cls_last = tokenizer.piece(ids.sep) == _TWICE, tokenizer.piece(ids.cls) == _LAST
    input_format = InputFormat(ids.cls, ids.sep, twice, limit, cls_last)
    if input_format.max_tokens(2) < 2:
        raise ValueError(f"inputs_length={limit} is too short for two texts and their special ids; raise it")
    return input_format


def fit(sizes: Sequence[int], max_tokens: int) -> list[int]:
    """Return the number of tokens kept of each text; the longer one is cut, or the second of equal ones.

    >>> fit([10, 4], 9)
    [5, 4]
    """
    if sum(sizes) <= max_tokens:
        return list(sizes)
    if len(sizes) == 1:
        return [max_tokens]
    shorter = min(sizes)
    if shorter <= max_tokens // 2:
        return [shorter if size == shorter else max_tokens - shorter for size in sizes]
    return [max_tokens - max_tokens // 2, max_tokens // 2]


def num_input_ids(tokenizer: Any) -> int:
    """Return the number of embeddings that inputs of heads need: of the sentinels only those used as cls and sep."""
    ids = ids_of(tokenizer)
    own = tokenizer.vocab_size - tokenizer.num_sentinels
    return max(own, *(number + 1 for number in (ids.cls, ids.sep) if number is not None))
