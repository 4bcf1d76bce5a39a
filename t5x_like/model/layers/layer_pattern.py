"""Pattern in which equal layers repeat, so that their weights can be stacked and run by one scan."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple


class LayerPattern(NamedTuple):
    """Leading layers, then a pattern of layers that repeats.

    Attributes:
      num_leading: Layers before the pattern.
      period: Layers of the pattern.
      num_repeats: How often the pattern repeats.
    """

    num_leading: int
    period: int
    num_repeats: int

    @property
    def slots(self) -> tuple[tuple[int, ...], ...]:
        """Indices of the layers that are stacked in each slot.

        >>> find_layer_pattern(["first", "local", "global", "local", "global"]).slots
        ((0,), (1, 3), (2, 4))
        """
        first, last = self.num_leading, self.num_leading + self.period * self.num_repeats
        leading = tuple((layer,) for layer in range(first))
        return leading + tuple(tuple(range(first + index, last, self.period)) for index in range(self.period))


def find_layer_pattern(blocks: Sequence[Hashable]) -> LayerPattern:
    """Return the pattern with the fewest slots, and among those with the fewest leading layers.

    >>> find_layer_pattern(["local", "global", "local", "global"])
    LayerPattern(num_leading=0, period=2, num_repeats=2)
    """
    numbers: dict[Hashable, int] = {}
    kinds = [numbers.setdefault(block, len(numbers)) for block in blocks]
    for num_slots in range(1, len(kinds) + 1):
        for leading in range(num_slots):
            pattern, period = kinds[leading:], num_slots - leading
            if len(pattern) % period == 0 and pattern == pattern[:period] * (len(pattern) // period):
                return LayerPattern(leading, period, len(pattern) // period)
    return LayerPattern(0, 0, 0)
