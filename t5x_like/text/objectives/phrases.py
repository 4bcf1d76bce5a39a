"""Search for a list of phrases in many texts at once."""

from collections.abc import Iterable, Sequence

import numpy as np


class Phrases:
    """Trie of phrases of two or more tokens, stored as arrays; a state represents the beginning of a phrase."""

    def __init__(self, phrases: Iterable[Sequence[int]], vocab_size: int) -> None:
        states: dict[tuple[int, int], int] = {}  # (state, token) -> next state; 0 is the start
        is_end = [False]
        for phrase in phrases:
            if len(phrase) < 2:
                continue
            state = 0
            for token in phrase:
                state = states.setdefault((state, token), len(is_end))
                if state == len(is_end):
                    is_end.append(False)
            is_end[state] = True
        keys = np.array([state * vocab_size + token for state, token in states], np.int64)
        order = np.argsort(keys)
        self._keys = keys[order]
        self._next = np.fromiter(states.values(), np.int64, len(states))[order]
        self._is_end = np.array(is_end)
        self._vocab_size = vocab_size
        self._starts = np.zeros(vocab_size, bool)
        self._starts[self._keys[self._keys < vocab_size]] = True

    def __len__(self) -> int:
        return int(self._is_end.sum())

    def find(self, tokens: np.ndarray, allowed: np.ndarray) -> np.ndarray:
        """Find non-overlapping phrases: at each position the longest, of overlapping ones the leftmost.

        Args:
          tokens: Ids [T].
          allowed: Positions at which a phrase may begin, bool [T].

        Returns:
          Start and end of each phrase, int64 [N, 2].
        """
        positions = np.flatnonzero(self._starts[tokens] & allowed)
        longest = np.zeros(len(tokens), np.int64)
        states = np.zeros(len(positions), np.int64)
        length = 0
        while len(positions):
            keys = states * self._vocab_size + tokens[positions + length]
            indices = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            continues = self._keys[indices] == keys
            length += 1
            positions, states = positions[continues], self._next[indices[continues]]
            longest[positions[self._is_end[states]]] = length
            inside = positions + length < len(tokens)
            positions, states = positions[inside], states[inside]
        starts = np.flatnonzero(longest)
        both = np.stack([starts, starts + longest[starts]], axis=1)
        return both[_without_overlaps(both)]


def _without_overlaps(spans: np.ndarray) -> np.ndarray:
    """Return the spans that remain, bool [N], if each one that overlaps a remaining earlier one is dropped."""
    count = len(spans)
    # Each span's successor is the first that begins after it. Doubling the steps finds all successors of the first.
    step = np.append(np.searchsorted(spans[:, 0], spans[:, 1]), count)
    is_reached = np.zeros(count + 1, bool)
    is_reached[0] = True
    for _ in range(count.bit_length()):
        is_reached[step[is_reached]] = True
        step = step[step]
    return is_reached[:count]
