"""Word vectors of a file as the word embeddings that a model's training begins with."""

from typing import NamedTuple

import jax
import numpy as np

from t5x_like.ancestors.families.pretrained_features import FEATURES_MODEL
from t5x_like.ancestors.word_vectors.vector_files import read_vectors
from t5x_like.ancestors.word_vectors.word_text import words_of
from t5x_like.io.files import PathLike
from t5x_like.model import parameters


def word_table(config: parameters.ModelConfig) -> str:
    """Return the path of a model's only table of word embeddings.

    Raises:
      ValueError: It has none, or several.
    """
    axes = parameters.flatten(parameters.abstract(config)[2])
    paths = [
        path
        for path, names in axes.items()
        if names == ("vocab", "embed") and "/tables/" not in path and not path.startswith(FEATURES_MODEL)
    ]
    if len(paths) != 1:
        raise ValueError(
            f"word vectors need a model with one table of word embeddings, and a {type(config).__name__} has "
            f"{len(paths) or 'them in several parts'}; leave word_vectors out"
        )
    return paths[0]


class MatchedVectors(NamedTuple):
    """Vectors for rows of a model's word table.

    Attributes:
      path: Path of the table among the model's weights.
      ids: Ids of words that have a vector, int32 [M].
      vectors: Their vectors, float32 [M, D].
      note: A line about words with and without one.
    """

    path: str
    ids: np.ndarray
    vectors: np.ndarray
    note: str


def match_vectors(config: parameters.ModelConfig, file: PathLike, vocabulary: object) -> MatchedVectors:
    """Read the vectors of a vocabulary's words.

    Args:
      config: The model.
      file: Word vectors in a format of ``read_vectors``.
      vocabulary: The model's vocabulary, of whole words.

    Raises:
      ValueError: The file can't be read, has vectors of another dimension or none of the words; or the model or the
        vocabulary is of another kind.
    """
    path, words = word_table(config), words_of(vocabulary)
    vectors = read_vectors(file)
    width = parameters.flatten(parameters.abstract(config)[1])[path].shape[1]
    if vectors.dim != width:
        raise ValueError(
            f"{file} has vectors of {vectors.dim} dimensions, and the model's word embeddings have {width}; take a "
            "model of that width, or other vectors"
        )
    matched = {token_id: vectors.rows[word] for token_id, word in words.items() if word in vectors.rows}
    if not matched:
        raise ValueError(
            f"{file} has a vector for none of the {len(words):,} words of the vocabulary; are its words in lower case, "
            "and the vocabulary's not?"
        )
    return MatchedVectors(
        path,
        np.fromiter(matched.keys(), np.int32, len(matched)),
        vectors.table[np.fromiter(matched.values(), np.int64, len(matched))],
        f"{file} has vectors for {len(matched):,} of the vocabulary's {len(words):,} words; the other "
        f"{len(words) - len(matched):,} keep fresh ones",
    )


def with_vectors(params: parameters.Parameters, matched: MatchedVectors) -> parameters.Parameters:
    """Return a model's weights with vectors in its word table.

    Words that have none, special pieces and sentinels keep their embeddings.

    Args:
      params: The weights, on the devices that they stay on.
      matched: From ``match_vectors``.
    """
    flat = parameters.flatten(params)
    table = flat[matched.path]
    put = jax.jit(lambda table, ids, rows: table.at[ids].set(rows), out_shardings=table.sharding)
    return parameters.unflatten(flat | {matched.path: put(table, matched.ids, matched.vectors)})
