"""Runs of a sweep: a recipe's settings, a grid from flags such as ``--over LEARNING_RATE=1e-5,2e-5``, and seeds."""

import ast
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from t5x_like.gin_config.user_error import UserError

_THEN = "then:"  # begins what a setting adds to the second run
_PAIRS = {"(": ")", "[": "]", "{": "}"}


class GridPoint(NamedTuple):
    """Values of one run.

    Attributes:
      settings: Macros as written on the command line.
      seed: Random seed; ``None`` keeps the recipe's.
      label: Name of the setting in the recipe's ``Comparison``; ``None`` without one.
      additions: Gin files and bindings of that setting; those after ``then:`` are for the second run.
    """

    settings: dict[str, str]
    seed: int | None = None
    label: str | None = None
    additions: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Folder name of the run."""
        parts = dict(self.settings) | ({} if self.seed is None else {"SEED": str(self.seed)})
        words = [self.label] if self.label is not None else []
        text = ",".join([*words, *(f"{name}={value}" for name, value in parts.items())]) or "recipe"
        return re.sub(r"[^A-Za-z0-9_.,=+-]+", "_", text)

    @property
    def shown(self) -> dict[str, str]:
        """Columns of the table of scores: the setting's name, and the macros."""
        return ({} if self.label is None else {"setting": self.label}) | self.settings

    @property
    def gin_files(self) -> list[str]:
        """Gin files to add to the recipe."""
        return [added for added in self._of(first=True) if is_gin_file(added)]

    @property
    def bindings(self) -> list[str]:
        """Bindings for gin (``NAME=value``); text values of flags are quoted."""
        own = [added for added in self._of(first=True) if not is_gin_file(added)]
        return [*own, *(f"{name}={_literal(value)}" for name, value in self.settings.items()), *self._seed]

    @property
    def then_gin_files(self) -> list[str]:
        """Gin files to add to the second run's."""
        return [added for added in self._of(first=False) if is_gin_file(added)]

    @property
    def then_bindings(self) -> list[str]:
        """Bindings for the second run."""
        return [*(added for added in self._of(first=False) if not is_gin_file(added)), *self._seed]

    @property
    def _seed(self) -> list[str]:
        return [] if self.seed is None else [f"SEED={self.seed}"]

    def _of(self, *, first: bool) -> list[str]:
        if first:
            return [added for added in self.additions if not added.startswith(_THEN)]
        return [added.removeprefix(_THEN).strip() for added in self.additions if added.startswith(_THEN)]


def grid_points(
    overs: Sequence[str], num_seeds: int | None, settings: Mapping[str, tuple[str, ...]] | None = None
) -> list[GridPoint]:
    """Return every combination; seeds vary fastest, then the values of the last flag.

    Args:
      overs: ``NAME=v1,v2`` or, for values that vary together, ``NAME:OTHER=1:2,3:4``.
      num_seeds: Seeds 0 to ``num_seeds - 1`` for each combination; None leaves the recipe's seed.
      settings: Settings of the recipe's ``Comparison``, which vary slowest.

    Raises:
      UserError: A flag can't be read, or a macro or a run is given twice.
    """
    axes = [_axis(over) for over in overs]
    names = [name for axis in axes for name in axis.names]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"over=… gives {name} twice; put all of its values into one")
    if num_seeds is not None and num_seeds < 1:
        raise UserError(f"seeds={num_seeds}: give at least 1")
    if num_seeds is not None and "SEED" in names:
        raise UserError("over=SEED=… and seeds=… say the same thing twice; leave one out")
    seeds = [None] if num_seeds is None else list(range(num_seeds))
    grid = [
        GridPoint({name: value for axis in chosen for name, value in axis.items()}, seed, label, additions)
        for label, additions in (settings or {None: ()}).items()
        for chosen in itertools.product(*(axis.rows for axis in axes))
        for seed in seeds
    ]
    seen: dict[str, GridPoint] = {}
    for point in grid:
        if point.name in seen:
            raise UserError(f"two runs would both be called {point.name}; give each value once")
        seen[point.name] = point
    return grid


def _axis(over: str) -> "_Axis":
    names, equals, values = over.partition("=")
    macros = tuple(name.strip() for name in names.split(":"))
    if not equals or not all(macros) or not values.strip():
        raise UserError(
            f"over={over}: write it as NAME=first,second, or NAME:OTHER=1:2,3:4 for values that go together"
        )
    rows = []
    for value in split(values, ","):
        together = split(value, ":") if len(macros) > 1 else [value]
        if len(together) != len(macros) or not all(together):
            raise UserError(
                f"over={over}: {value!r} has {len(together)} value{'s' * (len(together) != 1)}, and there are "
                f"{len(macros)} names, {', '.join(macros)}"
            )
        rows.append(dict(zip(macros, together, strict=True)))
    return _Axis(macros, rows)


class _Axis(NamedTuple):
    """Macros that vary together."""

    names: tuple[str, ...]
    rows: list[dict[str, str]]


def split(text: str, separator: str) -> list[str]:
    """Split at separators outside brackets and quotes; strips the parts.

    Args:
      text: Text to split.
      separator: One character.
    """
    parts, start, waiting, quote = [], 0, [], ""
    for index, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in _PAIRS:
            waiting.append(_PAIRS[character])
        elif waiting and character == waiting[-1]:
            waiting.pop()
        elif character == separator and not waiting:
            parts.append(text[start:index].strip())
            start = index + 1
    return [*parts, text[start:].strip()]


def is_gin_file(added: str) -> bool:
    """Return True for the name of a gin file, and False for a binding."""
    return added.endswith(".gin") and "=" not in added


def _literal(value: str) -> str:
    """Return the value as gin reads it: numbers, None and quoted text unchanged, other text quoted."""
    if value[:1] in "%@":
        return value
    try:
        ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return repr(value)
    return value
