"""Names of entities and their numbers, in the order of a file with their vectors."""

import difflib
import functools
import hashlib
from collections.abc import Mapping, Sequence

from t5x_like.io.files import as_path
from t5x_like.io.paths import find_file
from t5x_like.text.cells import Cell, list_of
from t5x_like.value_types import fits


@functools.lru_cache(maxsize=4)
def entity_numbers(file: str) -> Mapping[str, int]:
    """Return the number of each entity: its place in a file with a name on each line.

    What follows a name after a space is left out, so that a text file of vectors is such a file, too. A first line of
    two whole numbers is the header of word2vec's form.

    Raises:
      ValueError: The file is empty or no text, a line has no name, or a name occurs twice.
    """
    try:
        lines = as_path(find_file(file)).read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        raise ValueError(
            f"{file} is not UTF-8 text; give the names of entities, or their vectors in a text form (t5x-like vectors "
            "convert)"
        ) from None
    lines = lines[:-1] if not lines[-1] else lines
    names = [line.split(" ", 1)[0].rstrip("\r") for line in lines]
    if lines and len(fields := lines[0].split()) == 2 and all(field.isdigit() for field in fields):
        names = names[1:]
    if not names:
        raise ValueError(f"{file} is empty; it needs the name of an entity on each line")
    numbers = {name: index for index, name in enumerate(names)}
    if "" in numbers:
        raise ValueError(f"{file} has a line without a name; it needs the name of an entity on each line")
    if len(numbers) < len(names):
        twice = next(name for index, name in enumerate(names) if numbers[name] != index)
        raise ValueError(f"{file} has the entity {twice!r} twice; leave one of them out")
    return numbers


def names_digest(file: str) -> str:
    """Return a short hash of the names and their order, which decide the numbers of entities."""
    return hashlib.blake2b("\n".join(entity_numbers(file)).encode(), digest_size=8).hexdigest()


def entity_spans(cell: Cell, length: int, names: str) -> tuple[tuple[int, int, int], ...]:
    """Return the mentions of a text, sorted: first character, character after the last, number of the entity.

    Args:
      cell: ``[[start, end, entity], …]`` in characters, perhaps as JSON. An entity is a name; null leaves it out.
      length: Number of characters of the text.
      names: File of the names.

    Raises:
      ValueError: The cell has another form, a mention lies outside of the text or overlaps another, or there is no
        such entity.
    """
    expected = "[[start, end, entity], …], two whole numbers and a name for each mention,"
    mentions = list_of(cell, expected)
    if not all(map(_is_mention, mentions)):
        raise ValueError(f"{expected} is expected")
    numbers, spans, last = entity_numbers(names), [], 0
    for start, end, name in sorted(mentions, key=lambda mention: mention[:2]):
        check_span(start, end, length)
        if start < last:
            raise ValueError(f"the mention [{start}, {end}] overlaps another; keep one of the two")
        last = end
        if name is None:
            continue
        if name not in numbers:
            near = difflib.get_close_matches(name, numbers, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(
                f"the entity {name!r} is none of the {len(numbers):,} in {names}; {hint}A mention without a vector is "
                "left out, or has null for its entity"
            )
        spans.append((start, end, numbers[name]))
    return tuple(spans)


def check_span(start: int, end: int, length: int) -> None:
    """Check that a span of characters has some, and lies in its text.

    Args:
      start: First character.
      end: Character after the last.
      length: Number of characters of the text.

    Raises:
      ValueError: It doesn't.
    """
    if not 0 <= start < end <= length:
        raise ValueError(
            f"the span [{start}, {end}] is empty, or lies outside of the text's {length} characters; give its first "
            "character, counted from 0, and the one after its last"
        )


def _is_mention(mention: Sequence[object]) -> bool:
    return fits(mention, tuple[int, int, str | None])
