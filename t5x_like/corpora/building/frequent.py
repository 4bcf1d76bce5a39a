"""The texts that come most often, of more than memory holds."""

from collections import Counter
from collections.abc import Iterable, Mapping

_HELD = 20_000
_CHARS = 200  # of each text


class Frequent:
    """Counts texts by their first characters; when there are too many, the rarer half is forgotten.

    A text of which there are many is hardly ever among those, so its count is exact or a little low (compare lossy
    counting: Manku and Motwani 2002, https://www.vldb.org/conf/2002/S10P03.pdf). The same texts in the same order have
    the same counts.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, texts: Iterable[str]) -> None:
        """Counts each text once."""
        self._counts.update(text[:_CHARS] for text in texts)
        self._forget()

    def add_counts(self, counts: Mapping[str, int]) -> None:
        """Counts what was counted elsewhere."""
        self._counts.update(counts)
        self._forget()

    def most(self, number: int) -> dict[str, int]:
        """The most frequent, in order. Lone surrogates, which no file can hold, become question marks."""
        ordered = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
        return {text.encode("utf-8", "replace").decode(): count for text, count in ordered[:number]}

    def _forget(self) -> None:
        if len(self._counts) > _HELD:
            ordered = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
            self._counts = Counter(dict(ordered[: _HELD // 2]))
