"""Modules of a built model that adapters are attached to, by path patterns."""

import difflib
import zlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from t5x_like.model.heads import LMHead
from t5x_like.model.layers.embedding import Embedding
from t5x_like.model.layers.linear import Linear
from t5x_like.model.layers.modules import is_weight, modules_of
from t5x_like.weight_patterns import matches


def targeted_linears(
    model: nnx.Module, targets: Sequence[str], *, what: str, others: Sequence[str] = ()
) -> dict[str, Linear]:
    """Return the linear layers whose paths match a pattern, by path.

    Args:
      model: A built model.
      targets: Patterns of ``fnmatch``; a ``*`` also matches slashes.
      what: Name of the field with the patterns, for messages.
      others: Patterns that match other modules, and needn't match a linear layer.

    Raises:
      ValueError: A pattern matches no linear layer; names the nearest ones.
    """
    linears = dict(modules_of(model, Linear))
    for pattern in targets:
        if pattern not in others and not any(matches(path, pattern) for path in linears):
            names = ", ".join(sorted({path.rpartition("/")[2] for path in linears}))
            raise ValueError(
                f"{what}={pattern!r} matches no linear layer of this model. Nearest: "
                f"{', '.join(_nearest(pattern, list(linears)))}. Layers are named {names}; a pattern such as "
                "'*/query' matches whole paths"
            )
    return {
        path: linear for path, linear in linears.items() if any(matches(path, pattern) for pattern in targets)
    }


def targeted_embeddings(model: nnx.Module, targets: Sequence[str]) -> dict[str, tuple[str, Embedding]]:
    """Return the embedding tables that patterns name, by path, each with its pattern.

    A pattern that matches linear layers means those alone: ``*`` leaves out embeddings, as PEFT's "all-linear" does.

    Args:
      model: Model, or a part of it.
      targets: Patterns of module paths.
    """
    linears, tables = dict(modules_of(model, Linear)), dict(modules_of(model, Embedding))
    return {
        path: (pattern, table)
        for pattern in targets
        if not any(matches(path, pattern) for path in linears)
        for path, table in tables.items()
        if matches(path, pattern)
    }


def _nearest(pattern: str, paths: list[str]) -> list[str]:
    """Return the paths most like a pattern, first by their last names."""
    wanted = pattern.rpartition("/")[2]

    def likeness(path: str) -> tuple[float, float]:
        name = path.rpartition("/")[2]
        return (
            difflib.SequenceMatcher(None, wanted, name).ratio(),
            difflib.SequenceMatcher(None, pattern, path).ratio(),
        )

    return sorted(paths, key=likeness, reverse=True)[:3]


def key_for(key: jax.Array, path: str) -> jax.Array:
    """Return the key of the fresh weights of a module; weights of other modules don't change it.

    Args:
      key: Key of all fresh weights.
      path: Path of the module.
    """
    return jax.random.fold_in(key, zlib.crc32(path.encode()))


def num_stacked(module: nnx.Module) -> int:
    """Return the number of layers whose weights a module of a stack's block has, one behind the other."""
    weight = jax.tree.leaves(module, is_leaf=is_weight)[0]
    (num_layers,) = weight.shape[: len(weight.shape) - len(weight.get_metadata()["axes"])]
    return num_layers


def merge_embeddings(model: Any) -> Any:
    """Put the change of each embedding's adapter into its table, and remove the adapter.

    Raises:
      ValueError: The output layer scores with the table, and the change is of the inputs alone.
    """
    is_tied = any(words.projection is None for _, words in modules_of(model, LMHead))
    for path, embedding in list(modules_of(model, Embedding)):
        if embedding.adapter is None:
            continue
        if is_tied and path.endswith("tokens"):
            raise ValueError(
                f"the adapter of {path} changes inputs, and the output layer scores with the same table "
                "(tie_word_embeddings); merged, it would change the scores, too: use the model with its adapter"
            )
        embedding.table[...] = getattr(embedding, embedding.adapter).merged(embedding)
        delattr(embedding, embedding.adapter)
        embedding.adapter = None
    return model


def merge_linears(model: Any) -> Any:
    """Put the change of each linear layer's adapter into its kernel and bias, and remove the adapter."""
    for _, linear in list(modules_of(model, Linear)):
        if linear.adapter is not None:
            kernel, bias = linear.merged()
            linear.kernel[...] = jnp.asarray(kernel, jnp.float32)
            if linear.bias is not None:
                linear.bias[...] = bias
            delattr(linear, linear.adapter)
            linear.adapter = None
    return model
