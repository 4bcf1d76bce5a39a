"""Names of a state's arrays, and comparison of two states by name."""

import difflib
from collections.abc import Mapping
from typing import Any, TypedDict

import jax
import numpy as np
from jaxtyping import PyTree

_MOST_LINES = 20


class ArrayDescription(TypedDict):
    """Shape and dtype of an array, in JSON."""

    shape: list[int]
    dtype: str


def name_leaves(tree: PyTree) -> dict[str, Any]:
    """Return the leaves of any pytree by path: dict keys, tuple fields and list indices joined by ``/``."""
    paths_and_leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in paths_and_leaves}


def nest(leaves: Mapping[str, object]) -> dict[str, PyTree]:
    """Return named leaves as plain nested dicts."""
    tree: dict[str, Any] = {}
    for name, leaf in leaves.items():
        *parents, last = name.split("/")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = leaf
    return tree


def refill(like: PyTree, leaves: Mapping[str, object]) -> PyTree:
    """Return the containers of ``like`` around the arrays of ``leaves``.

    Args:
      like: Tree with the structure of the result.
      leaves: Array for each of its leaf names.
    """
    return jax.tree.unflatten(jax.tree.structure(like), [leaves[name] for name in name_leaves(like)])


def describe(leaves: dict[str, Any]) -> dict[str, ArrayDescription]:
    """Return shape and dtype of each leaf, as JSON.

    Raises:
      ValueError: A leaf is no plain array.
    """
    described: dict[str, ArrayDescription] = {}
    for name, leaf in leaves.items():
        dtype = leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
        if not isinstance(dtype, np.dtype) or dtype.hasobject:
            raise ValueError(
                f"{name} has dtype {dtype}; a checkpoint holds plain arrays (use jax.random.key_data)"
            )
        described[name] = {"shape": list(np.shape(leaf)), "dtype": str(dtype)}
    return described


def differences(saved: Mapping[str, ArrayDescription], wanted: Mapping[str, ArrayDescription]) -> list[str]:
    """Return one line for each array that is missing, unexpected, or has another shape or dtype.

    Args:
      saved: Descriptions of saved arrays, from ``describe``.
      wanted: Descriptions of needed arrays.
    """
    lines = []
    unexpected = [name for name in saved if name not in wanted]
    for name, want in wanted.items():
        have = saved.get(name)
        if have is None:
            alike = [other for other in unexpected if saved[other] == want]
            near = difflib.get_close_matches(name, alike, n=1)
            lines.append(f"{name} {_words(want)} is missing" + (f" (there is {near[0]})" if near else ""))
        elif have["shape"] != want["shape"]:
            lines.append(f"{name} has shape {_shape(have)}, needed {_shape(want)}")
        elif have["dtype"] != want["dtype"]:
            lines.append(f"{name} has dtype {have['dtype']}, needed {want['dtype']}")
    return lines + [f"{name} {_words(saved[name])} is not wanted" for name in unexpected]


def refuse_differences(
    saved: Mapping[str, ArrayDescription], wanted: Mapping[str, ArrayDescription], *, where: str
) -> None:
    """Raise ValueError with all differences, if there are any.

    Args:
      saved: Shapes and dtypes of the checkpoint by leaf name.
      wanted: Those of the model and optimizer.
      where: Name of the checkpoint in messages.
    """
    lines = differences(saved, wanted)
    if lines:
        more = [f"… and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
        listed = "".join(f"\n  {line}" for line in lines[:_MOST_LINES] + more)
        raise ValueError(f"{where} doesn't fit this model and optimizer:{listed}")


def _shape(described: ArrayDescription) -> str:
    return str(tuple(described["shape"]))


def _words(described: ArrayDescription) -> str:
    return f"{described['dtype']}{_shape(described)}"
