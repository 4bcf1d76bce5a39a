"""Weight tables: correspondence of arrays in published files and our parameters, used for reading and writing."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from t5x_like.model.lazy_array import Index, LazyArray
from t5x_like.model.parameters import Parameters, flatten, unflatten
from t5x_like.nested_values import one_or_several

_MOST_LINES = 20


class WeightTransform(NamedTuple):
    """Conversion of a published array to our own and back. Of stacked layers it converts one at a time.

    Attributes:
      read: Returns our array from theirs, or a tuple of arrays where theirs fuses several.
      write: Returns the published array from our own; fused arrays are separate arguments.
    """

    read: Callable[[np.ndarray], Any]
    write: Callable[..., np.ndarray]

    def parts(self, array: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return our arrays, one where theirs fuses none."""
        arrays = self.read(array)
        return arrays if isinstance(arrays, tuple) else (arrays,)

    def then(self, other: "WeightTransform") -> "WeightTransform":
        """Return the conversion that reads with this one, which must not split arrays, and then with ``other``."""
        return WeightTransform(
            lambda array: other.read(self.read(array)), lambda *arrays: self.write(other.write(*arrays))
        )


SAME = WeightTransform(lambda array: array, lambda array: array)
TRANSPOSED = WeightTransform(np.transpose, np.transpose)  # PyTorch's Linear stores [out, in]


def split_columns(*widths: int) -> WeightTransform:
    """Split fused projections [in, sum of widths], and biases [sum of widths], along the last axis."""
    edges = tuple(np.cumsum(widths)[:-1])
    return WeightTransform(
        lambda array: tuple(np.split(array, edges, axis=-1)), lambda *parts: np.concatenate(parts, axis=-1)
    )


def padded_rows(num_rows: int, num_padded: int) -> WeightTransform:
    """Return the conversion of a table that is padded with zeros.

    Args:
      num_rows: Rows of the published table.
      num_padded: Rows of ours.
    """

    def read(array: np.ndarray) -> np.ndarray:
        padding = ((0, num_padded - num_rows), *((0, 0) for _ in array.shape[1:]))
        return np.pad(array, padding) if num_padded > len(array) == num_rows else array

    return WeightTransform(read, lambda array: array[:num_rows])


class Weight(NamedTuple):
    """One row of a weight table.

    Attributes:
      path: Path of our parameter, or several paths where the published one fuses them.
      hf_name: Name of the published array. It contains ``{layer}`` where layers are stacked.
      transform: Conversion between both.
      copies: Further names under which files may repeat the array, as they do with tied weights.
      layers: For stacked layers, what replaces ``{layer}`` for each index of our leading axis.
      num_experts: Experts that lie behind the layers along our second axis; ``{expert}`` is replaced by their numbers.
    """

    path: str | tuple[str, ...]
    hf_name: str
    transform: WeightTransform = SAME
    copies: tuple[str, ...] = ()
    layers: tuple[int | str, ...] | None = None
    num_experts: int | None = None

    @property
    def num_stacked(self) -> int:
        """Number of leading axes of our parameter whose entries are published one by one."""
        return 0 if self.layers is None else 1 if self.num_experts is None else 2

    @property
    def paths(self) -> tuple[str, ...]:
        """Our paths as a tuple."""
        return one_or_several(self.path)


def per_layer(prefix: str, layers: tuple[int | str, ...], rows: Iterable[Weight]) -> list[Weight]:
    """Return the rows of a stack from those of one layer.

    Args:
      prefix: Path of the stack, below which the rows' paths lie.
      layers: Their numbers, or other parts of names, of the stacked layers.
      rows: Rows of one layer, with ``{layer}`` in their names.
    """
    return [row._replace(path=tuple(f"{prefix}/{path}" for path in row.paths), layers=layers) for row in rows]


# Last parts of our paths that are norms; all other modules in a table are linear.
_NORMS = frozenset(
    {"norm", "final_norm", "query_norm", "key_norm", "latent_norm", "before", "after", "final"}
)


def module_rows(names: Mapping[str, str], prefix: str = "", *, bias: bool = True) -> list[Weight]:
    """Return the rows of linear layers and norms in PyTorch's layout.

    Args:
      names: Their names of modules by our paths.
      prefix: Begins all their names.
      bias: Modules have a bias.
    """
    rows = []
    for path, hf_name in names.items():
        is_norm = path.rpartition("/")[2] in _NORMS
        weight, transform = ("scale", SAME) if is_norm else ("kernel", TRANSPOSED)
        rows.append(Weight(f"{path}/{weight}", f"{prefix}{hf_name}.weight", transform))
        if bias:
            rows.append(Weight(f"{path}/bias", f"{prefix}{hf_name}.bias"))
    return rows


