import json

import numpy as np
import pytest
import soundfile
from sklearn.metrics import adjusted_rand_score

from t5x_like.audio.feature_cache import FeatureCache
from t5x_like.audio.feature_caching import cache_features
from t5x_like.audio.speech_clusters import (
    ClusterOptions,
    SpeechClusters,
    align_clusters,
    cluster_ids,
    fit_clusters,
    read_cluster_ids,
    write_cluster_ids,
)
from t5x_like.audio.speech_features import SpeechFeatures
from t5x_like.audio.spoken_text import SpokenText
from tests.audio.conftest import sine

TONES = (300, 1_000, 3_000)
MFCC = SpeechFeatures(names=("mfcc",))


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> FeatureCache:
    """Six recordings of three tones in different orders, with noise."""
    folder = tmp_path_factory.mktemp("tones")
    generator = np.random.default_rng(0)
    rows = []
    for index in range(6):
        order = np.roll(TONES, index)
        samples = np.concatenate([sine(tone, seconds=0.2) for tone in order])
        file = folder / f"{index}.wav"
        soundfile.write(file, samples + 0.001 * generator.normal(size=samples.size), 16_000)
        rows.append(SpokenText(str(file), " ".join(map(str, order)), 0.6, f"t.jsonl:{index + 1}", {}))
    return cache_features(rows, MFCC, folder / "cache", settings=MFCC.fingerprint)


@pytest.fixture(scope="module")
def clusters(cache) -> SpeechClusters:
    return fit_clusters(cache, options=ClusterOptions(num_clusters=8))


def inner_frames(ids: np.ndarray) -> np.ndarray:
    """Frames that hear one tone alone, of each tone."""
    return np.stack([ids[20 * part + 4 : 20 * part + 14] for part in range(3)])


def test_clusters_tell_tones_apart(cache, clusters):
    labels, ids = [], []
    for row, each in zip(cache.rows, cluster_ids(cache, clusters), strict=True):
        assert row.text is not None
        labels += np.repeat([int(tone) for tone in row.text.split()], 10).tolist()
        ids += inner_frames(each).ravel().tolist()
    assert adjusted_rand_score(labels, ids) > 0.9


def test_a_frame_is_in_the_cluster_of_the_nearest_center(cache, clusters):
    frames = np.asarray(cache[0]["mfcc"])
    distances = np.linalg.norm(frames[:, None] - clusters.centers[None], axis=-1)
    np.testing.assert_array_equal(clusters.assign(frames), distances.argmin(axis=1))
    assert clusters.assign(frames[:0]).shape == (0,)


def test_the_seed_decides_the_centers(cache, clusters):
    again = fit_clusters(cache, options=ClusterOptions(num_clusters=8))
    np.testing.assert_array_equal(again.centers, clusters.centers)
    part = fit_clusters(cache, options=ClusterOptions(num_clusters=8, share=0.4))
    assert np.abs(part.centers - clusters.centers).max() > 0.1


def test_centers_are_read_as_they_were_written(tmp_path, clusters):
    clusters.write(tmp_path / "clusters.npz")
    np.testing.assert_array_equal(SpeechClusters.read(tmp_path / "clusters.npz").centers, clusters.centers)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive"])
def test_a_damaged_file_of_centers_is_refused_by_name(tmp_path, content):
    (tmp_path / "clusters.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"clusters\.npz is damaged"):
        SpeechClusters.read(tmp_path / "clusters.npz")


def test_a_file_of_other_arrays_is_refused_by_name(tmp_path):
    np.savez(tmp_path / "clusters.npz", weights=np.zeros(3))
    with pytest.raises(ValueError, match=r"clusters\.npz has no centers of clusters"):
        SpeechClusters.read(tmp_path / "clusters.npz")


def test_a_table_of_clusters_is_written_and_read(tmp_path, cache, clusters):
    ids = list(cluster_ids(cache, clusters))
    write_cluster_ids(tmp_path / "ids.jsonl", cache, ids, label_rate=100)
    first = json.loads((tmp_path / "ids.jsonl").read_text().splitlines()[0])
    assert (first["text"], first["clusters"]) == (cache.rows[0].text, ids[0].tolist())
    for row, expected, (audio, rate, each) in zip(
        cache.rows, ids, read_cluster_ids(tmp_path / "ids.jsonl"), strict=True
    ):
        assert (audio, rate) == (row.audio, 100)
        np.testing.assert_array_equal(each, expected)


def test_a_line_that_has_no_clusters_is_named(tmp_path):
    (tmp_path / "ids.jsonl").write_text('{"audio": "a", "label_rate": 50, "clusters": [1]}\n{"audio": "b"}\n')
    with pytest.raises(ValueError, match=r"ids\.jsonl:2: no row of clusters; it needs audio, label_rate"):
        read_cluster_ids(tmp_path / "ids.jsonl")


def test_every_second_label_of_mfcc_belongs_to_a_frame_of_hubert():
    aligned = align_clusters(np.arange(9), 6, label_rate=100, frame_rate=50)
    assert aligned.tolist() == [0, 2, 4, 6, 8, -1]
    assert align_clusters(np.arange(3), 3, label_rate=50, frame_rate=50).tolist() == [0, 1, 2]
    assert align_clusters(np.arange(3), 6, label_rate=50, frame_rate=100).tolist() == [0, 0, 1, 1, 2, 2]


def test_frames_of_another_width_are_refused(clusters):
    with pytest.raises(
        ValueError, match=r"frames of shape \[4, 80\] have no cluster here; centers have width 39"
    ):
        clusters.assign(np.zeros((4, 80)))


def test_more_clusters_than_frames_are_refused(cache):
    with pytest.raises(ValueError, match=r"500 clusters need at least as many frames; 6 recordings"):
        fit_clusters(cache, options=ClusterOptions(num_clusters=500))
    with pytest.raises(ValueError, match="has no feature 'states'; it has mfcc"):
        fit_clusters(cache, "states")


@pytest.mark.parametrize("options", [{"num_clusters": 1}, {"share": 0.0}, {"share": 1.5}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match="must be at least 2"):
        ClusterOptions(**options)
