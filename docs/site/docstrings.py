"""A griffe extension: what our docstrings and classes need to be shown well."""

import re
from typing import Any

import griffe

# Lines from one that begins with ">>>" to the next blank line, all as far indented.
_DOCTEST = re.compile(r"^( *)>>> .*(?:\n\1\S.*)*", re.M)
_ROLE = re.compile(r":(?:func|class|meth|mod|attr):`~?([^`]+)`")


def to_markdown(docstring: str) -> str:
    """Return ``docstring`` with doctests as blocks of code, without their directives, and Sphinx' roles as code."""

    def fenced(block: re.Match[str]) -> str:
        lines = re.sub(r" +# doctest: \S+$", "", block[0], flags=re.M)
        return f"{block[1]}```pycon\n{lines}\n{block[1]}```"

    return _ROLE.sub(r"`\1`", _DOCTEST.sub(fenced, docstring))


class Docstrings(griffe.Extension):
    """Applies ``to_markdown`` to every docstring, and shows a ``config_class`` as the dataclass that it is."""

    def on_class_instance(self, *, cls: griffe.Class, **_: Any) -> None:
        """See ``griffe.Extension``."""
        for decorator in cls.decorators:
            if str(decorator.value) == "config_class":
                frozen, keywords = (griffe.ExprKeyword(name, "True") for name in ("frozen", "kw_only"))
                decorator.value = griffe.ExprCall(
                    griffe.ExprName("dataclasses.dataclass"), [frozen, keywords]
                )

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """See ``griffe.Extension``."""
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)
