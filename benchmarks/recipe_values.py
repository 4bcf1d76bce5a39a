"""Values of the papers' recipes, compared with the papers and the authors' code.

    python -m benchmarks.recipe_values [FAMILY …]

``recipe_values/<family>.tsv`` has a value of one or more recipes in each line. Columns:

* ``recipe``: name below ``gin/recipes`` as in ``recipe_names.py``, or a pattern such as ``bert/glue.gin TASK=*``.
* ``value``: field of the experiment (``optimizer.beta1``, ``tasks.0.objective.masking.noise_density``; ``.is`` at the
  end is a class), ``Class.field`` (``AdamW.beta1``, also with a module before it), or a macro (``TRAIN_STEPS``).
  ``epochs`` are over the training rows, and ``warmup_share`` is of the steps; both in whole steps.
* ``expected``: what the source says, as a Python literal.
* ``source``: ``repository: file``, or author, year and section.
* ``kind``: ``code`` was seen in the authors' code, ``paper`` is stated in the paper, ``memory`` was not looked up.
* ``deviation``: empty, or the recipe's own value and its reason, ``0.1: as the other tasks``, words of its header.

Each difference is a line of output. The exit status is 1 if there is one.
"""

import argparse
import ast
import csv
import dataclasses
import functools
import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

from benchmarks.recipe_names import file_and_row, placeholders, recipe_names
from t5x_like.gin_config.bindings import Bindings
from t5x_like.gin_config.configuration import read
from t5x_like.gin_config.resolver import Resolver
from t5x_like.nested_values import is_record, parts_of
from t5x_like.text.benchmarks import catalogue
from t5x_like.training.experiment import Experiment, describe

TABLES = Path(__file__).parent / "recipe_values"
_DERIVED = ("epochs", "warmup_share")
Kind = Literal["code", "paper", "memory"]


class PublishedValue(NamedTuple):
    """A value of a recipe as it is published.

    Attributes:
      recipe: Name of the recipe.
      path: Field, ``Class.field``, macro or derived value.
      expected: What the source says.
      source: Place where it says so.
      kind: How it was looked up.
      here: What the recipe must have: ``expected``, or the value of a deviation.
      deviation: Reason for another value; empty if there is none.
    """

    recipe: str
    path: str
    expected: Any
    source: str
    kind: Kind
    here: Any
    deviation: str


def main() -> None:
    """Print each difference and the count of values that agree."""
    families = sorted(file.stem for file in TABLES.glob("*.tsv"))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"all, or of {', '.join(families)}")
    chosen = parser.parse_args().families or families
    if unknown := set(chosen) - set(families):
        parser.error(f"there is no table of {', '.join(sorted(unknown))}; choose from {', '.join(families)}")
    values = [value for family in chosen for value in published_values(family)]
    lines = [line for value in values if (line := difference(value))]
    print(*lines, f"{len(values) - len(lines)} of {len(values)} values agree", sep="\n")
    sys.exit(1 if lines else 0)


