"""The recipe of a corpus: steps in order, and the output format."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from t5x_like.corpora.duplicates.duplicate_rule import DuplicateRule
from t5x_like.corpora.pages.page_reader import PageReaderConfig
from t5x_like.corpora.rules.rule import PageRule

Format = Literal["jsonl.zst", "tfrecord", "arrayrecord"]

_PARTS = 1000  # validation is held out in thousandths


@dataclass(frozen=True, kw_only=True)
class UniqueUrls:
    """Keeps one page for each normalized URL: the one with the newest timestamp.

    Among equally new pages the text with the highest md5 stays, so the order of files doesn't matter. As TensorFlow
    Datasets builds C4 (text/c4_utils.py), where chance decides ties.
    """

    NAME: ClassVar[str] = "duplicate-url-filter"
    VERSION: ClassVar[int] = 1
    REASON: ClassVar[str] = "filtered:duplicate_url"


Step = PageRule | UniqueUrls | DuplicateRule


@dataclass(frozen=True, kw_only=True)
class CorpusRecipe:
    """The steps that turn pages into a corpus, and the form in which it is written.

    Attributes:
      name: Name of the corpus.
      steps: Rules for pages, ``UniqueUrls`` and rules for duplicates, in order.
      reading: Options for reading the input files.
      format: File format of the shards.
      num_shards: Number of shards of the train split; None chooses by the size of the input.
      validation_share: Fraction of the URLs held out for validation, in thousandths: those with md5(normalized URL)
        modulo 1000 below it. C4 holds out one thousandth.

    Raises:
      ValueError: A step isn't valid or is in the wrong position, or another field is out of range.
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
        """Index of the step ``UniqueUrls``, if there is one."""
        return next(iter(_indices_of_unique_urls(self.steps)), None)

    @property
    def duplicate_rules(self) -> tuple[int, ...]:
        """Indices of the steps that compare all pages."""
        return tuple(index for index, step in enumerate(self.steps) if is_duplicate_rule(step))

    def page_rules(self, start: int, end: int) -> tuple[tuple[int, PageRule], ...]:
        """Return the rules for single pages among some steps, with their indices.

        Args:
          start: Index of the first step.
          end: Index after the last step.
        """
        chosen = tuple(enumerate(self.steps))[start:end]
        return tuple((step_index, step) for step_index, step in chosen if hasattr(step, "apply"))

    def is_held_out(self, url_digest: bytes) -> bool:
        """Return True if the page with this URL digest belongs to the validation split."""
        return int.from_bytes(url_digest, "big") % _PARTS < round(self.validation_share * _PARTS)

    def describe(self) -> dict[str, str]:
        """Return all settings that determine the output, one line each."""
        words = {f"step {n}": describe_step(step) for n, step in enumerate(self.steps, start=1)}
        return {
            "recipe": self.name,
            **words,
            "reading": repr(self.reading),
            "on damage": self.reading.on_corruption,
            "format": self.format,
            "validation share": f"{round(self.validation_share * _PARTS) / _PARTS:g}",
        }


def describe_step(step: Any) -> str:
    """Return a rule's fields, version and fingerprint."""
    more = getattr(step, "fingerprint", None)
    more = more() if callable(more) else more
    return f"{step!r}, version {step.VERSION}" + (f", {more}" if more else "")


def is_duplicate_rule(step: object) -> bool:
    """Return True if the step has the methods of a ``DuplicateRule``."""
    return all(callable(getattr(step, name, None)) for name in ("keys", "remove", "texts"))


def _check_step(recipe: str, number: int, step: object) -> None:
    kinds = (callable(getattr(step, "apply", None)), is_duplicate_rule(step), isinstance(step, UniqueUrls))
    hint = f"; write {step.__name__}()" if isinstance(step, type) else ""
    if hint or sum(kinds) != 1 or not hasattr(step, "NAME") or not hasattr(step, "VERSION"):
        raise ValueError(
            f"corpus recipe {recipe!r}: step {number} is {step!r}; a step is a rule for pages (apply), UniqueUrls or a "
            f"rule for duplicates (keys, remove, texts), with NAME and VERSION{hint}"
        )


def _indices_of_unique_urls(steps: Sequence[Any]) -> list[int]:
    return [index for index, step in enumerate(steps) if isinstance(step, UniqueUrls)]


def _check_order(recipe: str, steps: Sequence[Any]) -> None:
    unique = [index + 1 for index in _indices_of_unique_urls(steps)]
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
