"""Which examples share a row: greedily, in order."""

from collections.abc import Sequence
from typing import Protocol, TypeVar


class Sized(Protocol):
    """An example that knows how many tokens each of its features has."""

    @property
    def lengths(self) -> Sequence[int]: ...


Example = TypeVar("Example", bound=Sized)
Seen = TypeVar("Seen", bound=Sized, covariant=True)


class Lookahead(Protocol[Seen]):
    """Examples in order, of which the next can be seen before it is taken."""

    def peek(self) -> Seen | None: ...

    def pop(self) -> Seen: ...


def take_row(examples: Lookahead[Example], *, limits: Sequence[int], pack: bool = True) -> list[Example]:
    """Takes the examples of one row: none is passed over, and the first that would overflow a feature is
    left.

    A feature over its limit counts as the limit: it will be cut. Without ``pack`` a row has one example. The
    row is empty when there are no examples any more. As seqio packs, but for its flush after every
    ``max(limits)`` examples.
    """
    row: list[Example] = []
    used = [0] * len(limits)
    while (example := examples.peek()) is not None:
        taken = zip(used, example.lengths, limits, strict=True)
        used = [have + min(length, limit) for have, length, limit in taken]
        fits = all(have <= limit for have, limit in zip(used, limits, strict=True))
        if row and not (pack and fits):
            break
        row.append(examples.pop())
    return row
