"""Examples of a seqio task too large for memory, streamed from its own pipeline."""

from collections.abc import Callable, Iterator, Sequence

from t5x_like.text.objectives.objective import Example


class StreamSource:
    """Reads each epoch of a pipeline in order.

    Returning to an earlier position, as after a restart, replays the epoch up to there. Shuffling is seqio's, within
    its buffer; the pipeline is seeded by the epoch.
    """

    def __init__(self, name: str, open_epoch: Callable[[int], Iterator[Example]]) -> None:
        self.name = name
        self.checksum = self.size = None
        self._open_epoch = open_epoch
        self._epoch, self._next, self._examples = -1, 0, iter(())
        self._kept: dict[tuple[int, int], Example] = {}

    def remaining(self, epoch: int, position: int) -> int:
        """Return 1 until the epoch ends, because the length of a stream is unknown."""
        return int(self._read_until(epoch, position) is not None)

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Example]:
        """Return the examples at planned positions."""
        kept = [self._read_until(epoch, position) for position in positions]
        return [example for example in kept if example is not None]

    def following(self, epoch: int, position: int) -> tuple[int, int]:
        """Return the start of the next epoch."""
        del position
        return epoch + 1, 0

    def release(self, epoch: int, position: int) -> None:
        """Free memory of examples before this position."""
        self._kept = {key: pair for key, pair in self._kept.items() if key >= (epoch, position)}

    def _read_until(self, epoch: int, position: int) -> Example | None:
        if (epoch, position) in self._kept:
            return self._kept[epoch, position]
        if epoch != self._epoch or position < self._next:
            self._epoch, self._next, self._examples = epoch, 0, self._open_epoch(epoch)
        while self._next <= position:
            example = next(self._examples, None)
            if example is None:
                return None
            if self._next == position:
                self._kept[epoch, position] = example
            self._next += 1
        return self._kept[epoch, position]
