"""Splits of neurons into experts of equal sizes."""

import numpy as np
from scipy.optimize import linear_sum_assignment

_ITERATIONS = 8  # of k-means; the loss of a split hardly changes after a few


def balanced_clusters(points: np.ndarray, num_clusters: int, rng: np.random.Generator) -> np.ndarray:
    """Return the cluster of each point by k-means with clusters of equal sizes (Malinen and Fränti 2014).

    Points are assigned to places in clusters by the Hungarian algorithm. Its time grows with the cube of their number.

    Args:
      points: Points, [T, D].
      num_clusters: Number of clusters, which divides that of points.
      rng: Draws the first centers.

    Raises:
      ValueError: The number of points is no multiple of that of clusters.
    """
    count = len(points)
    if not 1 <= num_clusters <= count or count % num_clusters:
        raise ValueError(f"{count} neurons can't be split into {num_clusters} experts of equal sizes")
    size = count // num_clusters
    points = np.asarray(points, np.float64)
    centers = points[rng.permutation(count)[:num_clusters]]
    clusters = np.zeros(count, np.int32)
    for _ in range(_ITERATIONS):
        distances = np.sum(centers**2, axis=1) - 2.0 * points @ centers.T
        places = linear_sum_assignment(np.repeat(distances, size, axis=1))[1]
        before, clusters = clusters, (places // size).astype(np.int32)
        if np.array_equal(before, clusters):
            break
        centers = np.stack([points[clusters == each].mean(axis=0) for each in range(num_clusters)])
    return clusters


def coactivation_clusters(
    coactivation: np.ndarray, num_clusters: int, rng: np.random.Generator
) -> np.ndarray:
    """Return clusters of neurons that are active for the same tokens.

    Neurons are points in the first eigenvectors of the normalized graph (Ng et al. 2001), and clusters are balanced.

    Args:
      coactivation: Number of tokens for which both neurons of a pair are active, [F, F].
      num_clusters: Number of clusters.
      rng: Draws the first centers.
    """
    graph = np.array(coactivation, np.float64)
    np.fill_diagonal(graph, 0.0)
    scales = 1.0 / np.sqrt(np.maximum(graph.sum(axis=1), 1.0))
    _, vectors = np.linalg.eigh(scales[:, None] * graph * scales)
    points = vectors[:, -min(num_clusters, len(graph)) :]
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return balanced_clusters(points / np.where(lengths > 0, lengths, 1.0), num_clusters, rng)


def random_clusters(num_points: int, num_clusters: int, rng: np.random.Generator) -> np.ndarray:
    """Return random clusters of equal sizes.

    Args:
      num_points: Number of points.
      num_clusters: Number of clusters, which divides it.
      rng: Draws them.
    """
    return rng.permutation(np.arange(num_points, dtype=np.int32) % num_clusters)
