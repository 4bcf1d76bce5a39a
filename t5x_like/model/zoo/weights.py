"""Weight tables: which array of somebody else's file is which of ours, as data that is read in both directions."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from t5x_like.model.lazy_array import Index, LazyArray
from t5x_like.model.parameters import Parameters, flatten, unflatten

_MOST_LINES = 20


class WeightTransform(NamedTuple):
    """Conversion of an array of theirs to ours and back; of one layer, where layers are stacked.

    A fused array becomes several: ``read`` then gives a tuple of them, which ``write`` takes one by one.
    """

    read: Callable[[np.ndarray], Any]
    write: Callable[..., np.ndarray]

    def then(self, other: "WeightTransform") -> "WeightTransform":
        """First this, from one array to one, then ``other``, which may split it."""
        return WeightTransform(
            lambda theirs: other.read(self.read(theirs)), lambda *ours: self.write(other.write(*ours))
        )


SAME = WeightTransform(lambda array: array, lambda array: array)
TRANSPOSED = WeightTransform(np.transpose, np.transpose)  # PyTorch's Linear stores [out, in]


def split_columns(*widths: int) -> WeightTransform:
    """Fused projections, ours side by side in theirs [in, sum of widths]; biases [sum of widths] too."""
    places = tuple(np.cumsum(widths)[:-1])
    return WeightTransform(
        lambda array: tuple(np.split(array, places, axis=-1)), lambda *parts: np.concatenate(parts, axis=-1)
    )


def padded_rows(num_rows: int, num_padded: int) -> WeightTransform:
    """Our table has further rows, which are zero."""

    def read(array: np.ndarray) -> np.ndarray:
        padding = ((0, num_padded - num_rows), *((0, 0) for _ in array.shape[1:]))
        return np.pad(array, padding) if num_padded > len(array) == num_rows else array

    return WeightTransform(read, lambda array: array[:num_rows])


class Weight(NamedTuple):
    """One row: our path, or paths where theirs is fused, and their name.

    ``layers``: with ``{layer}`` in their name, which of their layers (numbers, or their parts of names) lie
    along our leading axis. ``copies`` are further names under which files may repeat the array, as they do with tied
    weights.
    """

    ours: str | tuple[str, ...]
    theirs: str
    transform: WeightTransform = SAME
    copies: tuple[str, ...] = ()
    layers: tuple[int | str, ...] | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """Our paths, one or more."""
        return (self.ours,) if isinstance(self.ours, str) else self.ours


def per_layer(prefix: str, layers: tuple[int | str, ...], rows: Iterable[Weight]) -> list[Weight]:
    """The rows of one layer for a stack of equal ones: our paths below ``prefix``, their numbers in ``layers``."""
    return [row._replace(ours=tuple(f"{prefix}/{path}" for path in row.paths), layers=layers) for row in rows]


def dense(ours: str, theirs: str) -> list[Weight]:
    """A linear layer of PyTorch's, with its bias."""
    return [
        Weight(f"{ours}/kernel", f"{theirs}.weight", TRANSPOSED),
        Weight(f"{ours}/bias", f"{theirs}.bias"),
    ]


def norm(ours: str, theirs: str) -> list[Weight]:
    """A layer norm with its bias."""
    return [Weight(f"{ours}/scale", f"{theirs}.weight"), Weight(f"{ours}/bias", f"{theirs}.bias")]


class WeightSource(NamedTuple):
    """Somebody else's arrays, read one at a time."""

    where: str  # for messages
    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str], np.ndarray]


def source_of(arrays: Mapping[str, Any], where: str) -> WeightSource:
    """Arrays that are in memory already."""
    return WeightSource(
        where, {name: tuple(array.shape) for name, array in arrays.items()}, lambda name: arrays[name]
    )


