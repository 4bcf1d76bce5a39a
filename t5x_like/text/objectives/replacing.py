"""What stands in the place of noise: sentinels, a mask, other words, or nothing. All for many rows at once."""

import numpy as np

from t5x_like.text.objectives.framing import drawable
from t5x_like.text.objectives.random_bits import random_below, random_bits
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

_LOW = np.uint64(2**32 - 1)


def with_column(rows: np.ndarray, last: int | bool) -> np.ndarray:
    """Rows [N, L] with the same value after each, [N, L + 1]."""
    wider = np.empty((rows.shape[0], rows.shape[1] + 1), rows.dtype)
    wider[:, :-1] = rows
    wider[:, -1] = last
    return wider


def rows_of(tokens: np.ndarray, is_kept: np.ndarray, *, most: int | None = None) -> list[np.ndarray]:
    """What is kept of each row, int32; of more than ``most`` tokens the first and the very last, which ends it."""
    flat = tokens[is_kept]
    ends = np.cumsum(np.count_nonzero(is_kept, axis=1)).tolist()
    rows = [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    if most is None:
        return rows
    return [row if len(row) <= most else np.append(row[: most - 1], row[-1:]) for row in rows]


def spans_to_sentinels(
    tokens: np.ndarray, is_span: np.ndarray, ids: VocabularyIds, *, unique: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """One sentinel for each run where ``is_span`` [N, L], and what is kept then, bool [N, L].

    ``unique`` sentinels count down from the first; should there be more runs than sentinels, the last one repeats.
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
    """The noise tokens of each row in another order, in the places that they have together; int32 [N, L]."""
    # Sorting whole numbers, with the token in their lower half, is many times faster than finding an order.
    keys = (random_bits(seeds, tokens.shape[1], use=use) & ~_LOW) | tokens.astype(np.uint64)
    keys[~is_noise] = ~np.uint64(0)
    keys.sort(axis=1)
    is_first = np.arange(tokens.shape[1]) < np.count_nonzero(is_noise, axis=1)[:, None]
    moved = tokens.copy()
    moved[is_noise] = (keys[is_first] & _LOW).astype(np.int32)
    return moved


def gathered(tokens: np.ndarray, seeds: np.ndarray, *, use: int) -> np.ndarray:
    """A token of the same row, any, for each; int32 [N, L]."""
    length = tokens.shape[1]
    return np.take_along_axis(tokens, random_below(length, seeds, length, use=use), axis=1)


def random_words(shape: tuple[int, int], seeds: np.ndarray, ids: VocabularyIds, *, use: int) -> np.ndarray:
    """Any of the vocabulary's ids but its special ones and sentinels, int32 [N, L]."""
    words = drawable(ids)
    return words[random_below(len(words), seeds, shape[1], use=use)]


def mask_of(ids: VocabularyIds) -> int | None:
    """T5's masks are its first sentinel; a vocabulary without sentinels has a mask."""
    return ids.first_sentinel if ids.num_sentinels else ids.mask
