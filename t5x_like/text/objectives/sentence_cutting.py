"""Windows cut between sentences: as many as fit, or two segments side by side."""

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
    """Where the sentences of a window lie: number ``s`` from ``edges[s]`` to ``edges[s + 1]``."""

    edges: np.ndarray  # int64 [S + 1]
    first: np.ndarray  # int64 [D + 1], the first sentence of each document, and S


def sentences_of(window: DocumentWindow, most: int) -> Sentences:
    """The window's sentences, those over ``most`` tokens cut into parts.

    Raises:
      ValueError: the window doesn't tell where sentences end.
    """
    if not len(window.ends):
        return Sentences(np.zeros(1, np.int64), np.zeros(1, np.int64))
    if window.sentence_ends is None:
        raise ValueError(
            "this objective learns from sentences, and the documents don't tell where they end; set sentences=True "
            "in the task, or give each document its sentence_ends"
        )
    ends = np.union1d(window.sentence_ends, window.ends)
    edges = np.append(0, cut_documents(DocumentWindow(window.tokens, ends), most).ends[:, 0])
    return Sentences(edges, np.searchsorted(edges, np.append(0, window.ends)))


def cut_full_sentences(window: DocumentWindow, most: int, *, across_documents: bool) -> Cuts:
    """As many whole sentences as fit ``most`` tokens, one text after the other, from one document or across them.

    Windows have an end of sequence after each document; the one at a text's end is left out.
    """
    edges, first = (array.tolist() for array in sentences_of(window, most))
    stops = [edges[-1]] if across_documents else [edges[sentence] for sentence in first[1:]]
    starts, ends, start = [], [], 0
    for stop in stops:
        while start < stop:
            end = min(edges[bisect_right(edges, start + most) - 1], stop)
            starts.append(start)
            ends.append(end)
            start = end
    found = np.array(ends, np.int64)
    found -= np.isin(found, window.ends)
    kept = found > np.array(starts, np.int64)
    return Cuts(np.array(starts, np.int64)[kept, None], found[kept, None])


def chunk_end(edges: list[int], sentence: int, last: int, target: int) -> int:
    """The sentence before which a chunk ends that begins at ``sentence`` and is to have ``target`` tokens or more."""
    return min(bisect_left(edges, edges[sentence] + target, sentence + 1), last)


def target_lengths(count: int, room: int, short_rate: float, key: np.ndarray) -> list[int]:
    """How long both segments together are to be: ``room``, or 2 to ``room`` tokens in ``short_rate`` of the texts."""
    draws = random_bits(key[None], 2 * count, use=10)[0].reshape(2, count)
    is_short = (draws[0] >> np.uint64(11)) * 2.0**-53 < short_rate
    short = 2 + (draws[1] % np.uint64(max(room - 1, 1))).astype(np.int64)
    return np.where(is_short, np.minimum(short, room), room).tolist()


def pair_cuts(pairs: Sequence[Pair], room: int, key: np.ndarray) -> Cuts:
    """Pairs cut to ``room`` tokens together.

    Tokens are taken from the longer segment, one at a time, at its front or its end with equal chances (BERT's
    ``truncate_seq_pair``): counts follow from the lengths, and those at the front are binomial.
    """
    places = np.array(pairs, np.int64).reshape(-1, 5)
    starts, ends = places[:, [0, 2]], places[:, [1, 3]]
    lengths = ends - starts
    excess = np.maximum(lengths.sum(axis=1) - room, 0)
    longer_by = np.abs(lengths[:, 0] - lengths[:, 1])
    from_longer = np.minimum(excess, longer_by)
    rest = excess - from_longer
    removed = np.stack([rest // 2, rest - rest // 2], axis=1)  # of equals, the second is cut first
    removed[np.arange(len(places)), (lengths[:, 1] > lengths[:, 0]).astype(int)] += from_longer
    front = np.stack([_heads(removed[:, side], key, use=11 + side) for side in (0, 1)], axis=1)
    return Cuts(starts + front, ends - (removed - front), places[:, 4])


def _heads(tosses: np.ndarray, key: np.ndarray, *, use: int) -> np.ndarray:
    """int64 [N]: how many of int64 [N] tosses of a coin are heads."""
    num_words = -(-int(tosses.max(initial=0)) // _WORD)
    bits = random_bits(seeds_of_rows(key, np.arange(len(tosses))), num_words, use=use)
    used = np.clip(tosses[:, None] - _WORD * np.arange(num_words), 0, _WORD)
    shift = np.minimum(_WORD - used, _WORD - 1).astype(np.uint64)
    mask = np.where(used > 0, _ALL >> shift, np.uint64(0))
    return np.bitwise_count(bits & mask).sum(axis=1, dtype=np.int64)
