"""Choice and replacement of tokens to mask, shared by all masked language models.

A mask consists of units: tokens, words, n-grams of words, or annotated phrases. Units are adjacent and are marked by
their first tokens. They are chosen in random order, as a whole, until the fraction to mask is reached.
"""

from typing import Protocol, runtime_checkable

import numpy as np

from t5x_like.text.objectives.framing import FramedTexts, MaskedTexts
from t5x_like.text.objectives.random_bits import random_bits, random_fractions
from t5x_like.text.objectives.replacing import random_words
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

_ORDER, _LENGTHS, _KIND, _WORD = range(100, 104)  # random sequences of a text
_PLACE = np.uint64(2**20 - 1)  # the low bits of a sorting key hold the unit's number


@runtime_checkable
class Masking(Protocol):
    """Distribution of the masked tokens; a frozen dataclass."""

    def check(self, ids: VocabularyIds) -> None:
        """Check that the vocabulary suits the masking.

        Raises:
          ValueError: It doesn't; the message says what is needed.
        """
        ...

    def mask(self, framed: FramedTexts, seeds: np.ndarray, ids: VocabularyIds) -> MaskedTexts:
        """Mask rows; special ids are neither masked nor used as random tokens.

        Args:
          framed: N rows.
          seeds: Seed of each row, uint64 [N, 2].
          ids: Special ids of the vocabulary.
        """
        ...


def require_rates(noise_density: float, mask_rate: float, random_rate: float) -> None:
    """Check rates of masking.

    Args:
      noise_density: Fraction of the tokens to predict.
      mask_rate: Fraction of these that become the mask.
      random_rate: Fraction of these that become a random token.

    Raises:
      ValueError: A rate is out of range; the message names it.
    """
    if not 0.0 < noise_density < 1.0:
        raise ValueError(f"noise_density must lie between 0 and 1, got {noise_density}")
    if min(mask_rate, random_rate) < 0.0 or mask_rate + random_rate > 1.0:
        raise ValueError(
            f"mask_rate={mask_rate} and random_rate={random_rate} must not be negative, nor be over 1 together; "
            "the remaining targets keep their tokens"
        )


def require_words(ids: VocabularyIds) -> None:
    """Check that the vocabulary marks the beginnings of words.

    Raises:
      ValueError: It doesn't; the message lists alternatives.
    """
    if ids.starts_word is None:
        raise ValueError(
            "the vocabulary doesn't mark where words begin; set whole_words to False, or use WordPiece, "
            "SentencePiece or bytes"
        )


def num_targets(framed: FramedTexts, noise_density: float) -> np.ndarray:
    """Return the number of tokens of each row to predict, int64 [N]: at least 1.

    Args:
      framed: Rows; their special ids are counted, as in BERT.
      noise_density: Share of tokens to predict.
    """
    return np.maximum(np.rint(framed.lengths * noise_density), 1).astype(np.int64)


def token_starts(framed: FramedTexts) -> np.ndarray:
    """Return unit starts where each token is a unit, bool [N, M]."""
    return framed.is_text


def word_starts(framed: FramedTexts, ids: VocabularyIds) -> np.ndarray:
    """Return the starts of words, bool [N, M]: annotated spans are words, elsewhere the vocabulary marks them.

    So the words of Chinese, which a task's ``word_segmentation`` or ``spans_column`` gives, are masked as a whole (Cui
    et al. 2021, https://arxiv.org/abs/1906.08101). The vocabulary alone may take each character for a word (WordPiece)
    or none (SentencePiece).

    Args:
      framed: Rows.
      ids: Special ids of the vocabulary, and the ids that start words.
    """
    starts = vocabulary_starts(framed, ids)
    spans = annotated_spans(framed)
    if not spans:
        return starts
    flat = np.concatenate(spans)
    starts &= ~inside_spans(flat[:, 0], flat[:, 1], framed)
    starts.ravel()[flat] = True  # a span, and what follows it, start words
    return starts & framed.is_text


