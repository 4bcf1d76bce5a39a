"""Named settings that a recipe compares, with the scores that a paper reports for them."""

import itertools
from collections.abc import Mapping
from dataclasses import field, replace
from typing import NamedTuple

from t5x_like.config_class import config_class, refuse_unused


@config_class
class FullSize:
    """A comparison at its paper's size, for ``t5x-like sweep --full_size``.

    Attributes:
      recipes: Gin files of the first run, in place of the comparison's own. Bindings may follow a file.
      then: Gin files of the second run, in place of the comparison's; bindings too.
      settings: Settings in place of the comparison's, if their values depend on the size. None for the same.
      metric: Score to compare. None for the mean over tasks.
    """

    recipes: tuple[str, ...]
    then: tuple[str, ...] = ()
    settings: Mapping[str, tuple[str, ...]] | None = None
    metric: str | None = None


@config_class
class Comparison:
    """Settings to compare, for ``t5x-like sweep``. A recipe gives one as its macro ``COMPARISON``.

    >>> compared = Comparison(
    ...     settings={"small": ("BATCH_SIZE = 16",), "large": ("BATCH_SIZE = 32",)},
    ...     published={"small": 84.7, "large": 85.2},
    ... )
    >>> list(compared.settings)
    ['small', 'large']

    Attributes:
      settings: For each name, gin files and gin bindings to add to the recipe. ``then: `` before one adds it to the
        second run, as in ``"then: LEARNING_RATE = 1e-4"``.
      then: Gin files of a second run, such as a fine-tuning, whose scores count, and bindings such as
        ``"TASK = 'mnli'"``. It starts from the weights of the first, its macro ``INITIAL_CHECKPOINT``. Empty if the
        first run's scores count.
      ensembles: For each name, two or more settings whose runs of the same seed are scored together: their predictions
        are averaged (``t5x-like evaluate --ensemble``). Nothing more is trained.
      metric: Score to compare; see ``t5x-like sweep --metric``.
      lowest: Lower scores are better.
      published: Scores that the paper reports, by setting.
      published_lowest: Lower published scores are better.
      source: Paper, table and metric of ``published``.
      full_size: Comparison at the paper's size; None if there is none.
    """

    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    then: tuple[str, ...] = ()
    ensembles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    metric: str | None = None
    lowest: bool = False
    published: Mapping[str, float] = field(default_factory=dict)
    published_lowest: bool = False
    source: str = ""
    full_size: FullSize | None = None

    def __post_init__(self) -> None:
        for name, members in self.ensembles.items():
            if (
                name in self.settings
                or len(members) < 2
                or any(each not in self.settings for each in members)
            ):
                raise ValueError(
                    f"the ensemble {name!r} of {', '.join(map(repr, members)) or 'nothing'}: give it a name of its "
                    f"own, and two or more of the settings {', '.join(map(repr, self.settings))}"
                )
        full = self.full_size
        names = (*self.settings, *self.ensembles, *((full and full.settings) or ()))
        unknown = [name for name in self.published if name not in names]
        if unknown:
            raise ValueError(
                f"published has scores of {', '.join(map(repr, unknown))}, and the settings are "
                f"{', '.join(map(repr, names))}"
            )
        if not self.published:
            because = "there are no published scores"
            refuse_unused(self, "published_lowest", "source", because=because, advice="give published")
        _check_second_run(self.settings, self.then)
        if full is not None:
            _check_second_run(self.settings if full.settings is None else full.settings, full.then)
        if self.published and not self.source:
            raise ValueError("published scores need a source: paper, table and metric")

    def as_toy(self) -> "Comparison":
        """Return the comparison without its full size."""
        return self._of(self.settings, self.then, self.metric)

    def at_full_size(self) -> "Comparison":
        """Return the comparison at the paper's size.

        Raises:
          ValueError: There is none.
        """
        full = self.full_size
        if full is None:
            raise ValueError(
                "this comparison has no full size; give recipes of your own after it, and then=FILE for the second run"
            )
        return self._of(self.settings if full.settings is None else full.settings, full.then, full.metric)

    def of_first_run(self) -> "Comparison":
        """Return the comparison of the first runs alone, without settings that change nothing there.

        Raises:
          ValueError: There is no second run.
        """
        if not self.then:
            raise ValueError("this comparison has no second run")
        settings = {
            name: tuple(each for each in added if not each.startswith("then:"))
            for name, added in self.settings.items()
        }
        kept = {name: added for name, added in settings.items() if added or not self.settings[name]}
        return self._of(kept, (), None)

    def _of(
        self, settings: Mapping[str, tuple[str, ...]], then: tuple[str, ...], metric: str | None
    ) -> "Comparison":
        """Return a comparison of the given settings, with their ensembles and published scores."""
        ensembles = {
            name: members
            for name, members in self.ensembles.items()
            if all(each in settings for each in members)
        }
        named = (*settings, *ensembles)
        published = {name: score for name, score in self.published.items() if name in named}
        return replace(
            self,
            settings=settings,
            ensembles=ensembles,
            published=published,
            published_lowest=self.published_lowest and bool(published),
            source=self.source if published else "",
            then=then,
            metric=metric,
            full_size=None,
        )


def _check_second_run(settings: Mapping[str, tuple[str, ...]], then: tuple[str, ...]) -> None:
    """Refuse settings that change a second run where there is none."""
    if not then and any(added.startswith("then:") for each in settings.values() for added in each):
        raise ValueError("settings change a second run, and there is none: say which, then = ('recipe.gin',)")


class Agreement(NamedTuple):
    """Pairs of settings, by whether the better one is the paper's.

    Attributes:
      same: Number of pairs with the paper's order.
      other: Number of pairs with the opposite order.
      undecided: Number of pairs whose means differ by less than the standard error of their difference, or not at all.
    """

    same: int
    other: int
    undecided: int

    def __str__(self) -> str:
        pairs = self.same + self.other + self.undecided
        return (
            f"{self.same} of {pairs} pairs of settings are in the paper's order, {self.other} in the opposite one, "
            f"{self.undecided} undecided (closer than the standard error of their difference)"
        )


def agreement(
    measured: Mapping[str, tuple[float, float]],
    published: Mapping[str, float],
    *,
    lowest: bool = False,
    published_lowest: bool = False,
) -> Agreement:
    """Count the pairs of settings that are in the paper's order.

    Pairs of equal published scores are left out.

    >>> agreement({"a": (80.0, 0.5), "b": (70.0, 0.5), "c": (70.1, 0.5)}, {"a": 3.0, "b": 2.0, "c": 1.0})
    Agreement(same=2, other=0, undecided=1)

    Args:
      measured: Mean and standard error by setting. The error is 0 for a single seed.
      published: Published score by setting.
      lowest: Lower measured scores are better.
      published_lowest: Lower published scores are better.
    """
    counts = {"same": 0, "other": 0, "undecided": 0}
    names = [name for name in published if name in measured]
    for first, second in itertools.combinations(names, 2):
        expected = (published[first] - published[second]) * (-1 if published_lowest else 1)
        difference = (measured[first][0] - measured[second][0]) * (-1 if lowest else 1)
        error = (measured[first][1] ** 2 + measured[second][1] ** 2) ** 0.5
        if not expected:
            continue
        if not difference or abs(difference) < error:
            counts["undecided"] += 1
        else:
            counts["same" if (difference > 0) == (expected > 0) else "other"] += 1
    return Agreement(**counts)
