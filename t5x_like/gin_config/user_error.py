"""The error type for mistakes that users can put right, and suggestions of the nearest valid name."""

import difflib
import shlex
from collections.abc import Iterable

from t5x_like.credentials import masked


class UserError(ValueError):
    """An error the user can put right. The program prints the message alone and exits with code 2.

    Args:
      message: The problem: what was given and what is needed.
      where: ``file:line`` or ``command line``.
      source: The offending line.
      hint: What to do.
    """

    def __init__(self, message: str, *, where: str = "", source: str = "", hint: str = "") -> None:
        self.message, self.where, self.source, self.hint = message, where, source, hint
        super().__init__(self._text())

    def _text(self) -> str:
        lines = [f"{self.where}: {self.message}" if self.where else self.message]
        if self.source:
            lines.append(f"    {self.source.strip()}")
        if self.hint:
            lines.append(f"  {self.hint}")
        return masked("\n".join(lines))


def message_of(error: Exception) -> str:
    """Return an error's text for users; a file that can't be opened is named first."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {(error.strerror or str(error)).lower()}"
    return str(error)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean 'x' or 'y'?``, or ``""`` if no known name is close.

    >>> nearest("traim", ["train", "predict"])
    "did you mean 'train'?"

    Args:
      name: Name that isn't known.
      known: Names to suggest.
    """
    scored = {candidate: _likeness(name, candidate) for candidate in sorted(set(known))}
    best = max(scored.values(), default=0.0)
    if best < 0.6:
        return ""
    close = sorted((word for word in scored if scored[word] >= best - 0.1), key=lambda word: -scored[word])
    return f"did you mean {' or '.join(repr(word) for word in close[:3])}?"


def _likeness(name: str, candidate: str) -> float:
    """Return a similarity from 0 to 1, ignoring case and a dotted prefix or folder that both share."""
    name, candidate = name.lower(), candidate.lower()
    start = 0
    for index, (letter, candidate_letter) in enumerate(zip(name, candidate, strict=False), start=1):
        if letter != candidate_letter:
            break
        start = index if letter in "./" else start
    return difflib.SequenceMatcher(None, name[start:], candidate[start:]).ratio()


def nearest_or_all(name: str, known: Iterable[str]) -> str:
    """Suggest the nearest names; if none is close, list all of them.

    Args:
      name: Name that isn't known.
      known: Names to suggest.
    """
    names = sorted(set(known))
    return nearest(name, names) or f"choose from: {', '.join(names) or 'none is known'}"


def set_flag(name: str, text: str) -> str:
    """Return ``--set NAME=text`` as it is typed in a shell.

    >>> set_flag("POOL", "cls"), set_flag("TITLE", "two words")
    ('--set POOL=cls', "--set 'TITLE=two words'")

    Args:
      name: Name of the macro.
      text: Its value.
    """
    return f"--set {shlex.quote(f'{name}={text}')}"


def gin_text_flag(name: str, text: str) -> str:
    """Return ``--gin.NAME`` with a text, which a shell must leave in gin's quotes.

    >>> print(gin_text_flag("POOL", "cls"))
    --gin.POOL="'cls'"

    Args:
      name: Name of the macro or parameter.
      text: Its value.
    """
    literal = repr(text)
    plain = literal.startswith("'") and not set(literal) & set('\\$`!"')
    return f'--gin.{name}="{literal}"' if plain else shlex.quote(f"--gin.{name}={literal}")
