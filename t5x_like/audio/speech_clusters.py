"""Clusters of frames, whose numbers are the targets of pretraining on speech (Hsu et al. 2021, HuBERT, section II-A).

The first clusters are those of MFCC, and later ones those of a model's hidden states. SpeechT5 is pretrained on 500
clusters of a layer of HuBERT (Ao et al. 2022). Both kinds of features are read from a ``FeatureCache``.
"""

import io
import os
from collections.abc import Iterable, Iterator

import numpy as np

from t5x_like.audio.feature_cache import FeatureCache
from t5x_like.config_class import config_class
from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.files import PathLike, as_path, read_jsonl, write_bytes, write_jsonl

NO_CLUSTER = -1  # of frames without a label
_FRAMES_AT_ONCE = 8_192


@config_class
class ClusterOptions:
    """Options of k-means; the defaults are those of HuBERT's first iteration.

    Attributes:
      num_clusters: Number of clusters; 100 for MFCC, 500 for hidden states.
      share: Share of the recordings that clusters are fitted to; HuBERT's was 0.1 of 960 hours for hidden states.
      seed: Seed of the recordings and of the first centers.
      batch_size: Frames of a step.
      num_starts: First centers that are tried; the best are kept.
      max_epochs: Most passes over the frames.
    """

    num_clusters: int = 100
    share: float = 1.0
    seed: int = 0
    batch_size: int = 10_000
    num_starts: int = 20
    max_epochs: int = 100

    def __post_init__(self) -> None:
        if self.num_clusters < 2 or not 0 < self.share <= 1:
            raise ValueError(
                f"num_clusters={self.num_clusters} must be at least 2, and share={self.share} above 0 and at most 1"
            )


class SpeechClusters:
    """Centers of clusters.

    Attributes:
      centers: float32 [clusters, width].
    """

    def __init__(self, centers: np.ndarray) -> None:
        """Keep centers, float [clusters, width]."""
        self.centers = centers.astype(np.float32)

    def assign(self, frames: np.ndarray) -> np.ndarray:
        """Return the number of the nearest center of each frame, int32 [frames].

        Raises:
          ValueError: Frames have another width than the centers.
        """
        if frames.ndim != 2 or frames.shape[1] != self.centers.shape[1]:
            raise ValueError(
                f"frames of shape {list(frames.shape)} have no cluster here; centers have width "
                f"{self.centers.shape[1]}, so give the features that they were fitted to"
            )
        centers = self.centers.astype(np.float64)
        norms = (centers**2).sum(axis=1)
        parts = [
            np.argmin(norms - 2 * frames[start : start + _FRAMES_AT_ONCE] @ centers.T, axis=1)
            for start in range(0, len(frames), _FRAMES_AT_ONCE)
        ]
        return np.concatenate(parts).astype(np.int32) if parts else np.zeros(0, np.int32)

    def write(self, path: PathLike) -> None:
        """Write the centers as an ``.npz`` file."""
        buffer = io.BytesIO()
        np.savez(buffer, centers=self.centers)
        write_bytes(path, buffer.getvalue())

    @classmethod
    def read(cls, path: PathLike) -> "SpeechClusters":
        """Read centers from an ``.npz`` file.

        Raises:
          ValueError: It is another kind of file, or damaged.
        """
        with (
            refusing_damage(path),
            np.load(io.BytesIO(as_path(path).read_bytes()), allow_pickle=False) as arrays,
        ):
            if "centers" not in arrays or arrays["centers"].ndim != 2:
                raise ValueError(
                    f"{os.fspath(path)} has no centers of clusters; write them by SpeechClusters.write"
                )
            return cls(arrays["centers"])