def read_weights(
    table: tuple[Weight, ...],
    like: Parameters,
    source: WeightSource,
    *,
    place: Callable[[str, LazyArray], Any],
    unused: tuple[str, ...] = (),
) -> Parameters:
    """Our weights, in float32 and in the shapes of ``like``, from theirs; ``place(path, unread)`` keeps each.

    Nothing is read until ``place`` or somebody after it does. A fused array is read once for each of its parts.
    ``unused`` are names that files may hold to no effect.

    Raises:
      ValueError: arrays are missing, not known, or of another shape (listed by name), or copies differ.
    """
    shapes = {path: tuple(leaf.shape) for path, leaf in flatten(like).items()}
    named = {path for weight in table for path in weight.paths}
    assert named == set(shapes), f"the table and the model name different weights: {named ^ set(shapes)}"
    chosen = _choose_names(table, source)
    _refuse_differences(table, shapes, source, chosen, unused)
    _refuse_unlike_copies(table, source, chosen)
    params = {}
    for weight in table:
        for part, path in enumerate(weight.paths):
            params[path] = place(path, _unread(weight, part, shapes[path], source, chosen))
    return unflatten(params)


def their_shapes(table: tuple[Weight, ...], like: Parameters) -> dict[str, tuple[int, ...]]:
    """The shape of every array of theirs, in the order of ``write_weights``."""
    shapes = {path: tuple(leaf.shape) for path, leaf in flatten(like).items()}
    return {name: _their_shape(weight, shapes) for weight in table for name in their_names(weight)}


def write_weights(table: tuple[Weight, ...], params: Parameters) -> Iterator[tuple[str, np.ndarray]]:
    """Theirs from ours, in float32, one array at a time; of unread leaves, those of one row are in memory."""
    leaves = flatten(params)
    for weight in table:
        yield from _written(weight, leaves)


def _written(weight: Weight, leaves: Mapping[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    arrays = [np.asarray(leaves[path], np.float32) for path in weight.paths]
    layers = [arrays] if weight.layers is None else zip(*arrays, strict=True)
    for name, parts in zip(their_names(weight), layers, strict=True):
        yield name, np.asarray(weight.transform.write(*parts), order="C")


def their_names(weight: Weight) -> list[str]:
    """All names of theirs in a row, in order of layers."""
    if weight.layers is None:
        return [weight.theirs]
    return [weight.theirs.format(layer=layer) for layer in weight.layers]


def _their_shape(weight: Weight, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    ours = [shapes[path] if weight.layers is None else shapes[path][1:] for path in weight.paths]
    # Views of one number, which take no memory unless the transform joins them.
    return weight.transform.write(*(np.broadcast_to(np.float32(0), shape) for shape in ours)).shape


def _choose_names(table: tuple[Weight, ...], source: WeightSource) -> dict[str, str]:
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
    source: WeightSource,
    chosen: dict[str, str],
    unused: tuple[str, ...],
) -> None:
    wanted = {
        chosen.get(name, name): _their_shape(weight, shapes)
        for weight in table
        for name in their_names(weight)
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


def _refuse_unlike_copies(table: tuple[Weight, ...], source: WeightSource, chosen: dict[str, str]) -> None:
    for weight in table:
        name = chosen.get(weight.theirs, weight.theirs)
        for copy in weight.copies:
            if copy == name or copy not in source.shapes:
                continue
            if not np.array_equal(source.read(name), source.read(copy)):
                raise ValueError(
                    f"{source.where}: {copy} differs from {name}, but in this model they are one and the same array; "
                    "if they are meant to differ, set tie_word_embeddings to false in config.json"
                )


def _unread(
    weight: Weight, part: int, shape: tuple[int, ...], source: WeightSource, chosen: dict[str, str]
) -> LazyArray:
    """One of our arrays of a row, number ``part`` where theirs is fused."""

    def read_one(name: str) -> np.ndarray:
        ours = weight.transform.read(source.read(name))
        return ours[part] if isinstance(ours, tuple) else ours

    def read(index: Index) -> np.ndarray:
        if weight.layers is None:
            name = chosen.get(weight.theirs, weight.theirs)
            return np.asarray(read_one(name)[index], np.float32, order="C")
        names, inner = their_names(weight)[index[0]], index[1:]
        sizes = [len(range(*cut.indices(size))) for cut, size in zip(inner, shape[1:], strict=True)]
        stack = np.empty((len(names), *sizes), np.float32)
        for layer, name in enumerate(names):
            stack[layer] = read_one(name)[inner]
        return stack

    return LazyArray(shape, read, by_rows=weight.layers is not None)
