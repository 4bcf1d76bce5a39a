"""Examples of a seqio task too large for memory, read in order from its own pipeline."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from t5x_like.text.batches.sources import Pair


class StreamedPairs:
    """Asks the pipeline for each epoch anew, seeded by it, and reads it in order.

    Going back to a place, as after a restart, replays the epoch up to there. Shuffling is seqio's, within its
    buffer.
    """

    def __init__(self, name: str, open_epoch: Callable[[int], Iterator[Pair]]) -> None:
        self.name = name
        self.checksum = None
        self.ahead = 16
        self._open_epoch = open_epoch
        self._epoch, self._next, self._pairs = -1, 0, iter(())
        self._held: dict[tuple[int, int], Pair] = {}

    def remaining(self, epoch: int, position: int) -> int:
        """1 until the epoch ends: no more is known of a stream."""
        return int(self._hold(epoch, position) is not None)

    def lengths(self, epoch: int, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Reads on as far as asked, and holds the examples until they are released."""
        pairs = [self._hold(epoch, int(position)) for position in positions]
        sizes = [(len(pair[0]), len(pair[1])) for pair in pairs if pair is not None]
        inputs, targets = np.array(sizes, np.int64).reshape(-1, 2).T
        return inputs, targets

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Pair]:
        """The examples at positions that were planned."""
        pairs = [self._hold(epoch, int(position)) for position in positions]
        return [pair for pair in pairs if pair is not None]

    def release(self, epoch: int, position: int) -> None:
        """Forgets what lies before this place."""
        self._held = {place: pair for place, pair in self._held.items() if place >= (epoch, position)}

    def _hold(self, epoch: int, position: int) -> Pair | None:
        if (epoch, position) in self._held:
            return self._held[epoch, position]
        if epoch != self._epoch or position < self._next:
            self._epoch, self._next, self._pairs = epoch, 0, self._open_epoch(epoch)
        while self._next <= position:
            pair = next(self._pairs, None)
            if pair is None:
                return None
            if self._next == position:
                self._held[epoch, position] = pair
            self._next += 1
        return self._held[epoch, position]
