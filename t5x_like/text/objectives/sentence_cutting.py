"""Division of windows at sentence ends: as many sentences as fit, or two adjacent segments."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t5x_like.text.objectives.cutting import cut_documents
from t5x_like.text.objectives.objective import Cuts, DocumentWindow
from t5x_like.text.objectives.random_bits import random_bits, seeds_of_rows

Pair = tuple[int, int, int, int, int]  # start, end, start, end, label
_WORD = 64
_ALL = np.uint64(2**64 - 1)


class Sentences(NamedTuple):
    """Sentences of a window; sentence ``s`` extends from ``edges[s]`` to ``edges[s + 1]``.

    Attributes:
      edges: int64 [S + 1].
      first: First sentence of each document, followed by S; int64 [D + 1].
    """

    edges: np.ndarray
    first: np.ndarray


def sentences_of(window: DocumentWindow, max_length: int) -> Sentences:
    """Return the window's sentences; long ones are divided.

    Args:
      window: Concatenated documents with sentence ends.
      max_length: Highest number of tokens of a sentence.

    Raises:
      ValueError: The window doesn't mark sentence ends.
    """
    if not len(window.ends):
        return Sentences(np.zeros(1, np.int64), np.zeros(1, np.int64))
    if window.sentence_ends is None:
        raise ValueError(
            "this objective learns from sentences, and the documents don't mark where they end; set sentences=True "
            "in the task, or give each document its sentence_ends"
        )
    ends = np.union1d(window.sentence_ends, window.ends)
    edges = np.append(0, cut_documents(DocumentWindow(window.tokens, ends), max_length).ends[:, 0])
    return Sentences(edges, np.searchsorted(edges, np.append(0, window.ends)))


def cut_full_sentences(window: DocumentWindow, max_length: int, *, across_documents: bool) -> Cuts:
    """Cut texts of as many whole sentences as fit.

    Args:
      window: Documents, each followed by an end of sequence; the end of a text's last document is left out.
      max_length: Tokens of a text.
      across_documents: Let texts continue into the next document.
    """
    edges, first = (array.tolist() for array in sentences_of(window, max_length))
    stops = [edges[-1]] if across_documents else [edges[sentence] for sentence in first[1:]]
    starts, ends, start = [], [], 0
    for stop in stops:
        while start < stop:
            end = min(edges[bisect_right(edges, start + max_length) - 1], stop)
            starts.append(start)
            ends.append(end)
            start = end
    last_ends = np.array(ends, np.int64)
    last_ends -= np.isin(last_ends, window.ends)
    kept = last_ends > np.array(starts, np.int64)
    return Cuts(np.array(starts, np.int64)[kept, None], last_ends[kept, None])


def chunk_end(edges: list[int], sentence: int, last: int, target: int) -> int:
    """Return the end of the shortest chunk of sentences with at least ``target`` tokens.

    Args:
      edges: Edges of all sentences.
      sentence: First sentence of the chunk.
      last: End of the document, as a sentence index.
      target: Minimum number of tokens, unless the document ends.

    Returns:
      The sentence after the chunk.
    """
    return min(bisect_left(edges, edges[sentence] + target, sentence + 1), last)


def target_lengths(count: int, max_length: int, short_rate: float, key: np.ndarray) -> list[int]:
    """Draw the total lengths of pairs of segments.

    Args:
      count: Number of pairs.
      max_length: Length of most pairs.
      short_rate: Fraction of pairs with a random length of 2 to ``max_length`` tokens.
      key: Random key, uint64 [2].
    """
    draws = random_bits(key[None], 2 * count, use=10)[0].reshape(2, count)
    is_short = (draws[0] >> np.uint64(11)) * 2.0**-53 < short_rate
    short = 2 + (draws[1] % np.uint64(max(max_length - 1, 1))).astype(np.int64)
    return np.where(is_short, np.minimum(short, max_length), max_length).tolist()


def pair_cuts(pairs: Sequence[Pair], max_length: int, key: np.ndarray) -> Cuts:
    """Truncate pairs to ``max_length`` tokens together.

    Tokens are removed from the longer segment, one at a time, at its front or its end with equal probability (BERT's
    ``truncate_seq_pair``). Numbers of removed tokens follow from the lengths; those at the front are binomial.

    Args:
      pairs: Start and end of both segments, and the label.
      max_length: Maximum total length.
      key: Random key, uint64 [2].
    """
    bounds = np.array(pairs, np.int64).reshape(-1, 5)
    starts, ends = bounds[:, [0, 2]], bounds[:, [1, 3]]
    lengths = ends - starts
    excess = np.maximum(lengths.sum(axis=1) - max_length, 0)
    longer_by = np.abs(lengths[:, 0] - lengths[:, 1])
    from_longer = np.minimum(excess, longer_by)
    rest = excess - from_longer
    removed = np.stack([rest // 2, rest - rest // 2], axis=1)  # of equals, the second is cut first
    removed[np.arange(len(bounds)), (lengths[:, 1] > lengths[:, 0]).astype(int)] += from_longer
    front = np.stack([_heads(removed[:, side], key, use=11 + side) for side in (0, 1)], axis=1)
    return Cuts(starts + front, ends - (removed - front), bounds[:, 4])


def _heads(tosses: np.ndarray, key: np.ndarray, *, use: int) -> np.ndarray:
    """Return the number of heads in int64 [N] tosses of a fair coin."""
    num_words = -(-int(tosses.max(initial=0)) // _WORD)
    bits = random_bits(seeds_of_rows(key, np.arange(len(tosses))), num_words, use=use)
    used = np.clip(tosses[:, None] - _WORD * np.arange(num_words), 0, _WORD)
    shift = np.minimum(_WORD - used, _WORD - 1).astype(np.uint64)
    mask = np.where(used > 0, _ALL >> shift, np.uint64(0))
    return np.bitwise_count(bits & mask).sum(axis=1, dtype=np.int64)
