"""Examples of a seqio task too large for memory, read in order from its own pipeline."""

from collections.abc import Callable, Iterator, Sequence

from t5x_like.text.objectives.objective import Example


class StreamSource:
    """Asks the pipeline for each epoch anew, seeded by it, and reads it in order.

    Going back to a place, as after a restart, replays the epoch up to there. Shuffling is seqio's, within its
    buffer.
    """

    def __init__(self, name: str, open_epoch: Callable[[int], Iterator[Example]]) -> None:
        self.name = name
        self.checksum = None
        self._open_epoch = open_epoch
        self._epoch, self._next, self._examples = -1, 0, iter(())
        self._held: dict[tuple[int, int], Example] = {}

    def remaining(self, epoch: int, position: int) -> int:
        """1 until the epoch ends: no more is known of a stream."""
        return int(self._hold(epoch, position) is not None)

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Example]:
        """The examples at positions that were planned."""
        held = [self._hold(epoch, position) for position in positions]
        return [example for example in held if example is not None]

    def following(self, epoch: int, position: int) -> tuple[int, int]:
        """Asked for where nothing remains, which is where the epoch ends."""
        del position
        return epoch + 1, 0

    def release(self, epoch: int, position: int) -> None:
        """Forgets what lies before this place."""
        self._held = {place: pair for place, pair in self._held.items() if place >= (epoch, position)}

    def _hold(self, epoch: int, position: int) -> Example | None:
        if (epoch, position) in self._held:
            return self._held[epoch, position]
        if epoch != self._epoch or position < self._next:
            self._epoch, self._next, self._examples = epoch, 0, self._open_epoch(epoch)
        while self._next <= position:
            example = next(self._examples, None)
            if example is None:
                return None
            if self._next == position:
                self._held[epoch, position] = example
            self._next += 1
        return self._held[epoch, position]
