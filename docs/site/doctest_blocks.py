"""A griffe extension: doctests in docstrings become blocks of code."""

import re
from typing import Any

import griffe

# Lines from one that begins with ">>>" to the next blank line, all as far indented.
_DOCTEST = re.compile(r"^( *)>>> .*(?:\n\1\S.*)*", re.M)


def fence_doctests(docstring: str) -> str:
    """Return ``docstring`` with each doctest as a fenced block, without doctest's own directives."""

    def fenced(block: re.Match[str]) -> str:
        lines = re.sub(r" +# doctest: \S+$", "", block[0], flags=re.M)
        return f"{block[1]}```pycon\n{lines}\n{block[1]}```"

    return _DOCTEST.sub(fenced, docstring)


class DoctestBlocks(griffe.Extension):
    """Applies ``fence_doctests`` to every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """See ``griffe.Extension``."""
        if obj.docstring:
            obj.docstring.value = fence_doctests(obj.docstring.value)
