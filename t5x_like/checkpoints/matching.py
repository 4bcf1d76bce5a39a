"""Which tensors of a file are which weights of a model, where names or heads are not quite the same."""

import fnmatch
from collections.abc import Iterable
from typing import NamedTuple

from t5x_like.model.zoo.weights import Source, Weight, their_names

# What TensorFlow called a norm's weights, and early PyTorch files still do.
_OLD_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}


class Match(NamedTuple):
    """Rows of a table that a source has, under the table's names, and what is on one side only."""

    table: tuple[Weight, ...]
    source: Source
    fresh: tuple[str, ...]  # our paths, of heads that the source lacks
    idle: tuple[str, ...]  # their names, of heads that the model lacks


def match(
    table: tuple[Weight, ...],
    source: Source,
    *,
    prefixes: tuple[str, ...],
    unused: tuple[str, ...] = (),
    of_other_heads: Iterable[str] = (),
) -> Match:
    """Finds names with or without one of ``prefixes``, and sorts out heads.

    A head that the source lacks altogether is left to be initialised; ``unused`` are patterns of names that mean
    nothing, ``of_other_heads`` names that this model has no use for.
    """
    copies = {copy for row in table for copy in row.copies}
    wanted = {name for row in table for name in their_names(row)} | copies
    others = set(of_other_heads) - wanted
    ours_of: dict[str, str] = {}
    idle = []
    for name in source.shapes:
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in unused):
            continue
        spellings = _spellings(name, prefixes)
        known = next((known for known in spellings if known in wanted), None)
        if known is None and any(spelling in others for spelling in spellings):
            idle.append(name)
        else:
            ours_of.setdefault(known or name, name)
    heads = {row for row in table if any(path.startswith("heads/") for path in row.paths)}
    absent = {row for row in heads if not ({*their_names(row), *row.copies} & ours_of.keys())}
    # Half a head is a mistake, which reading will name.
    absent = {row for row in absent if all(other in absent for other in heads if _head(other) == _head(row))}
    return Match(
        table=tuple(row for row in table if row not in absent),
        source=Source(
            source.where,
            {known: source.shapes[name] for known, name in ours_of.items()},
            lambda known: source.read(ours_of[known]),
        ),
        fresh=tuple(path for row in table if row in absent for path in row.paths),
        idle=tuple(idle),
    )


def _spellings(name: str, prefixes: tuple[str, ...]) -> list[str]:
    for old, new in _OLD_ENDINGS.items():
        if name.endswith(old):
            name = name.removesuffix(old) + new
    bare = next((name.removeprefix(prefix) for prefix in prefixes if name.startswith(prefix)), name)
    return [name, bare, *(prefix + bare for prefix in prefixes)]


def _head(row: Weight) -> tuple[str, ...]:
    """``heads/scores/classes/projection/bias`` belongs to ``heads/scores/classes``; words and pooler have one name."""
    parts = row.paths[0].split("/")
    return tuple(parts[: 3 if parts[1] == "scores" else 2])
