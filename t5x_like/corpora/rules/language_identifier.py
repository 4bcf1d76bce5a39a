"""What names a page's language, whichever library does it."""

from typing import ClassVar, NamedTuple, Protocol


class Guess(NamedTuple):
    """A language a text may be in."""

    language: str  # as the identifier spells it: ``en``, ``zh-cn``
    probability: float  # 0 to 1


class Identifier(Protocol):
    """Names languages. A small frozen dataclass: its tables are loaded on first use, once a process.

    ``SPEECHLESS`` is the reason that pages in which it finds nothing to go by are dropped for.
    """

    SPEECHLESS: ClassVar[str]

    def guesses(self, text: str) -> list[Guess] | None:
        """Languages, the likeliest first; ``None`` if nothing in ``text`` (digits alone, say) tells of a language."""
        ...


def missing_library(name: str, error: ImportError) -> ValueError:
    """What the user reads where a library of the extra ``corpora`` is not installed."""
    return ValueError(f"{name} is needed, but {error}; pip install 't5x-like[corpora]'")