class WeightSource(NamedTuple):
    """Published arrays, read one at a time.

    Attributes:
      where: Name of the file or directory, for messages.
      shapes: Shape of every array by name.
      read: Returns the array of a name.
    """

    where: str
    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str], np.ndarray]


def source_of(arrays: Mapping[str, np.ndarray], where: str) -> WeightSource:
    """Return arrays that are in memory as a source.

    Args:
      arrays: Arrays by published name.
      where: Name of the source in messages.
    """
    return WeightSource(
        where, {name: tuple(array.shape) for name, array in arrays.items()}, lambda name: arrays[name]
    )


def read_weights(
    table: tuple[Weight, ...],
    like: Parameters,
    source: WeightSource,
    *,
    place: Callable[[str, LazyArray], object],
    unused: tuple[str, ...] = (),
) -> Parameters:
    """Read published weights as our parameters, in float32.

    Args:
      table: Weight table of the architecture.
      like: Parameters, or their shapes, that the table describes.
      source: Published arrays.
      place: Called with the path and a lazy array of each parameter; returns what is kept. Nothing is read before,
        and a fused array is read once for each of its parts.
      unused: Names of arrays in the source that the model doesn't use.

    Raises:
      ValueError: Arrays are missing, not known, or of another shape (listed by name), or copies differ.
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


def published_shapes(table: tuple[Weight, ...], like: Parameters) -> dict[str, tuple[int, ...]]:
    """Return the shape of every published array, in the order of ``write_weights``.

    Args:
      table: Weight table.
      like: Weights of the model, or their shapes.
    """
    shapes = {path: tuple(leaf.shape) for path, leaf in flatten(like).items()}
    return {name: _published_shape(weight, shapes) for weight in table for name in published_names(weight)}


def write_weights(table: tuple[Weight, ...], params: Parameters) -> Iterator[tuple[str, np.ndarray]]:
    """Yield name and float32 array of each published weight. Of lazy parameters one row of the table is in memory.

    Args:
      table: Weight table.
      params: Weights of the model, which may be lazy.
    """
    leaves = flatten(params)
    for weight in table:
        yield from _written(weight, leaves)


def _written(weight: Weight, leaves: Mapping[str, object]) -> Iterator[tuple[str, np.ndarray]]:
    arrays = [np.asarray(leaves[path], np.float32) for path in weight.paths]
    flat = [array.reshape(-1, *array.shape[weight.num_stacked :]) for array in arrays]
    rows = zip(*flat, strict=True) if flat else [()]  # a constant of the published model has no weight here
    for name, parts in zip(published_names(weight), rows, strict=True):
        yield name, np.asarray(weight.transform.write(*parts), order="C")


def published_names(weight: Weight) -> list[str]:
    """Return the names of published arrays in one row, in order of layers, and in each in order of experts."""
    if weight.layers is None:
        return [weight.hf_name]
    experts = range(1 if weight.num_experts is None else weight.num_experts)
    return [
        weight.hf_name.format(layer=layer, expert=expert) for layer in weight.layers for expert in experts
    ]


def _published_shape(weight: Weight, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    own = [shapes[path][weight.num_stacked :] for path in weight.paths]
    # Views of one number, which take no memory unless the transform joins them.
    return weight.transform.write(*(np.broadcast_to(np.float32(0), shape) for shape in own)).shape


def _choose_names(table: tuple[Weight, ...], source: WeightSource) -> dict[str, str]:
    """Return the name that each weight with copies is read under: the first that exists."""
    chosen = {}
    for weight in table:
        if weight.copies and weight.hf_name not in source.shapes:
            chosen |= {
                weight.hf_name: next(
                    (copy for copy in weight.copies if copy in source.shapes), weight.hf_name
                )
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
        chosen.get(name, name): _published_shape(weight, shapes)
        for weight in table
        for name in published_names(weight)
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
        name = chosen.get(weight.hf_name, weight.hf_name)
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
    """Return one parameter of a row as a lazy array: number ``part`` where theirs is fused."""

    def read_one(name: str) -> np.ndarray:
        return weight.transform.parts(source.read(name))[part]

    def read(index: Index) -> np.ndarray:
        if weight.layers is None:
            name = chosen.get(weight.hf_name, weight.hf_name)
            return np.asarray(read_one(name)[index], np.float32, order="C")
        outer, inner = index[: weight.num_stacked], index[weight.num_stacked :]
        sizes = [len(range(*cut.indices(size))) for cut, size in zip(index, shape, strict=True)]
        names = np.array(published_names(weight), object).reshape(shape[: weight.num_stacked])[outer]
        stack = np.empty(sizes, np.float32)
        for place in np.ndindex(names.shape):
            stack[place] = read_one(str(names[place]))[inner]
        return stack

    return LazyArray(shape, read, by_rows=weight.layers is not None)
