"""Replacement of noise tokens by sentinels, masks, other tokens or nothing, for many rows at once."""

import numpy as np

from t5x_like.text.objectives.framing import ordinary_ids
from t5x_like.text.objectives.random_bits import random_below, random_bits
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

_LOW = np.uint64(2**32 - 1)


def with_column(rows: np.ndarray, last: int | bool) -> np.ndarray:
    """Append one value to each row: [N, L] becomes [N, L + 1].

    Args:
      rows: Array [N, L].
      last: Value to append.
    """
    wider = np.empty((rows.shape[0], rows.shape[1] + 1), rows.dtype)
    wider[:, :-1] = rows
    wider[:, -1] = last
    return wider


def kept_tokens(
    tokens: np.ndarray, is_kept: np.ndarray, *, max_length: int | None = None
) -> list[np.ndarray]:
    """Return the kept tokens of each row.

    Args:
      tokens: int32 [N, L].
      is_kept: bool [N, L].
      max_length: Maximum length; a longer row loses tokens before its last one, which ends the sequence.
    """
    flat = tokens[is_kept]
    ends = np.cumsum(np.count_nonzero(is_kept, axis=1)).tolist()
    rows = [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    if max_length is None:
        return rows
    return [row if len(row) <= max_length else np.append(row[: max_length - 1], row[-1:]) for row in rows]


def spans_to_sentinels(
    tokens: np.ndarray, is_span: np.ndarray, ids: VocabularyIds, *, unique: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Replace each span of tokens by one sentinel.

    Args:
      tokens: int32 [N, L].
      is_span: bool [N, L]; adjacent true values form a span.
      ids: Special ids of the vocabulary.
      unique: Count sentinels down from the first for each row; the last one repeats if there are too few. Otherwise
        every span becomes the first sentinel.

    Returns:
      Tokens with sentinels at span starts, int32 [N, L], and the positions to keep, bool [N, L].
    """
    is_first = is_span.copy()
    is_first[:, 1:] &= ~is_span[:, :-1]
    sentinels: int | np.ndarray = ids.first_sentinel
    if unique:
        sentinels = ids.first_sentinel + 1 - np.cumsum(is_first, axis=1, dtype=np.int32)
        if ids.num_sentinels:
            np.maximum(sentinels, ids.first_sentinel + 1 - ids.num_sentinels, out=sentinels)
    return np.where(is_first, sentinels, tokens).astype(np.int32, copy=False), is_first | ~is_span


def shuffled(tokens: np.ndarray, is_noise: np.ndarray, seeds: np.ndarray, *, use: int) -> np.ndarray:
    """Permute the noise tokens of each row among their positions.

    Args:
      tokens: int32 [N, L].
      is_noise: bool [N, L].
      seeds: Seed of each row, uint64 [N, 2].
      use: Random sequence; see ``random_bits``.

    Returns:
      int32 [N, L].
    """
    # Sorting whole numbers, with the token in their lower half, is many times faster than finding an order.
    keys = (random_bits(seeds, tokens.shape[1], use=use) & ~_LOW) | tokens.astype(np.uint64)
    keys[~is_noise] = ~np.uint64(0)
    keys.sort(axis=1)
    is_first = np.arange(tokens.shape[1]) < np.count_nonzero(is_noise, axis=1)[:, None]
    moved = tokens.copy()
    moved[is_noise] = (keys[is_first] & _LOW).astype(np.int32)
    return moved


def gathered(tokens: np.ndarray, seeds: np.ndarray, *, use: int) -> np.ndarray:
    """Draw, for each position, any token of the same row; int32 [N, L].

    Args:
      tokens: Rows to draw from, int32 [N, L].
      seeds: Seed of each row, uint64 [N, 2].
      use: Purpose: different numbers give independent draws for the same seeds.
    """
    length = tokens.shape[1]
    return np.take_along_axis(tokens, random_below(length, seeds, length, use=use), axis=1)


def random_words(shape: tuple[int, int], seeds: np.ndarray, ids: VocabularyIds, *, use: int) -> np.ndarray:
    """Draw ordinary ids of the vocabulary, int32 [N, L].

    Args:
      shape: N and L.
      seeds: Seed of each row, uint64 [N, 2].
      ids: Special ids of the vocabulary.
      use: Random sequence; see ``random_bits``.
    """
    words = ordinary_ids(ids)
    return words[random_below(len(words), seeds, shape[1], use=use)]


def mask_id(ids: VocabularyIds) -> int | None:
    """Return the id of masks: the first sentinel, as in T5, or the mask of a vocabulary without sentinels."""
    return ids.first_sentinel if ids.num_sentinels else ids.mask
