"""Word embeddings and output layers for another vocabulary than the one that a model was trained with."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from t5x_like.io.files import PathLike
from t5x_like.model import parameters
from t5x_like.model.lazy_array import put_on_devices
from t5x_like.model.parameters import Parameters
from t5x_like.partitioning.shard import with_shardings
from t5x_like.pretrained.fresh_heads import tables_of_words
from t5x_like.pretrained.tokenizer_files import find_tokenizer
from t5x_like.pretrained.weight_sources import find_weights
from t5x_like.text.vocabularies.piece_sources import PieceSources
from t5x_like.text.vocabularies.tokenizer import Tokenizer


def old_tokenizer(directory: PathLike, vocabulary: str | None) -> Tokenizer:
    """Return the tokenizer that a checkpoint's embeddings are of.

    Args:
      directory: A run or a Hugging Face directory.
      vocabulary: Path of its tokenizer; ``None`` for the one next to its weights.

    Raises:
      ValueError: There is none.
    """
    weights = find_weights(directory)
    tokenizer = find_tokenizer(weights.directory, weights.config, weights.fields, vocabulary=vocabulary or "")
    if tokenizer is None:
        raise ValueError(
            f"{directory} has no vocabulary next to its weights; name the one that it was trained with by "
            "from_vocabulary=PATH (FROM_VOCABULARY in recipes)"
        )
    return tokenizer


def with_vocabulary(
    params: Parameters, model: Any, sources: PieceSources, *, seed: int, mesh: Mesh | None
) -> Parameters:
    """Return a model's weights with embeddings, and an output layer, for another vocabulary.

    Rows after the vocabulary's ids, which only pad the table, are drawn.

    Args:
      params: Weights for the old vocabulary.
      model: Configuration of the model with the new one.
      sources: Old ids of each new one.
      seed: Seed of the drawn rows.
      mesh: Devices to place the weights on.

    Raises:
      ValueError: The model divides its vocabulary among several tables.
    """
    places, known = tables_of_words(model), parameters.flatten(params)
    _, shapes, axes = parameters.abstract(model)
    leaves = parameters.flatten(shapes if mesh is None else with_shardings(axes, shapes, mesh))
    ids = sources.ids[: model.vocab_size]

    def move(key: jax.Array, old: dict[str, jax.Array]) -> dict[str, jax.Array]:
        drawn = parameters.flatten(parameters.split(model.build(key))[1])
        moved = {}
        for path, axis in places.items():
            rows = jnp.moveaxis(old[path], axis, 0)[: sources.num_old]
            table = jnp.moveaxis(drawn[path], axis, 0).at[: len(ids)].set(_means(rows, ids))
            moved[path] = jnp.moveaxis(table, 0, axis)
        return moved

    moved = jax.jit(move)(jax.random.key(seed), {path: known[path] for path in places})
    placed = {path: put_on_devices(array, leaves[path].sharding) for path, array in moved.items()}
    return parameters.unflatten(known | placed)


def _means(rows: jax.Array, ids: Sequence[Sequence[int]]) -> jax.Array:
    """Return the mean of some rows for each new one; of all rows where there are none."""
    longest = max(map(len, ids), default=0)
    numbers = np.zeros((len(ids), longest), np.int32)
    weights = np.zeros((len(ids), longest), np.float32)
    for row, each in enumerate(ids):
        numbers[row, : len(each)] = each
        weights[row, : len(each)] = 1 / max(len(each), 1)
    of_all = np.array([not each for each in ids], np.float32)

    def scaled(array: jax.Array, by: np.ndarray) -> jax.Array:
        return array * by.reshape(-1, *[1] * (rows.ndim - 1))

    total = scaled(jnp.mean(rows, axis=0)[None], of_all)
    for column in range(longest):  # one after another: all at once would take as many times the memory
        total += scaled(rows[numbers[:, column]], weights[:, column])
    return total
