"""Similarity of texts by their vectors, compared with scores of people, as in STS-B."""

from collections.abc import Sequence

import numpy as np

from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from t5x_like.text.metrics import pearson_corrcoef, spearman_corrcoef

_BATCH_SIZE = 64


def similarity_scores(
    pretrained: Pretrained,
    first: Sequence[str],
    second: Sequence[str],
    scores: Sequence[float],
    *,
    dimensions: int | None = None,
    batch_size: int = _BATCH_SIZE,
) -> dict[str, float]:
    """Return the correlations of cosines with scores, in percent: ``spearman_corrcoef`` and ``pearson_corrcoef``.

    >>> similarity_scores(from_pretrained("runs/simcse"), first_sentences, second_sentences, scores)
    {'spearman_corrcoef': 76.3, 'pearson_corrcoef': 75.8}

    Args:
      pretrained: Model whose ``embed`` makes the vectors.
      first: First text of each pair.
      second: Second text of each pair.
      scores: Similarity of each pair, in any scale.
      dimensions: Number of the first dimensions to compare; all if not given.
      batch_size: Number of texts that are read together.

    Raises:
      ValueError: There are not as many texts and scores, or a text has no vector.
    """
    if not len(first) == len(second) == len(scores) or not len(scores):
        raise ValueError(
            f"there are {len(first)} first texts, {len(second)} second texts and {len(scores)} scores; give as many of "
            "each, and at least one"
        )
    texts = list(dict.fromkeys((*first, *second)))
    numbers = {text: index for index, text in enumerate(texts)}
    vectors = pretrained.embed(texts, dimensions=dimensions, batch_size=batch_size)
    sides = [vectors[[numbers[text] for text in side]] for side in (first, second)]
    cosines = cosine_similarities(*sides).tolist()
    return {**spearman_corrcoef(scores, cosines), **pearson_corrcoef(scores, cosines)}


def cosine_similarities(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the cosine of each row of one array with the row of the other, float32 [B].

    Args:
      first: Vectors [B, D].
      second: Vectors [B, D].

    Raises:
      ValueError: The arrays have other shapes, or values that are not finite.
    """
    if first.shape != second.shape or first.ndim != 2:
        raise ValueError(
            f"vectors of shapes {first.shape} and {second.shape} are compared; give as many of each, of the same model "
            "and the same dimensions"
        )
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise ValueError(
            "some vectors are NaN or infinite; open an earlier step of the run, or compute in float32"
        )
    products = np.einsum("bd,bd->b", first, second)
    lengths = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
    return products / np.maximum(lengths, np.finfo(np.float32).tiny)
