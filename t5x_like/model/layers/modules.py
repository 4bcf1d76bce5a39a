"""Modules and weights inside of a built model."""

from collections.abc import Iterator
from typing import Any, TypeVar

from flax import nnx

Module = TypeVar("Module")


def modules_of(model: Any, *kinds: type[Module]) -> Iterator[tuple[str, Module]]:
    """Yield the modules of some types with their paths, such as ``encoder/layers/0/self_attention/query``.

    Args:
      model: Model, or a part of it.
      *kinds: Types to yield.
    """
    for path, module in nnx.iter_modules(model):
        if isinstance(module, kinds):
            yield "/".join(map(str, path)), module


def is_weight(node: Any) -> bool:
    """Return whether a node of a tree is a weight with its metadata, for ``is_leaf`` of ``jax.tree``."""
    return isinstance(node, nnx.Variable)
