"""What makes a corpus of a crawl: steps in order, and the form in which it is written."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from t5x_like.corpora.duplicates.duplicate_rule import DuplicateRule
from t5x_like.corpora.pages.page_reader import PageReaderConfig
from t5x_like.corpora.rules.rule import PageRule

Format = Literal["jsonl.zst", "tfrecord", "arrayrecord"]

_PARTS = 1000  # validation is cut off by the thousandth


@dataclass(frozen=True, kw_only=True)
class UniqueUrls:
    """Keeps one page of each normalised address: that with the newest timestamp.

    Of equally new ones that stays whose text has the highest md5, so that the order of files doesn't matter. As
    TensorFlow Datasets builds C4 (text/c4_utils.py), where a tie is left to chance.
    """

    NAME: ClassVar[str] = "duplicate-url-filter"
    VERSION: ClassVar[int] = 1
    REASON: ClassVar[str] = "filtered:duplicate_url"


Step = PageRule | UniqueUrls | DuplicateRule


@dataclass(frozen=True, kw_only=True)
class CorpusRecipe:
    """Which pages become a corpus, and how it is written.

    ``validation_share`` of the addresses, by the thousandth, are held out by md5(normalised address) modulo 1000, one
    thousandth in C4. ``num_shards`` are those of the split train; None: by the size of the input.

    Raises:
      ValueError: a step isn't one, or stands where it can't; another field is out of its range.
    """

    name: str
    steps: Sequence[Any]
    reading: PageReaderConfig = field(default_factory=PageReaderConfig)
    format: Format = "jsonl.zst"
    num_shards: int | None = None
    validation_share: float = 0.001

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self.steps))  # gin gives lists
        if not self.name or "/" in self.name:
            raise ValueError(
                f"CorpusRecipe.name is {self.name!r}; give a name for the corpus, such as 'c4_en'"
            )
        for number, step in enumerate(self.steps, start=1):
            _check_step(self.name, number, step)
        _check_order(self.name, self.steps)
        if self.format not in get_args(Format):
            raise ValueError(
                f"CorpusRecipe.format is {self.format!r}; choose from {', '.join(get_args(Format))}"
            )
        if self.num_shards is not None and self.num_shards < 1:
            raise ValueError(f"CorpusRecipe.num_shards is {self.num_shards}; give 1 or more, or None")
        thousandths = self.validation_share * _PARTS
        if not (0 <= thousandths < _PARTS and math.isclose(thousandths, round(thousandths), abs_tol=1e-9)):
            raise ValueError(
                f"CorpusRecipe.validation_share is {self.validation_share}; give thousandths from 0 to 0.999"
            )

    @property
    def unique_urls(self) -> int | None:
        """Which step is ``UniqueUrls``, if one is."""
        return next((n for n, step in enumerate(self.steps) if isinstance(step, UniqueUrls)), None)

    @property
    def duplicate_rules(self) -> tuple[int, ...]:
        """Which steps look at all pages at once."""
        return tuple(number for number, step in enumerate(self.steps) if is_duplicate_rule(step))

    def page_rules(self, start: int, end: int) -> tuple[tuple[int, PageRule], ...]:
        """The rules for single pages among the steps from ``start`` to before ``end``, with their numbers."""
        chosen = tuple(enumerate(self.steps))[start:end]
        return tuple((number, step) for number, step in chosen if hasattr(step, "apply"))

    def is_held_out(self, url_digest: bytes) -> bool:
        """Whether the page of this address belongs to the split validation."""
        return int.from_bytes(url_digest, "big") % _PARTS < round(self.validation_share * _PARTS)

    def in_words(self) -> dict[str, str]:
        """All that decides about the output, a line each."""
        words = {f"step {n}": step_in_words(step) for n, step in enumerate(self.steps, start=1)}
        return {
            "recipe": self.name,
            **words,
            "reading": repr(self.reading),
            "on damage": self.reading.on_corruption,
            "format": self.format,
            "validation share": f"{round(self.validation_share * _PARTS) / _PARTS:g}",
        }


def step_in_words(step: Any) -> str:
    """A rule with its fields, its version, and what else it says that it goes by."""
    more = getattr(step, "fingerprint", None)
    more = more() if callable(more) else more
    return f"{step!r}, version {step.VERSION}" + (f", {more}" if more else "")


def is_duplicate_rule(step: Any) -> bool:
    """Whether it has what a ``DuplicateRule`` needs."""
    return all(
        callable(getattr(step, name, None)) for name in ("keys", "match", "resolve", "remove", "texts")
    )


def _check_step(recipe: str, number: int, step: Any) -> None:
    kinds = (callable(getattr(step, "apply", None)), is_duplicate_rule(step), isinstance(step, UniqueUrls))
    if isinstance(step, type) or sum(kinds) != 1 or not hasattr(step, "NAME") or not hasattr(step, "VERSION"):
        hint = f"; write {step.__name__}()" if isinstance(step, type) else ""
        raise ValueError(
            f"corpus recipe {recipe!r}: step {number} is {step!r}; a step is a rule for pages (apply), UniqueUrls or a "
            f"rule for duplicates (keys, match, resolve, remove, texts), with NAME and VERSION{hint}"
        )


def _check_order(recipe: str, steps: Sequence[Any]) -> None:
    unique = [number for number, step in enumerate(steps, start=1) if isinstance(step, UniqueUrls)]
    duplicates = [number for number, step in enumerate(steps, start=1) if is_duplicate_rule(step)]
    if len(unique) > 1:
        raise ValueError(
            f"corpus recipe {recipe!r}: steps {unique[0]} and {unique[1]} are both UniqueUrls; once is enough"
        )
    if unique and duplicates and duplicates[0] < unique[0]:
        raise ValueError(
            f"corpus recipe {recipe!r}: step {duplicates[0]} ({steps[duplicates[0] - 1].NAME}) comes before UniqueUrls "
            f"(step {unique[0]}): versions of one page would be duplicates of each other; put UniqueUrls first"
        )
