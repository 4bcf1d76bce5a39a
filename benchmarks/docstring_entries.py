"""Descriptions of arguments and attributes in docstrings, for tests of their language."""

import re
from collections.abc import Iterator
from pathlib import Path

from code_structure import docstrings

# Data types that begin a description, such as "int32 [B, L], token ids." They are in lower case everywhere.
_DTYPE = re.compile(r"(?:bool|u?int|float|bfloat|complex)\d*\b")
# Begins a fragment that is about another entry, or continues the name of its own.
_FRAGMENT = re.compile(r"(?:[a-z]|(?:Of|As|With|The same|See there|Likewise)\b)")


def entries(docstring: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line in the docstring, name and first line of description of arguments and attributes.

    Args:
      docstring: Docstring without the indent of its definition.
    """
    in_section = False
    for index, line in enumerate(docstring.splitlines()):
        if line and not line.startswith(" "):
            in_section = line in ("Args:", "Attributes:")
        entry = re.fullmatch(r"  (\*{0,2}\w+): (.+)", line)
        if in_section and entry:
            yield index, entry[1], entry[2]


def fragments(root: Path) -> list[str]:
    """Return ``path:line: name: description`` of the package's entries that are no full descriptions."""
    return [
        f"{path.relative_to(root)}:{line + number}: {name}: {description}"
        for path, line, docstring in docstrings(root)
        for number, name, description in entries(docstring)
        if _FRAGMENT.match(description) and not _DTYPE.match(description)
    ]