@functools.cache
def published_values(family: str) -> list[PublishedValue]:
    """Return the values of a family's table, with patterns replaced by the recipes that match.

    Args:
      family: Name of a folder of ``gin/recipes``.

    Raises:
      ValueError: A line matches no recipe, has the value of an earlier one, or can't be read.
    """
    names = recipe_names(f"{family}/*.gin")
    values: dict[tuple[str, str], PublishedValue] = {}
    with (TABLES / f"{family}.tsv").open(newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        for number, row in enumerate(rows, start=2):
            where = f"{family}.tsv:{number}"
            recipes = [name for name in names if fnmatchcase(name, row["recipe"])]
            if not recipes:
                raise ValueError(f"{where}: no recipe is called {row['recipe']!r}")
            for recipe in recipes:
                value = _published(recipe, row, where)
                if (recipe, value.path) in values:
                    raise ValueError(f"{where}: {value.path} of {recipe} is in an earlier line, too")
                values[recipe, value.path] = value
    return list(values.values())


def _published(recipe: str, row: Mapping[str, str], where: str) -> PublishedValue:
    deviation = row["deviation"] or ""
    if row["kind"] not in get_args(Kind) or not row["source"]:
        raise ValueError(f"{where}: needs a source, and a kind out of {', '.join(get_args(Kind))}")
    kind: Kind = cast(Kind, row["kind"])
    here, colon, reason = deviation.partition(": ")
    if deviation and not colon:
        raise ValueError(
            f"{where}: a deviation is the recipe's value and a reason, '0.1: as the other tasks'"
        )
    try:
        expected = ast.literal_eval(row["expected"])
        value_here = ast.literal_eval(here) if deviation else expected
    except (ValueError, SyntaxError) as error:
        raise ValueError(f"{where}: values are Python literals: {error}") from error
    return PublishedValue(recipe, row["value"], expected, row["source"], kind, value_here, reason)


def difference(value: PublishedValue) -> str:
    """Return a line about a recipe's value that is not the published one; empty if they agree."""
    experiment = resolved(value.recipe)[0]
    if value.path in _DERIVED:
        steps = _steps(value.path, value.here, experiment)
        result = _steps_here(value.path, experiment)
        least = 0 if value.path == "epochs" else -1  # a warm-up may be rounded up
        agree = any(least < each - result < 1 or each == result for each in steps)
        wanted = f"{value.here!r} ({' or '.join(f'{each:.1f}' for each in steps)} steps)"
    else:
        results = values_at(value.recipe, value.path)
        agree, wanted = bool(results) and all(each == value.here for each in results), repr(value.here)
        result = " and ".join(dict.fromkeys(map(repr, results))) or "missing"
    if agree:
        return ""
    reason = f"; deviates from {value.expected!r}: {value.deviation}" if value.deviation else ""
    return f"{value.recipe}: {value.path} is {result}, not {wanted} ({value.source}{reason})"


def _steps(path: str, share: float, experiment: Experiment) -> list[float]:
    """Return the steps of epochs, or of a share of the steps, before they are cut to whole ones."""
    if path == "warmup_share":
        return [share * experiment.run.total_steps]
    train = experiment.data.train
    benchmark = catalogue.benchmark(train.mixture)
    # Some wordings leave out rows, which heads read, or multiply them.
    counts = dict.fromkeys([benchmark.num_training_examples, benchmark.source.rows[train.split]])
    return [share * count / train.batch_size for count in counts if count is not None]


def _steps_here(path: str, experiment: Experiment) -> int:
    if path == "epochs":
        return experiment.run.total_steps
    return describe(experiment)["optimizer.learning_rate.warmup_steps"]  # pyright: ignore[reportReturnType]


def values_at(recipe: str, path: str) -> list[Any]:
    """Return the values that a recipe has at a path: several if a class has several instances.

    Args:
      recipe: Name of the recipe.
      path: Field, ``Class.field`` or macro.
    """
    experiment, resolver = resolved(recipe)
    if path in resolver.bindings.macros:
        return [resolver.build_macro(path)]
    parts = path.split(".")
    owner = next((place for place, part in enumerate(parts[:-1]) if part[0].isupper()), None)
    if owner is None:
        values = _described(recipe)
        return [values[path]] if path in values else []
    records = [each for each in _records(experiment) if type(each).__name__ == parts[owner]]
    field = ".".join(parts[owner + 1 :])
    described = [describe(each) for each in records]
    return [values[field] for values in described if field in values]


@functools.cache
def resolved(recipe: str) -> tuple[Experiment, Resolver]:
    """Return a recipe's experiment with placeholders for files and checkpoints, and what has built it."""
    file, row = file_and_row(recipe)
    flags = [*row, *placeholders(recipe)]
    if {"PUBLISHED_VOCAB", "VOCAB_SIZE"} <= {binding.name for binding, _ in read([str(file)], row).bindings}:
        flags.append("VOCAB_SIZE=%PUBLISHED_VOCAB")
    resolver = Resolver(Bindings(read([str(file)], flags)))
    experiment = resolver.build_root([Experiment], {})
    assert isinstance(experiment, Experiment), recipe
    return experiment, resolver


@functools.cache
def _described(recipe: str) -> dict[str, object]:
    return describe(resolved(recipe)[0])


def _records(value: Any) -> Iterator[Any]:
    if is_record(value):
        yield value
        for field in dataclasses.fields(value):
            yield from _records(getattr(value, field.name))
    elif parts := parts_of(value):
        for part in parts.values():
            yield from _records(part)


if __name__ == "__main__":
    main()
