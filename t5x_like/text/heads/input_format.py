"""Inputs of heads: in the model's pretraining format, such as [CLS] A [SEP] B [SEP], or framed by given tokens."""

import difflib
from collections.abc import Sequence
from dataclasses import astuple
from typing import NamedTuple

import numpy as np

from t5x_like.config_class import config_class
from t5x_like.text.vocabularies.tokenizer import Tokenizer
from t5x_like.text.vocabularies.vocabulary_ids import ids_of

# RoBERTa and similar models separate texts by two </s>, and have no token types (Liu et al. 2019,
# https://arxiv.org/abs/1907.11692, and fairseq's code).
_TWICE = "</s>"

# XLNet's cls, which comes last, in its own segment (Yang et al. 2019, §2.5, https://arxiv.org/abs/1906.08237).
_LAST = "<cls>"


@config_class
class InputFraming:
    """Special tokens around the texts of a head (Radford et al. 2018, §3.3 and figure 1).

    One text becomes ``start text extract``, a pair ``start first delimiter second extract``. A decoder's head reads the
    last token. Each choice of multiple choice is a pair of its own.

    Tokens are pieces of the vocabulary. By default they are its first sentinels: ids after those of its file, whose
    embeddings start at random as in the paper.

    Attributes:
      start: Piece before the first text.
      delimiter: Piece between two texts.
      extract: Piece after the last text.
      both_orders: Read a pair in both orders and add their representations before the linear layer, for symmetric
        tasks such as similarity.
    """

    start: str = "<extra_id_0>"
    delimiter: str = "<extra_id_1>"
    extract: str = "<extra_id_2>"
    both_orders: bool = False


class EncoderInput(NamedTuple):
    """One input row of a head.

    Attributes:
      tokens: Ids, int32 [L].
      second: Start of the second text; L if there is one text.
      num_cut: Number of tokens that were cut off, or of sentences (``HeadFormat.cut_unit``).
    """

    tokens: np.ndarray
    second: int
    num_cut: int


class InputFormat(NamedTuple):
    """Special ids around texts, and the maximum row length.

    Attributes:
      limit: Maximum row length in tokens.
      start: Ids before the first text.
      between: Ids between two texts.
      end: Ids after the last text.
      has_types: Whether token types distinguish the texts.
      context_first: Whether contexts precede questions, and the class token has a token type of its own (XLNet).
      class_last: Whether heads read the row's last token, and not its first.
      both_orders: Whether a pair is read in both orders.
    """

    limit: int
    start: tuple[int, ...]
    between: tuple[int, ...]
    end: tuple[int, ...]
    has_types: bool = False
    context_first: bool = False
    class_last: bool = False
    both_orders: bool = False

    @property
    def num_embeddings(self) -> int:
        """Number of embeddings that the special ids need."""
        return max((token_type + 1 for token_type in (*self.start, *self.between, *self.end)), default=0)

    def cls_position(self, length: int) -> int:
        """Return the position of the class token in a row of ``length`` tokens."""
        return length - 1 if self.class_last else 0

    def max_tokens(self, num_texts: int) -> int:
        """Return the maximum number of tokens of all texts of a row."""
        num_special = len(self.start) + len(self.end) + (len(self.between) if num_texts == 2 else 0)
        return self.limit - num_special

    def join(self, texts: Sequence[Sequence[int]]) -> EncoderInput:
        """Build the row of one text or two; the longer one is cut at its end until both fit, as in BERT's code."""
        sizes = fit([len(text) for text in texts], self.max_tokens(len(texts)))
        num_cut = sum(map(len, texts)) - sum(sizes)
        kept = [list(text[:size]) for text, size in zip(texts, sizes, strict=True)]
        before = [*self.start, *kept[0], *(self.between if len(kept) == 2 else ())]
        tokens = np.array([*before, *(kept[1] if len(kept) == 2 else ()), *self.end], np.int32)
        return EncoderInput(tokens, len(before) if len(kept) == 2 else len(tokens), num_cut)

    def rows(self, texts: Sequence[Sequence[int]]) -> list[EncoderInput]:
        """Build the rows of an example: one, or one for each order of its texts."""
        orders = (texts, texts[::-1]) if self.both_orders else (texts,)
        return [self.join(order) for order in orders]

    def token_types(self, length: int, second: int) -> np.ndarray:
        """Return token types, int32 [L]: 1 from the second text on, and 2 for a class token at the end.

        Args:
          length: Row length L.
          second: Start of the second text.
        """
        types = (np.arange(length) >= second).astype(np.int32)
        if self.context_first:
            types[-1] = 2
        return types * self.has_types