def vocabulary_starts(framed: FramedTexts, ids: VocabularyIds) -> np.ndarray:
    """Return the starts of the vocabulary's words, bool [N, M]; each segment starts one, with whatever piece.

    Args:
      framed: Rows.
      ids: Special ids of the vocabulary, and the ids that start words.
    """
    assert ids.starts_word is not None, "check refuses such vocabularies"
    begins = ids.starts_word[framed.tokens]
    begins[:, 1:] |= ~framed.is_text[:, :-1]
    return begins & framed.is_text


def annotated_spans(framed: FramedTexts) -> list[np.ndarray]:
    """Return the texts' spans, int64 [N, 2], as offsets into all rows concatenated."""
    width = framed.tokens.shape[1]
    spans = []
    for row, text in enumerate(framed.texts):
        if text.spans is not None:
            in_second = text.spans[:, :1] >= text.second
            spans.append(text.spans[:, :2] + 1 + in_second + row * width)
    return spans


def inside_spans(starts: np.ndarray, ends: np.ndarray, framed: FramedTexts) -> np.ndarray:
    """Return the tokens from a start to before its end, bool [N, M].

    Args:
      starts: Positions in all rows concatenated, int64 [S].
      ends: Positions after the spans, int64 [S].
      framed: Rows.
    """
    changes = np.zeros(framed.tokens.size + 1, np.int64)
    np.add.at(changes, starts, 1)
    np.add.at(changes, ends, -1)
    return (np.cumsum(changes)[:-1] > 0).reshape(framed.tokens.shape)


def ngram_starts(
    starts: np.ndarray, shares: np.ndarray, framed: FramedTexts, seeds: np.ndarray
) -> np.ndarray:
    """Join adjacent units to n-grams.

    The whole row is divided with lengths drawn one after another. The n-grams that are then chosen thus have the given
    length distribution; drawing starts and lengths, with retries on overlap, would favor short ones.

    Args:
      starts: Starts of the units, bool [N, M].
      shares: Relative probability of n = 1, 2, 3 … units.
      framed: N rows.
      seeds: Seed of each row, uint64 [N, 2].

    Returns:
      Starts of the n-grams, bool [N, M].
    """
    edges = np.cumsum(shares)[:-1] / np.sum(shares)
    # The division starts well before the row: otherwise the first token would always start a unit and be masked more.
    before = 4 * len(shares)
    numbers = np.cumsum(starts, axis=1) - 1  # of units, from 0
    count = before + int(numbers[:, -1].max(initial=-1)) + 1
    lengths = np.searchsorted(edges, random_fractions(seeds, count, use=_LENGTHS), side="right") + 1
    begins = np.zeros((len(starts), count + 1), bool)
    np.put_along_axis(begins, np.minimum(np.cumsum(lengths, axis=1), count), True, axis=1)
    joined = starts & np.take_along_axis(begins, np.maximum(numbers, 0) + before, axis=1)
    joined[:, 0] |= starts[:, 0]
    joined[:, 1:] |= starts[:, 1:] & ~framed.is_text[:, :-1]  # no unit spans a special id
    return joined


def unit_numbers(starts: np.ndarray) -> np.ndarray:
    """Return the index of each token's unit in its row, int64 [N, M]; arbitrary outside text."""
    return np.maximum(np.cumsum(starts, axis=1) - 1, 0)


