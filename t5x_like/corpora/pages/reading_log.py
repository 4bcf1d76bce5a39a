"""What was read from files of pages: how many, what was left out and why, with the first examples of each."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

OnCorruption = Literal["fail", "skip"]

_EXAMPLES = 5


@dataclass
class ReadLog:
    """Counts by ``split-wet-file:passed``, ``split-wet-file:filtered:no_url``, ``split-wet-file:damaged:truncated``.

    ``filtered`` is what such files hold besides pages; ``damaged`` what couldn't be read as it should, of which
    ``on_corruption="fail"`` stops at the first; ``noticed`` what is odd about pages that were read. ``examples`` has
    the first few of both, each with file and place. Can be pickled and merged.
    """

    on_corruption: OnCorruption = "fail"
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def merge(self, other: "ReadLog") -> None:
        """Adds what another process read after this one."""
        self.counts.update(other.counts)
        for key, examples in other.examples.items():
            self._keep(key, examples)

    def _keep(self, key: str, examples: list[str]) -> None:
        kept = self.examples.setdefault(key, [])
        kept += examples[: _EXAMPLES - len(kept)]

    @property
    def num_damaged(self) -> int:
        """How often something could not be read as it should."""
        return sum(count for key, count in self.counts.items() if ":damaged:" in key)

    def __str__(self) -> str:
        passed = sum(count for key, count in self.counts.items() if key.endswith(":passed"))
        first = next((examples[0] for key, examples in self.examples.items() if ":damaged:" in key), None)
        return f"{passed:,} pages read, damage met {self.num_damaged:,} times" + (
            f" (first: {first})" if first else ""
        )


@dataclass(frozen=True)
class FileLog:
    """The log of one file; ``unit`` is how places in it are called: ``record at byte``, ``line``, ``row``."""

    log: ReadLog
    file: str
    kind: str
    unit: str

    def count(self, what: str, number: int = 1) -> None:
        """Counts something: ``passed``, ``filtered:no_url``."""
        self.log.counts[f"split-{self.kind}-file:{what}"] += number

    def notice(self, what: str, place: int | None, reason: str) -> None:
        """Counts something odd about a page that is read all the same."""
        self._note(f"noticed:{what}", self.where(place) + ": " + reason)

    def damage(self, what: str, place: int | None, reason: str) -> None:
        """Counts what can't be read as it should.

        Raises:
          ValueError: ``on_corruption`` is ``fail``.
        """
        told = f"{self.where(place)}: {reason}"
        if self.log.on_corruption == "fail":
            raise ValueError(
                f"{told.rstrip('.')}{'' if told.endswith('?') else '.'} Correct the file, or set on_corruption='skip' "
                "(--set ON_CORRUPTION=skip) to leave such parts out, counted"
            )
        self._note(f"damaged:{what}", told)

    def where(self, place: int | None) -> str:
        """How messages name a place: ``FILE, record at byte 1234``."""
        return self.file if place is None else f"{self.file}, {self.unit} {place}"

    def _note(self, what: str, told: str) -> None:
        self.count(what)
        self.log._keep(f"split-{self.kind}-file:{what}", [told])
