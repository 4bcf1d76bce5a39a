"""Differences between two saved steps, array by array."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from etils import epath

from t5x_like.checkpoints.arrays import ArrayStore
from t5x_like.io.files import read_json
from t5x_like.weight_patterns import present_path

# Elements that are compared at once: float64 copies of them take some times 8 MB.
_PIECE = 2**20


class ArrayDifference(NamedTuple):
    """Difference of one array.

    Attributes:
      name: Name of the array.
      kind: The array is only in A, only in B, of another shape, or of one shape and compared by value.
      a: Dtype and shape in A, such as "float32[16, 8]"; ``None`` if it isn't there.
      b: Dtype and shape in B; ``None`` if it isn't there.
      num_different: Number of elements that differ.
      largest_absolute: Largest ``|a - b|``; infinite where one is NaN or infinite and the other is not the same.
      largest_relative: Largest ``|a - b| / max(|a|, |b|)``, infinite in the same cases.
    """

    name: str
    kind: Literal["only in A", "only in B", "shape", "values"]
    a: str | None
    b: str | None
    num_different: int = 0
    largest_absolute: float = 0.0
    largest_relative: float = 0.0

    @property
    def is_equal(self) -> bool:
        """True if dtype, shape and every value agree."""
        return self.kind == "values" and self.a == self.b and not self.num_different


def compare_steps(a: epath.Path, b: epath.Path) -> list[ArrayDifference]:
    """Compare the arrays of two steps, equal ones included: first those without a counterpart, then by difference.

    Memory holds one array of each step at a time.

    Args:
      a: Directory of an undamaged step.
      b: Another one.
    """
    in_a, in_b = (_leaves(directory) for directory in (a, b))
    store, differences = ArrayStore(), []
    try:
        for name in {**in_a, **in_b}:
            kind = _kind(name, in_a, in_b)
            difference = ArrayDifference(name, kind, _text(in_a.get(name)), _text(in_b.get(name)))
            if kind == "values":
                arrays = (_read(store, step, there[name]) for step, there in ((a, in_a), (b, in_b)))
                num_different, absolute, relative = _largest(*arrays)
                difference = difference._replace(
                    num_different=num_different, largest_absolute=absolute, largest_relative=relative
                )
            differences.append(difference)
    finally:
        store.close()
    return sorted(differences, key=lambda each: (each.kind == "values", -each.largest_absolute, each.name))


def _leaves(step: epath.Path) -> dict[str, Any]:
    """Return the descriptions of a step's arrays by their present names, each with the name on disk."""
    leaves = read_json(step / "leaves.json")
    return {present_path(name): {**described, "saved as": name} for name, described in leaves.items()}


def _kind(
    name: str, in_a: Mapping[str, Any], in_b: Mapping[str, Any]
) -> Literal["only in A", "only in B", "shape", "values"]:
    if name not in in_b:
        return "only in A"
    if name not in in_a:
        return "only in B"
    return "values" if in_a[name]["shape"] == in_b[name]["shape"] else "shape"


def _text(described: Mapping[str, object] | None) -> str | None:
    return None if described is None else f"{described['dtype']}{described['shape']}"


def _read(store: ArrayStore, step: epath.Path, described: Mapping[str, Any]) -> np.ndarray:
    like = jax.ShapeDtypeStruct(tuple(described["shape"]), described["dtype"])
    return np.asarray(store.read_to_host(step / "state", described["saved as"], like))


def _largest(a: np.ndarray, b: np.ndarray) -> tuple[int, float, float]:
    """Return how many elements differ, and the largest absolute and relative difference."""
    a, b = a.ravel(), b.ravel()
    pieces = [_largest_of_piece(a[at : at + _PIECE], b[at : at + _PIECE]) for at in range(0, a.size, _PIECE)]
    if not pieces:
        return 0, 0.0, 0.0
    counts, absolute, relative = zip(*pieces, strict=True)
    return sum(counts), max(absolute), max(relative)


def _largest_of_piece(a: np.ndarray, b: np.ndarray) -> tuple[int, float, float]:
    left, right = a.astype(np.float64), b.astype(np.float64)
    differs = ~((left == right) | (np.isnan(left) & np.isnan(right)))
    if not differs.any():
        return 0, 0.0, 0.0
    left, right = left[differs], right[differs]
    with np.errstate(invalid="ignore", over="ignore"):
        absolute = np.abs(left - right)
        relative = absolute / np.maximum(np.abs(left), np.abs(right))
    # NaN comes from NaN on one side, or from infinities.
    largest = [float(np.where(np.isnan(each), np.inf, each).max()) for each in (absolute, relative)]
    return int(differs.sum()), largest[0], largest[1]