def input_format_of(tokenizer: Tokenizer, limit: int, framing: InputFraming | None = None) -> InputFormat:
    """Return the format of a framing, or that which the vocabulary's special ids imply.

    Vocabularies of decoders and encoder-decoders, which have neither cls nor sep, end each text with their end of
    sequence: ``A </s> B </s>``, after a beginning of sequence if they have one.

    Args:
      tokenizer: Tokenizer of the model.
      limit: Maximum row length in tokens.
      framing: Special tokens; None for those of the vocabulary.

    Raises:
      ValueError: The vocabulary lacks the special ids, or the limit is too short for two texts.
    """
    input_format = _by_vocabulary(tokenizer, limit) if framing is None else _framed(tokenizer, limit, framing)
    if input_format.max_tokens(2) < 2:
        raise ValueError(f"inputs_length={limit} is too short for two texts and their special ids; raise it")
    return input_format


def _framed(tokenizer: Tokenizer, limit: int, framing: InputFraming) -> InputFormat:
    pieces = astuple(framing)[:3]
    known = [tokenizer.piece(token_id) for token_id in range(tokenizer.vocab_size)]
    ids = {piece: known.index(piece) for piece in pieces if piece in known}
    absent = [piece for piece in pieces if piece not in ids]
    if absent:
        near = difflib.get_close_matches(absent[0], known, n=3)
        raise ValueError(
            f"{tokenizer} has no piece {absent[0]!r} for an InputFraming; "
            + (f"did you mean {' or '.join(map(repr, near))}? " if near else "")
            + f"num_sentinels={len(pieces)} of the task adds <extra_id_0> to <extra_id_{len(pieces) - 1}>"
        )
    start, delimiter, extract = ((ids[piece],) for piece in pieces)
    return InputFormat(limit, start, delimiter, extract, class_last=True, both_orders=framing.both_orders)


def _by_vocabulary(tokenizer: Tokenizer, limit: int) -> InputFormat:
    ids = ids_of(tokenizer)
    if ids.cls is None or ids.sep is None:
        if ids.eos is None:
            raise ValueError(
                f"{tokenizer} has no ids to begin and to separate texts ([CLS] and [SEP]), which encoders' heads need, "
                "and no end of sequence, which others need; use the vocabulary of the model's own checkpoint"
            )
        start = () if ids.bos in (None, ids.eos) else (ids.bos,)
        return InputFormat(limit, start, (ids.eos,), (ids.eos,), class_last=True)
    cls, sep = (ids.cls,), (ids.sep,)
    if tokenizer.piece(ids.cls) == _LAST:
        return InputFormat(limit, (), sep, sep + cls, has_types=True, context_first=True, class_last=True)
    if tokenizer.piece(ids.sep) == _TWICE:
        return InputFormat(limit, cls, sep * 2, sep)
    return InputFormat(limit, cls, sep, sep, has_types=True)


def fit(sizes: Sequence[int], max_tokens: int) -> list[int]:
    """Return the number of tokens kept of each text; the longer one is cut, or the second of equal ones.

    >>> fit([10, 4], 9)
    [5, 4]

    Args:
      sizes: Number of tokens of each text, one or two.
      max_tokens: Number of tokens to keep in all.
    """
    if sum(sizes) <= max_tokens:
        return list(sizes)
    if len(sizes) == 1:
        return [max_tokens]
    shorter = min(sizes)
    if shorter <= max_tokens // 2:
        return [shorter if size == shorter else max_tokens - shorter for size in sizes]
    return [max_tokens - max_tokens // 2, max_tokens // 2]


def num_input_ids(tokenizer: Tokenizer, input_format: InputFormat) -> int:
    """Return the number of embeddings that inputs of heads need: of the sentinels only those of the format.

    Args:
      tokenizer: Tokenizer of the model.
      input_format: Special ids of input rows.
    """
    return max(tokenizer.vocab_size - tokenizer.num_sentinels, input_format.num_embeddings)
