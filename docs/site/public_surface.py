"""The public surface of a version: names that later versions keep, or change with a line in the changelog.

    python -m docs.site.public_surface

records it in ``docs/site/public_surface.json``, at a release. A test compares the present one with that file.
"""

import argparse
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import t5x_like
from docs.site.gin_macros import read_macros
from t5x_like.cli.main import VERBS, parser_of
from t5x_like.deprecated_names import ARGUMENTS, FLAGS, MACROS
from t5x_like.evaluation.scores_file import ScoresFile
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from t5x_like.version import __version__

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "docs/site/public_surface.json"

Surface = Mapping[str, Sequence[str]]

_UNRELEASED = re.compile(r"^## \[Unreleased\]$(.*?)(?=^## \[|\Z)", re.M | re.S)
# A word of the changelog: a flag, a macro, a name, or one with its class.
_WORD = re.compile(r"--\w+|[A-Za-z_][\w.]*\w")


def surface() -> Surface:
    """Return all public names, by kind, each list sorted."""
    kinds: dict[str, Iterator[str]] = {
        "python": _python_names(),
        "commands": _flags(),
        "macros": _macros(),
        "files": _file_fields(),
    }
    return {kind: sorted({*names}) for kind, names in kinds.items()}


def differences(recorded: Surface, present: Surface) -> list[tuple[str, str]]:
    """Return the names that were added or removed, each with "added" or "removed".

    Args:
      recorded: Surface of the last release.
      present: Surface of this code.
    """
    return [
        (name, change)
        for kind in present
        for change, names in (
            ("removed", {*recorded.get(kind, ())} - {*present[kind]}),
            ("added", {*present[kind]} - {*recorded.get(kind, ())}),
        )
        for name in sorted(names)
    ]


def broken_promises(recorded: Surface, present: Surface) -> list[str]:
    """Return the names of the last release that are gone without a successor that they still work by.

    Args:
      recorded: Surface of the last release, of this major version.
      present: Surface of this code.
    """
    deprecated = {*ARGUMENTS, *FLAGS, *MACROS}
    return [
        name
        for name, change in differences(recorded, present)
        if change == "removed" and name not in deprecated
    ]


def unmentioned(recorded: Surface, present: Surface, changelog: str) -> list[str]:
    """Return the differences that the changelog's unreleased part doesn't mention, each with its kind of change.

    A name is mentioned by its last word: ``--limit`` for ``predict --limit``. Parts of a new name, such as the
    arguments of a new function, are mentioned with it.

    Args:
      recorded: Surface of the last release.
      present: Surface of this code.
      changelog: Text of ``CHANGELOG.md``.
    """
    unreleased = _UNRELEASED.search(changelog)
    words = {*_WORD.findall(unreleased[1] if unreleased else "")}
    words |= {word.rpartition(".")[2] for word in words}
    changed = differences(recorded, present)
    names = {name for name, _ in changed}

    def is_mentioned(name: str) -> bool:
        owner, _, last = name.rpartition(" ") if " " in name else name.rpartition(".")
        return last in words or (owner in names and is_mentioned(owner))

    return [f"{change}: {name}" for name, change in changed if not is_mentioned(name)]


def _python_names() -> Iterator[str]:
    """Yield public names, ``name.argument`` of functions and classes, and ``Pretrained.method.argument``."""
    for name in t5x_like.__all__:
        value = getattr(t5x_like, name)
        yield name
        if callable(value):
            yield from _arguments(name, value)
    for name, method in inspect.getmembers(Pretrained, inspect.isfunction):
        if not name.startswith("_"):
            yield f"Pretrained.{name}"
            yield from _arguments(f"Pretrained.{name}", method)


def _arguments(name: str, function: Callable[..., Any]) -> Iterator[str]:
    for argument in inspect.signature(function).parameters:
        if argument != "self":
            yield f"{name}.{argument}"


def _flags() -> Iterator[str]:
    """Yield verbs, verbs of verbs, and the flags and arguments of each."""
    for verb in VERBS:
        yield from _flags_of(verb, parser_of(verb))


def _flags_of(verb: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield verb
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from _flags_of(f"{verb} {name}", inner)
        elif action.option_strings:
            yield from (f"{verb} {flag}" for flag in action.option_strings if flag not in ("-h", "--help"))
        else:
            yield f"{verb} {action.metavar or action.dest}"


def _macros() -> Iterator[str]:
    """Yield the macros of runs and hardware."""
    for folder in ("runs", "hardware"):
        yield from read_macros(sorted((ROOT / "gin" / folder).glob("*.gin")))


def _file_fields() -> Iterator[str]:
    """Yield fields of files that programs of users read."""
    yield from (f"scores.json {name}" for name in ScoresFile.__annotations__)


if __name__ == "__main__":
    RECORD.write_text(json.dumps({"version": __version__, **surface()}, indent=1) + "\n", encoding="utf-8")