def fit_clusters(
    cache: FeatureCache, feature: str = "mfcc", options: ClusterOptions | None = None
) -> SpeechClusters:
    """Fit clusters to the frames of a cache, by scikit-learn's k-means on small batches.

    Args:
      cache: Features of recordings, [frames, width] each.
      feature: Name of the feature, such as "mfcc", "log_mel", or a name for hidden states.
      options: Options of k-means.

    Raises:
      ValueError: The cache has no such feature, or fewer frames than clusters.
    """
    from sklearn.cluster import MiniBatchKMeans

    options = options or ClusterOptions()
    num_rows = max(1, round(options.share * len(cache)))
    cache.lengths(feature)  # refuses other names
    generator = np.random.default_rng(options.seed)
    chosen = np.sort(generator.permutation(len(cache))[:num_rows]).tolist()
    frames = np.concatenate([cache[row_index][feature] for row_index in chosen])
    if frames.ndim != 2 or len(frames) < options.num_clusters:
        raise ValueError(
            f"{options.num_clusters} clusters need at least as many frames; {num_rows} recordings have features of "
            f"shape {list(frames.shape)}. Set fewer num_clusters or a larger share, or take another feature"
        )
    means = MiniBatchKMeans(
        n_clusters=options.num_clusters,
        init="k-means++",
        max_iter=options.max_epochs,
        batch_size=options.batch_size,
        n_init=options.num_starts,  # pyright: ignore[reportArgumentType] - its stub knows the default alone
        tol=0.0,
        max_no_improvement=100,
        reassignment_ratio=0.0,
        random_state=options.seed,
        compute_labels=False,
    )
    means.fit(frames)
    return SpeechClusters(np.asarray(means.cluster_centers_, np.float32))


def cluster_ids(cache: FeatureCache, clusters: SpeechClusters, feature: str = "mfcc") -> Iterator[np.ndarray]:
    """Yield the numbers of the clusters of each row's frames, int32 [frames].

    Args:
      cache: Features of recordings.
      clusters: Clusters of this feature.
      feature: Name of the feature.
    """
    for row_index in range(len(cache)):
        yield clusters.assign(cache[row_index][feature])


def write_cluster_ids(
    path: PathLike, cache: FeatureCache, ids: Iterable[np.ndarray], *, label_rate: float
) -> None:
    """Write a table of recordings with the numbers of their clusters, as JSONL.

    Args:
      path: File of the table; paths of recordings in it are those of the cache.
      cache: Recordings.
      ids: Numbers of each row, as ``cluster_ids`` yields them.
      label_rate: Frames per second, such as 100 for MFCC.
    """
    write_jsonl(
        path,
        (
            {"audio": row.audio, "text": row.text, "label_rate": label_rate, "clusters": each.tolist()}
            for row, each in zip(cache.rows, ids, strict=True)
        ),
    )


def read_cluster_ids(path: PathLike) -> list[tuple[str, float, np.ndarray]]:
    """Return the recording, the label rate and the numbers, int32 [frames], of each row of such a table.

    Raises:
      ValueError: A line is no such row; names file and line.
    """
    rows = []
    for line, value in enumerate(read_jsonl(path), start=1):
        try:
            rows.append(
                (str(value["audio"]), float(value["label_rate"]), np.array(value["clusters"], np.int32))
            )
        except (TypeError, KeyError, ValueError):
            raise ValueError(
                f"{os.fspath(path)}:{line}: no row of clusters; it needs audio, label_rate and clusters, a list of "
                "whole numbers"
            ) from None
    return rows


def align_clusters(ids: np.ndarray, num_frames: int, *, label_rate: float, frame_rate: float) -> np.ndarray:
    """Return the cluster at each frame of a model, int32 [num_frames]; -1 for frames after the last label.

    HuBERT's encoder has 50 frames per second, so every second label of MFCC counts.

    Args:
      ids: Clusters of labels.
      num_frames: Frames of the model.
      label_rate: Labels per second.
      frame_rate: Frames of the model per second.
    """
    places = np.floor(np.arange(num_frames) * (label_rate / frame_rate) + 1e-6).astype(np.int64)
    aligned = np.full(num_frames, NO_CLUSTER, np.int32)
    is_labeled = places < len(ids)
    aligned[is_labeled] = ids[places[is_labeled]]
    return aligned
