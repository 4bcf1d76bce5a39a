"""Matches a file's tensors with a model's weights where names or heads differ a little."""

import fnmatch
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from t5x_like.model.zoo.weights import Weight, WeightSource, published_names

# What TensorFlow called a norm's weights, and early PyTorch files still do.
_OLD_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}


class Match(NamedTuple):
    """Rows of a table that a source has, under the table's names, and what is on one side only."""

    table: tuple[Weight, ...]
    source: WeightSource
    fresh: Mapping[str, tuple[str, ...]]  # their names by our paths, of heads that the source lacks
    idle: tuple[str, ...]  # their names, of heads that the model lacks


def match(
    table: tuple[Weight, ...],
    source: WeightSource,
    *,
    prefixes: tuple[str, ...],
    unused: tuple[str, ...] = (),
    of_other_heads: Iterable[str] = (),
    head_shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> Match:
    """Find names with or without one of ``prefixes``, and sort out heads.

    A head, or a part of it, that the source lacks or has in another shape is left out of the table.

    Args:
      table: Weights of the model and their names in such files.
      source: Files to match.
      prefixes: Prefixes of names in files of models with a head.
      unused: Patterns of names without a meaning, where the model has no weight of the name.
      of_other_heads: Names of heads that this model doesn't have.
      head_shapes: Shapes that the heads need, by name.
    """
    copies = {copy for row in table for copy in row.copies}
    wanted = {name for row in table for name in published_names(row)} | copies
    others = set(of_other_heads) - wanted
    name_of: dict[str, str] = {}
    idle = []
    for name in source.shapes:
        spellings = _spellings(name, prefixes)
        known = next((known for known in spellings if known in wanted), None)
        if known is None and any(fnmatch.fnmatchcase(name, pattern) for pattern in unused):
            continue
        is_other = known is None and any(spelling in others for spelling in spellings)
        if is_other or (head_shapes or {}).get(known or "", source.shapes[name]) != source.shapes[name]:
            idle.append(name)
        elif (
            known is None or known in name_of
        ):  # one weight under two spellings: reading will name the second
            name_of.setdefault(name, name)
        else:
            name_of[known] = name
    heads = {row for row in table if any(path.startswith("heads/") for path in row.paths)}
    absent = {row for row in heads if not ({*published_names(row), *row.copies} & name_of.keys())}
    # A kernel without its bias is a mistake, which reading will name.
    absent = {row for row in absent if all(other in absent for other in heads if _part(other) == _part(row))}
    return Match(
        table=tuple(row for row in table if row not in absent),
        source=WeightSource(
            source.where,
            {known: source.shapes[name] for known, name in name_of.items()},
            lambda known: source.read(name_of[known]),
        ),
        fresh={path: tuple(published_names(row)) for row in table if row in absent for path in row.paths},
        idle=tuple(idle),
    )


def _spellings(name: str, prefixes: tuple[str, ...]) -> list[str]:
    for old, new in _OLD_ENDINGS.items():
        if name.endswith(old):
            name = name.removesuffix(old) + new
    bare = next((name.removeprefix(prefix) for prefix in prefixes if name.startswith(prefix)), name)
    return [name, bare, *(prefix + bare for prefix in prefixes)]


def _part(row: Weight) -> tuple[str, bool]:
    """Of ``heads/scores/classes/projection/bias`` what scores classes, of ``heads/pooler/transform/…`` a transform."""
    parts = row.paths[0].split("/")
    return "/".join(parts[: 3 if parts[1] == "scores" else 2]), "transform" in parts
