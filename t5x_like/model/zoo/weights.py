"""Weight tables: which array of somebody else's file is which of ours, as data that is read in both directions."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from t5x_like.model.parameters import Parameters, flatten, unflatten

_MOST_LINES = 20


class Transform(NamedTuple):
    """How an array of theirs becomes ours, and back; of one layer, where layers are stacked."""

    read: Callable[[np.ndarray], np.ndarray]
    write: Callable[[np.ndarray], np.ndarray]


SAME = Transform(lambda array: array, lambda array: array)
TRANSPOSED = Transform(np.transpose, np.transpose)  # PyTorch's Linear stores [out, in]


class Weight(NamedTuple):
    """One row: our path, their name. ``{layer}`` in their name counts along our leading axis.

    ``copies`` are further names under which files may repeat the array, as they do with tied weights.
    """

    ours: str
    theirs: str
    transform: Transform = SAME
    copies: tuple[str, ...] = ()


class Source(NamedTuple):
    """Somebody else's arrays, read one at a time."""

    where: str  # for messages
    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str], np.ndarray]


def source_of(arrays: Mapping[str, Any], where: str) -> Source:
    """Arrays that are in memory already."""
    return Source(
        where, {name: tuple(array.shape) for name, array in arrays.items()}, lambda name: arrays[name]
    )


def read_weights(
    table: tuple[Weight, ...],
    like: Parameters,
    source: Source,
    *,
    place: Callable[[str, np.ndarray], Any],
    unused: tuple[str, ...] = (),
) -> Parameters:
    """Our weights, in float32 and in the shapes of ``like``, from theirs; ``place(path, array)`` keeps each.

    At most one stacked weight is in numpy at a time. ``unused`` are names that files may hold to no effect.

    Raises:
      ValueError: arrays are missing, not known, or of another shape (listed by name), or copies differ.
    """
    shapes = {path: tuple(leaf.shape) for path, leaf in flatten(like).items()}
    assert {weight.ours for weight in table} == set(shapes), "the table and the model name different weights"
    chosen = _choose_names(table, source)
    _refuse_differences(table, shapes, source, chosen, unused)
    params = {}
    for weight in table:
        params[weight.ours] = place(weight.ours, _assemble(weight, shapes[weight.ours], source, chosen))
    return unflatten(params)


def their_shapes(table: tuple[Weight, ...], like: Parameters) -> dict[str, tuple[int, ...]]:
    """The shape of every array of theirs, in the order of ``write_weights``."""
    leaves = flatten(like)
    return {
        name: _their_shape(weight, leaves[weight.ours].shape)
        for weight in table
        for name in _names(weight, leaves[weight.ours].shape)
    }


def write_weights(table: tuple[Weight, ...], params: Parameters) -> Iterator[tuple[str, np.ndarray]]:
    """Theirs from ours, in float32, one array at a time."""
    leaves = flatten(params)
    for weight in table:
        array = np.asarray(leaves[weight.ours], np.float32)
        parts = array if _is_stacked(weight) else array[None]
        for name, part in zip(_names(weight, array.shape), parts, strict=True):
            yield name, np.ascontiguousarray(weight.transform.write(part))


def _is_stacked(weight: Weight) -> bool:
    return "{layer}" in weight.theirs


def _names(weight: Weight, shape: tuple[int, ...]) -> list[str]:
    if not _is_stacked(weight):
        return [weight.theirs]
    return [weight.theirs.format(layer=layer) for layer in range(shape[0])]


def _their_shape(weight: Weight, shape: tuple[int, ...]) -> tuple[int, ...]:
    empty = np.broadcast_to(np.float32(0), shape[1:] if _is_stacked(weight) else shape)  # takes no memory
    return weight.transform.write(empty).shape


def _choose_names(table: tuple[Weight, ...], source: Source) -> dict[str, str]:
    """Under which name a weight with copies is read: its own, or the first copy that is there."""
    chosen = {}
    for weight in table:
        if weight.copies and weight.theirs not in source.shapes:
            chosen |= {
                weight.theirs: next((copy for copy in weight.copies if copy in source.shapes), weight.theirs)
            }
    return chosen


def _refuse_differences(
    table: tuple[Weight, ...],
    shapes: dict[str, tuple[int, ...]],
    source: Source,
    chosen: dict[str, str],
    unused: tuple[str, ...],
) -> None:
    wanted = {
        chosen.get(name, name): _their_shape(weight, shapes[weight.ours])
        for weight in table
        for name in _names(weight, shapes[weight.ours])
    }
    known = {*wanted, *unused, *(copy for weight in table for copy in weight.copies)}
    lines = [f"{name} {shape} is missing" for name, shape in wanted.items() if name not in source.shapes]
    lines += [
        f"{name} has shape {source.shapes[name]}, the configuration says {shape}"
        for name, shape in wanted.items()
        if source.shapes.get(name, shape) != shape
    ]
    lines += [f"{name} {shape} is not known" for name, shape in source.shapes.items() if name not in known]
    if lines:
        more = [f"… and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
        listed = "".join(f"\n  {line}" for line in lines[:_MOST_LINES] + more)
        raise ValueError(f"the weights in {source.where} don't fit the model:{listed}")


def _assemble(weight: Weight, shape: tuple[int, ...], source: Source, chosen: dict[str, str]) -> np.ndarray:
    if _is_stacked(weight):
        stacked = np.empty(shape, np.float32)
        for layer, name in enumerate(_names(weight, shape)):
            stacked[layer] = weight.transform.read(source.read(name))
        return stacked
    name = chosen.get(weight.theirs, weight.theirs)
    array = source.read(name)
    for copy in weight.copies:
        if copy != name and copy in source.shapes and not np.array_equal(array, source.read(copy)):
            raise ValueError(
                f"{source.where}: {copy} differs from {name}, but in this model they are one and the same array; "
                "if they are meant to differ, set tie_word_embeddings to false in config.json"
            )
    return np.ascontiguousarray(weight.transform.read(array), np.float32)
