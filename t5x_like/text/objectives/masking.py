"""Which tokens of framed rows are masked, and what stands in their place: what every masked language model shares.

A mask is made of units: tokens, words, n-grams of words, or annotated phrases. Units lie side by side and are marked
by where they begin. They are taken in random order, whole, until the share to be masked is used up.
"""

from typing import Protocol, runtime_checkable

import numpy as np

from t5x_like.text.objectives.framing import FramedTexts, MaskedTexts
from t5x_like.text.objectives.random_bits import random_bits, random_fractions
from t5x_like.text.objectives.replacing import random_words
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

_ORDER, _LENGTHS, _KIND, _WORD = range(100, 104)  # uses of a text's random numbers
_PLACE = np.uint64(2**20 - 1)  # the low bits of a sorting key say whose it is


@runtime_checkable
class Masking(Protocol):
    """A frozen dataclass that says which tokens are masked."""

    def check(self, ids: VocabularyIds) -> None:
        """Refuses vocabularies that it can't work with.

        Raises:
          ValueError: says what is needed.
        """
        ...

    def mask(self, framed: FramedTexts, seeds: np.ndarray, ids: VocabularyIds) -> MaskedTexts:
        """Masks rows, each by its own seed, uint64 [N, 2]. No special id is masked, or stands for a word."""
        ...


def require_rates(noise_density: float, mask_rate: float, random_rate: float) -> None:
    """Refuses shares that are none.

    Raises:
      ValueError: says which.
    """
    if not 0.0 < noise_density < 1.0:
        raise ValueError(f"noise_density must lie between 0 and 1, got {noise_density}")
    if min(mask_rate, random_rate) < 0.0 or mask_rate + random_rate > 1.0:
        raise ValueError(
            f"mask_rate={mask_rate} and random_rate={random_rate} must not be negative, nor be over 1 together; "
            "what is left of 1 keeps its word"
        )


def require_words(ids: VocabularyIds) -> None:
    """Refuses vocabularies that don't tell where words begin.

    Raises:
      ValueError: says what to do.
    """
    if ids.starts_word is None:
        raise ValueError(
            "the vocabulary doesn't tell where words begin; set whole_words to False, or use WordPiece, "
            "SentencePiece or bytes"
        )


def budgets(framed: FramedTexts, noise_density: float) -> np.ndarray:
    """int64 [N]: how many tokens of each row are to be predicted, as BERT counts: special ids too, and at least 1."""
    return np.maximum(np.rint(framed.lengths * noise_density), 1).astype(np.int64)


def token_starts(framed: FramedTexts) -> np.ndarray:
    """bool [N, M]: every token by itself."""
    return framed.is_text


def word_starts(framed: FramedTexts, ids: VocabularyIds) -> np.ndarray:
    """bool [N, M]: where words begin; a segment begins one whatever its first piece says."""
    assert ids.starts_word is not None, "check refuses such vocabularies"
    begins = ids.starts_word[framed.tokens]
    begins[:, 1:] |= ~framed.is_text[:, :-1]
    return begins & framed.is_text


def joined_starts(
    starts: np.ndarray, shares: np.ndarray, framed: FramedTexts, seeds: np.ndarray
) -> np.ndarray:
    """bool [N, M]: units joined to longer ones, ``n`` of them with a probability ∝ ``shares[n - 1]``.

    The whole row is laid out with lengths drawn one after the other, so that lengths among the units that are then
    taken have that distribution; drawing a start and a length instead, and again where masks meet, favours short ones.
    """
    edges = np.cumsum(shares)[:-1] / np.sum(shares)
    # Laid out from well before the row on: else its first token always began a unit, and were masked more than others.
    before = 4 * len(shares)
    numbers = np.cumsum(starts, axis=1) - 1  # of units, from 0
    count = before + int(numbers[:, -1].max(initial=-1)) + 1
    lengths = np.searchsorted(edges, random_fractions(seeds, count, use=_LENGTHS), side="right") + 1
    begins = np.zeros((len(starts), count + 1), bool)
    np.put_along_axis(begins, np.minimum(np.cumsum(lengths, axis=1), count), True, axis=1)
    joined = starts & np.take_along_axis(begins, np.maximum(numbers, 0) + before, axis=1)
    joined[:, 0] |= starts[:, 0]
    joined[:, 1:] |= starts[:, 1:] & ~framed.is_text[:, :-1]  # no unit reaches over a special id
    return joined


