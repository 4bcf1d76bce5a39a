"""[CLS] A [SEP] B [SEP], or A <sep> B <sep> <cls>: texts as an encoder was pretrained to read them, within a limit."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from t5x_like.text.vocabularies.vocabulary_ids import ids_of

# RoBERTa and its like close the first text with one </s> and open the second with another, and tell them apart by
# nothing else (Liu et al. 2019, https://arxiv.org/abs/1907.11692, and fairseq's code).
_TWICE = "</s>"

# XLNet's, which stands last, in a segment of its own (Yang et al. 2019, §2.5, https://arxiv.org/abs/1906.08237).
_LAST = "<cls>"


class EncoderInput(NamedTuple):
    """One row of an encoder."""

    tokens: np.ndarray  # int32 [L]
    second: int  # where the second text begins; L where there is one text
    num_cut: int  # tokens that had no room


class InputFormat(NamedTuple):
    """The special ids around texts, and how many tokens there may be with them."""

    cls: int
    sep: int
    twice: bool  # two separators between texts, and no types of tokens
    limit: int
    cls_last: bool = False  # A <sep> B <sep> <cls>, and of a question and its context the context first

    @property
    def before(self) -> int:
        """How many special ids stand before the first text."""
        return 0 if self.cls_last else 1

    def cls_place(self, length: int) -> int:
        """Where the class token stands in a row."""
        return length - 1 if self.cls_last else 0

    @property
    def between(self) -> int:
        """How many separators stand between two texts."""
        return 2 if self.twice else 1

    def room(self, num_texts: int) -> int:
        """How many tokens texts may have together."""
        return self.limit - 2 - (self.between if num_texts == 2 else 0)

    def join(self, texts: Sequence[Sequence[int]]) -> EncoderInput:
        """One text or two, the longer one cut at its end, token by token, until both fit (as BERT's code does)."""
        sizes = fit([len(text) for text in texts], self.room(len(texts)))
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
        """int32 [L]: 1 from where the second text begins, and 2 where a class token is last."""
        types = (np.arange(length) >= second).astype(np.int32)
        if self.cls_last:
            types[-1] = 2
        return types * (not self.twice)


def input_format_of(tokenizer: Any, limit: int) -> InputFormat:
    """As the vocabulary's own special ids say.

    Raises:
      ValueError: it has none, or the limit leaves no room for text.
    """
    ids = ids_of(tokenizer)
    if ids.cls is None or ids.sep is None:
        raise ValueError(
            f"{tokenizer} has no ids to begin and to separate texts ([CLS] and [SEP]), which encoders' heads read; "
            "take the vocabulary of the encoder's own checkpoint"
        )
    twice, cls_last = tokenizer.piece(ids.sep) == _TWICE, tokenizer.piece(ids.cls) == _LAST
    input_format = InputFormat(ids.cls, ids.sep, twice, limit, cls_last)
    if input_format.room(2) < 2:
        raise ValueError(
            f"inputs_length={limit} leaves no room for two texts and their special ids; raise it"
        )
    return input_format


def fit(sizes: Sequence[int], room: int) -> list[int]:
    """How much of each text is kept: of two the longer is cut, of equal ones the second.

    >>> fit([10, 4], 9)
    [5, 4]
    """
    if sum(sizes) <= room:
        return list(sizes)
    if len(sizes) == 1:
        return [room]
    shorter = min(sizes)
    if shorter <= room // 2:
        return [shorter if size == shorter else room - shorter for size in sizes]
    return [room - room // 2, room // 2]