def choose_units(
    starts: np.ndarray,
    limits: np.ndarray,
    framed: FramedTexts,
    seeds: np.ndarray,
    *,
    divisible_at: np.ndarray | None = None,
) -> np.ndarray:
    """Choose units in random order, up to a number of tokens per row.

    Args:
      starts: Starts of the units, bool [N, M].
      limits: Maximum number of tokens of each row, int64 [N].
      framed: N rows.
      seeds: Seed of each row, uint64 [N, 2].
      divisible_at: Positions at which a unit may be cut, bool [N, M]. The first unit that doesn't fit is then cut at
        the last such position that fits, and no other is chosen. By default it is skipped, and the next ones are
        tried, as in BERT's whole-word masking.

    Returns:
      Chosen tokens, bool [N, M].
    """
    rows, width = starts.shape
    numbers = unit_numbers(starts)
    count = int(numbers[:, -1].max(initial=0)) + 1
    flat = (numbers + np.arange(rows)[:, None] * count)[framed.is_text]
    sizes = np.bincount(flat, minlength=rows * count).reshape(rows, count)
    keys = (random_bits(seeds, count, use=_ORDER) & ~_PLACE) | np.arange(count, dtype=np.uint64)
    keys[sizes == 0] |= ~_PLACE
    order = (np.sort(keys, axis=1) & _PLACE).astype(np.int64)
    in_order = np.take_along_axis(sizes, order, axis=1)
    chosen = _take_fitting(in_order, limits) if divisible_at is None else _take_all(in_order, limits)
    quotas = np.zeros_like(sizes)
    np.put_along_axis(quotas, order, chosen, axis=1)
    quota = np.take_along_axis(quotas, numbers, axis=1)
    if divisible_at is None:
        return framed.is_text & (quota > 0)
    columns = np.arange(width)
    unit_start = np.maximum.accumulate(np.where(starts, columns, 0), axis=1)
    part_end = np.full((rows, width), width)
    part_end[:, :-1] = np.where(divisible_at | ~framed.is_text, columns, width)[:, 1:]
    part_end = np.minimum.accumulate(part_end[:, ::-1], axis=1)[:, ::-1]
    return framed.is_text & (part_end - unit_start <= quota)


def _take_fitting(sizes: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Return the number of tokens taken of each unit: all or none."""
    chosen = np.zeros_like(sizes)
    rows = np.arange(len(sizes))  # rows in which another unit may still fit
    while len(rows):
        left = (limits - chosen.sum(axis=1))[rows, None]
        candidates = np.where((chosen[rows] == 0) & (sizes[rows] <= left), sizes[rows], 0)
        # A running sum only grows: units after the first that doesn't fit are tried in the next iteration.
        fits = np.where(np.cumsum(candidates, axis=1) <= left, candidates, 0)
        chosen[rows] += fits
        rows = rows[fits.any(axis=1) & (fits != candidates).any(axis=1)]
    return chosen


def _take_all(sizes: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Return the number of tokens taken of each unit until the limit is reached."""
    before = np.cumsum(sizes, axis=1) - sizes
    return np.clip(limits[:, None] - before, 0, sizes)


def replace_targets(
    framed: FramedTexts,
    is_target: np.ndarray,
    seeds: np.ndarray,
    ids: VocabularyIds,
    *,
    mask_rate: float,
    random_rate: float,
    units: np.ndarray | None = None,
) -> MaskedTexts:
    """Replace targets by the mask or a random token, or keep them (80 %, 10 % and 10 % in BERT).

    Random tokens are ordinary ids; BERT's own code also draws special ones.

    Args:
      framed: N rows.
      is_target: Tokens to predict, bool [N, M].
      seeds: Seed of each row, uint64 [N, 2].
      ids: Special ids of the vocabulary.
      mask_rate: Fraction of the targets that become the mask.
      random_rate: Fraction of the targets that become a random token.
      units: Unit of each token, int64 [N, M]; all tokens of a unit are treated in the same way. By default, each
        token is treated independently.
    """
    width = framed.tokens.shape[1]
    kind = random_fractions(seeds, width, use=_KIND)
    if units is not None:
        kind = np.take_along_axis(kind, units, axis=1)
    inputs = framed.tokens.copy()
    inputs[is_target & (kind < mask_rate)] = ids.mask
    is_random = is_target & (kind >= mask_rate) & (kind < mask_rate + random_rate)
    inputs[is_random] = random_words(inputs.shape, seeds, ids, use=_WORD)[is_random]
    return MaskedTexts(inputs, is_target)