def unit_numbers(starts: np.ndarray) -> np.ndarray:
    """int64 [N, M]: which unit of its row a token belongs to, from 0. Anything where there is no text."""
    return np.maximum(np.cumsum(starts, axis=1) - 1, 0)


def choose(
    starts: np.ndarray,
    room: np.ndarray,
    framed: FramedTexts,
    seeds: np.ndarray,
    *,
    divisible_at: np.ndarray | None = None,
) -> np.ndarray:
    """bool [N, M]: units taken in random order, at most ``room``, int64 [N], tokens.

    A unit that doesn't fit any more is passed over, and the next ones tried, as BERT's whole words are. With
    ``divisible_at``, the first such unit is cut at the last of these places that fits, and no other is tried.
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
    taken = _take_fitting(in_order, room) if divisible_at is None else _take_all(in_order, room)
    quotas = np.zeros_like(sizes)
    np.put_along_axis(quotas, order, taken, axis=1)
    quota = np.take_along_axis(quotas, numbers, axis=1)
    if divisible_at is None:
        return framed.is_text & (quota > 0)
    places = np.arange(width)
    unit_start = np.maximum.accumulate(np.where(starts, places, 0), axis=1)
    part_end = np.full((rows, width), width)
    part_end[:, :-1] = np.where(divisible_at | ~framed.is_text, places, width)[:, 1:]
    part_end = np.minimum.accumulate(part_end[:, ::-1], axis=1)[:, ::-1]
    return framed.is_text & (part_end - unit_start <= quota)


def _take_fitting(sizes: np.ndarray, room: np.ndarray) -> np.ndarray:
    """How many tokens are taken of each unit: all or none."""
    taken = np.zeros_like(sizes)
    rows = np.arange(len(sizes))  # those in which something may still fit
    while len(rows):
        left = (room - taken.sum(axis=1))[rows, None]
        candidates = np.where((taken[rows] == 0) & (sizes[rows] <= left), sizes[rows], 0)
        # A running sum only grows: what comes after the first that doesn't fit waits for the next turn.
        fits = np.where(np.cumsum(candidates, axis=1) <= left, candidates, 0)
        taken[rows] += fits
        rows = rows[fits.any(axis=1) & (fits != candidates).any(axis=1)]
    return taken


def _take_all(sizes: np.ndarray, room: np.ndarray) -> np.ndarray:
    """How many tokens are taken of each unit until there is no room."""
    before = np.cumsum(sizes, axis=1) - sizes
    return np.clip(room[:, None] - before, 0, sizes)


def replace(
    framed: FramedTexts,
    is_target: np.ndarray,
    seeds: np.ndarray,
    ids: VocabularyIds,
    *,
    mask_rate: float,
    random_rate: float,
    alike: np.ndarray | None = None,
) -> MaskedTexts:
    """Puts the mask, a random word, or the word itself in the place of targets (80 %, 10 % and 10 % in BERT).

    Drawn for each token, or once for all tokens that have one number of ``alike``, int64 [N, M]. Random words are
    drawn from all ids but special ones; BERT's own code draws from these too.
    """
    width = framed.tokens.shape[1]
    kind = random_fractions(seeds, width, use=_KIND)
    if alike is not None:
        kind = np.take_along_axis(kind, alike, axis=1)
    inputs = framed.tokens.copy()
    inputs[is_target & (kind < mask_rate)] = ids.mask
    is_random = is_target & (kind >= mask_rate) & (kind < mask_rate + random_rate)
    inputs[is_random] = random_words(inputs.shape, seeds, ids, use=_WORD)[is_random]
    return MaskedTexts(inputs, is_target)
