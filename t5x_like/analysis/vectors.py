"""Measures of a set of vectors, and cures of anisotropy, in float64."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class VectorTransform(NamedTuple):
    """An affine map of vectors, ``(x - mean) @ matrix``, which was fitted on some and fits others.

    Attributes:
      mean: Mean of the vectors that it was fitted on, [D].
      matrix: Linear map, [D, K].
    """

    mean: np.ndarray
    matrix: np.ndarray

    def __call__(self, vectors: ArrayLike) -> np.ndarray:
        """Return transformed vectors, [T, K].

        Args:
          vectors: Vectors, [T, D].

        Raises:
          ValueError: Their width is another than that of the vectors that it was fitted on.
        """
        vectors = checked_vectors(vectors)
        if vectors.shape[1] != len(self.mean):
            raise ValueError(
                f"vectors have width {vectors.shape[1]}, and the transform was fitted on width {len(self.mean)}; "
                "give vectors of one model and layer"
            )
        return (vectors - self.mean) @ self.matrix


def checked_vectors(vectors: ArrayLike) -> np.ndarray:
    """Return vectors as float64 [T, D].

    Raises:
      ValueError: There is none, widths differ, or one is not finite.
    """
    try:
        array = np.asarray(vectors, np.float64)
    except ValueError:
        widths = sorted({np.size(each) for each in vectors})  # pyright: ignore[reportGeneralTypeIssues]
        raise ValueError(
            f"vectors have different widths: {', '.join(map(str, widths))}; give vectors of one width"
        ) from None
    if array.ndim != 2 or not array.size:
        raise ValueError(f"vectors have shape {array.shape}; give at least one, as rows of a matrix [T, D]")
    if not np.isfinite(array).all():
        (bad,) = np.nonzero(~np.isfinite(array).all(axis=1))
        raise ValueError(
            f"{len(bad)} of {len(array)} vectors are not finite, the first is row {bad[0]}; leave them out"
        )
    return array


def unit_vectors(vectors: ArrayLike) -> np.ndarray:
    """Return vectors scaled to length 1; vectors of length 0 stay as they are."""
    array = checked_vectors(vectors)
    lengths = np.linalg.norm(array, axis=1, keepdims=True)
    return array / np.where(lengths > 0, lengths, 1.0)


def mean_cosine(vectors: ArrayLike) -> float:
    """Return the mean cosine of two different vectors, a measure of anisotropy (Ethayarajh 2019, §4.1).

    It is 0 for vectors of random directions and 1 for vectors of one direction. Vectors of length 0 are left out.

    Raises:
      ValueError: There are fewer than two vectors.
    """
    array = unit_vectors(vectors)
    array = array[np.linalg.norm(array, axis=1) > 0]
    count = len(array)
    if count < 2:
        raise ValueError(f"the mean cosine of {count} vectors is not defined; give at least 2")
    total = np.sum(array, axis=0)  # the sum over all pairs is the square of the sum of all
    return float((total @ total - count) / (count * (count - 1)))


def variance_shares(vectors: ArrayLike) -> np.ndarray:
    """Return the share of the variance that each principal component explains, the largest first.

    Vectors that are all equal have shares of 0.
    """
    array = checked_vectors(vectors)
    values = np.linalg.svd(array - array.mean(axis=0), compute_uv=False) ** 2
    return values / values.sum() if values.sum() > 0 else np.zeros_like(values)


def without_components(vectors: ArrayLike, num_components: int) -> VectorTransform:
    """Return the transform that subtracts the mean and the largest principal components (Mu and Viswanath 2018, §2.1).

    Args:
      vectors: Vectors to fit on, [T, D].
      num_components: Number of components to remove; the paper removes a hundredth of the width.

    Raises:
      ValueError: The number is negative, or as large as the width.
    """
    array = checked_vectors(vectors)
    width = array.shape[1]
    if not 0 <= num_components < width:
        raise ValueError(
            f"num_components is {num_components}; vectors of width {width} have room for 0 to {width - 1}"
        )
    mean = array.mean(axis=0)
    _, _, components = np.linalg.svd(array - mean, full_matrices=False)
    removed = components[:num_components]
    return VectorTransform(mean, np.eye(width) - removed.T @ removed)


def whitening(vectors: ArrayLike, num_dimensions: int | None = None) -> VectorTransform:
    """Return the transform to mean 0 and covariance 1 (Su et al. 2021, §3, https://arxiv.org/abs/2103.15316).

    Directions without variance are left out.

    Args:
      vectors: Vectors to fit on, [T, D].
      num_dimensions: Number of dimensions to keep, those of the largest variance; ``None`` for all.

    Raises:
      ValueError: The number is below 1, or the vectors vary in fewer directions.
    """
    array = checked_vectors(vectors)
    mean = array.mean(axis=0)
    _, values, components = np.linalg.svd(array - mean, full_matrices=False)
    deviations = values / np.sqrt(len(array))
    rank = int(np.sum(deviations > deviations[0] * len(mean) * np.finfo(np.float64).eps))
    if deviations[0] == 0 or (num_dimensions is not None and not 1 <= num_dimensions <= rank):
        raise ValueError(
            f"{len(array)} vectors of width {array.shape[1]} vary in {0 if deviations[0] == 0 else rank} directions, "
            f"and num_dimensions is {num_dimensions}; give more vectors, or a smaller number"
        )
    kept = rank if num_dimensions is None else num_dimensions
    return VectorTransform(mean, components[:kept].T / deviations[:kept])


def alignment(first: ArrayLike, second: ArrayLike, *, alpha: float = 2.0) -> float:
    """Return the mean distance of vectors that belong together (Wang and Isola 2020, §4.1); lower is better.

    Args:
      first: A vector of each pair, [T, D]; scaled to length 1.
      second: Its other vector, [T, D].
      alpha: Power of the distance.

    Raises:
      ValueError: The shapes differ.
    """
    first, second = unit_vectors(first), unit_vectors(second)
    if first.shape != second.shape:
        raise ValueError(
            f"the vectors of pairs have shapes {first.shape} and {second.shape}; give equal ones"
        )
    return float(np.mean(np.linalg.norm(first - second, axis=1) ** alpha))


def uniformity(vectors: ArrayLike, *, t: float = 2.0) -> float:
    """Return the logarithm of the mean Gaussian potential of two vectors (Wang and Isola 2020, §4.1); lower is better.

    Args:
      vectors: Vectors, [T, D]; scaled to length 1.
      t: Factor of the squared distance.

    Raises:
      ValueError: There are fewer than two vectors.
    """
    array = unit_vectors(vectors)
    count = len(array)
    if count < 2:
        raise ValueError(f"the uniformity of {count} vectors is not defined; give at least 2")
    lengths = np.sum(array**2, axis=1)
    total = 0.0
    for start in range(
        0, count, 1024
    ):  # rows of a block at once, so that memory doesn't grow with the square
        block = array[start : start + 1024]
        distances = lengths[start : start + 1024, None] + lengths - 2 * block @ array.T
        potentials = np.exp(-t * np.maximum(distances, 0.0))
        total += float(potentials.sum() - np.trace(potentials[:, start : start + 1024]))
    return float(np.log(total / (count * (count - 1))))
