"""Messages of the package: arguments of Python below the command line, and one full stop at a time."""

import ast
import itertools
import re
from collections.abc import Iterator

import pytest

from t5x_like.message_sentences import sentence
from t5x_like.text.tasks.rows import BadRow, RowPolicy
from tests.references import ROOT

PACKAGE = ROOT / "t5x_like"
# These read flags: their messages repeat what stands on the command line.
READERS_OF_FLAGS = ("cli", "gin_config", "vectors_command.py", "deprecated_names.py")
FLAG = re.compile(r"(?<![\w-])--[a-z]\w+")
# A flag that follows the name of its program is a command to run.
COMMAND = re.compile(r"t5x-like [a-z]|llama-|XLA_FLAGS")
MESSAGES = {"error", "bad", "reason", "problem", "message", "fault", "cause", "cells"}


def strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of the strings of a module but for docstrings; values in f-strings become ``…``."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            skipped.add(id(body[0].value))
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in node.values)
            parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


def flags_in(text: str) -> list[str]:
    return [flag[0] for flag in FLAG.finditer(text) if not COMMAND.search(text[: flag.start()])]


def joints(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name of each message that an f-string continues after a full stop of its own."""
    for node in ast.walk(tree):
        parts = node.values if isinstance(node, ast.JoinedStr) else []
        for part, following in itertools.pairwise(parts):
            if (
                isinstance(part, ast.FormattedValue)
                and isinstance(part.value, ast.Name)
                and part.value.id in MESSAGES
                and isinstance(following, ast.Constant)
                and str(following.value).startswith(". ")
            ):
                yield node.lineno, part.value.id


def test_messages_below_the_command_line_name_arguments_and_not_flags():
    results = [
        f"{path.relative_to(ROOT)}:{line}: {', '.join(flags)}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not {path.relative_to(PACKAGE).parts[0], path.name} & set(READERS_OF_FLAGS)
        for line, text in strings(ast.parse(path.read_text()))
        if (flags := flags_in(text)) and not is_a_command_of_its_own(text)
    ]
    assert not results, "write name=value, which cli.main shows as a flag:\n" + "\n".join(results)


def is_a_command_of_its_own(text: str) -> bool:
    """Return whether the string is an argument for another process, such as ``--checkpoint=…``."""
    return re.fullmatch(r"--\w+(=\S*)?", text) is not None


def test_a_message_that_goes_on_after_another_ends_that_one_by_one_full_stop():
    results = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, name in joints(ast.parse(path.read_text()))
    ]
    assert not results, "write {sentence(error)} and no full stop:\n" + "\n".join(results)


def test_the_walk_finds_flags_and_joints():
    tree = ast.parse('def f():\n    """--doc."""\n    g(f"{error}. Try --vocabulary {x}")\n')
    assert [flags_in(text) for _, text in strings(tree)] == [["--vocabulary"]]
    assert list(joints(tree)) == [(3, "error")]
    assert flags_in("make one: t5x-like convert --from A") == []


@pytest.mark.parametrize(
    ("message", "whole"),
    [
        ("no space left", "no space left."),
        ("no space left.", "no space left."),
        ("cut short. . ", "cut short."),
        ("is it UTF-8?", "is it UTF-8?"),
        (ValueError("no such column."), "no such column."),
    ],
)
def test_a_message_becomes_one_sentence(message, whole):
    assert sentence(message) == whole


def test_a_bad_row_whose_reason_is_a_sentence_is_refused_with_one_full_stop():
    bad = BadRow("no column 'txt'; the columns are text, label.", "rows.csv:2")
    with pytest.raises(ValueError, match=r"rows.csv:2: .* are text, label\. Correct the row"):
        RowPolicy().take(bad)
