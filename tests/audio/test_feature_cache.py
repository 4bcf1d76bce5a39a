from pathlib import Path

import numpy as np
import pytest
import soundfile

from t5x_like.audio.audio_options import AudioOptions
from t5x_like.audio.feature_cache import FeatureCache
from t5x_like.audio.feature_caching import cache_features
from t5x_like.audio.feature_extractor import SpeechT5FeatureExtractor
from t5x_like.audio.speech_features import SpeechFeatures
from t5x_like.audio.spoken_text import SpokenText
from tests.audio.conftest import sine

FEATURES = SpeechFeatures(names=("log_mel", "waveform", "mfcc"))


@pytest.fixture
def rows(tmp_path) -> list[SpokenText]:
    results = []
    for index in range(5):
        file = tmp_path / f"{index}.wav"
        soundfile.write(file, sine(300 + 50 * index, seconds=0.1 + 0.02 * index), 16_000)
        location, cells = f"train.jsonl:{index + 1}", {"audio": file.name, "text": f"word {index}"}
        results.append(SpokenText(str(file), f"word {index}", 0.1 + 0.02 * index, location, cells))
    return results


def make(rows, folder, compute=FEATURES, **options) -> FeatureCache:
    return cache_features(
        rows, compute, folder, **{"settings": FEATURES.fingerprint, "shard_rows": 2, **options}
    )


def files_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_cache_returns_the_features_of_each_row(rows, tmp_path):
    cache = make(rows, tmp_path / "cache")
    assert (len(cache), cache.rows, cache.names) == (5, rows, ("log_mel", "waveform", "mfcc"))
    for index in (4, 0, 3, 2, 1):
        expected = FEATURES(rows[index].audio)
        for name, values in cache[index].items():
            np.testing.assert_array_equal(values, expected[name])
            assert cache.lengths(name)[index] == len(expected[name])


def test_worker_processes_write_the_same_files(rows, tmp_path):
    make(rows, tmp_path / "one")
    make(rows, tmp_path / "two", num_workers=1)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


def test_a_finished_cache_is_opened_again_without_work(rows, tmp_path):
    make(rows, tmp_path / "cache")
    assert len(make(rows, tmp_path / "cache", compute=refuse)) == 5


def refuse(file: str) -> dict[str, np.ndarray]:
    raise AssertionError(file)


class Stopping:
    """Computes some recordings, and then stops as Ctrl-C does."""

    def __init__(self, num_recordings: int) -> None:
        self.left = num_recordings
        self.files: list[str] = []

    def __call__(self, file: str) -> dict[str, np.ndarray]:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        self.files.append(Path(file).name)
        return FEATURES(file)


def test_a_cache_that_was_stopped_continues_after_its_last_whole_shard(rows, tmp_path):
    make(rows, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        make(rows, tmp_path / "cache", compute=Stopping(3))
    with pytest.raises(ValueError, match=r"is no finished cache of features: it has no manifest\.json"):
        FeatureCache(tmp_path / "cache")
    rest = Stopping(9)
    make(rows, tmp_path / "cache", compute=rest)
    assert rest.files == ["2.wav", "3.wav", "4.wav"]
    assert files_of(tmp_path / "cache") == files_of(tmp_path / "whole")


@pytest.mark.parametrize("name", ["00001.log_mel.npy", "00001.jsonl"])
def test_damage_is_refused_by_name_and_repaired_by_making_the_cache(rows, tmp_path, name):
    make(rows, tmp_path / "cache")
    whole = files_of(tmp_path / "cache")
    content = bytearray(whole[name])
    content[-2] ^= 1
    (tmp_path / "cache" / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name} is damaged"):
        FeatureCache(tmp_path / "cache")[2]
    again = Stopping(2)
    make(rows, tmp_path / "cache", compute=again)
    assert again.files == ["2.wav", "3.wav"]
    assert files_of(tmp_path / "cache") == whole


def test_a_missing_file_and_a_changed_manifest_are_refused(rows, tmp_path):
    make(rows, tmp_path / "cache")
    (tmp_path / "cache/00000.waveform.npy").unlink()
    with pytest.raises(ValueError, match=r"00000\.waveform\.npy is missing; copy it again"):
        FeatureCache(tmp_path / "cache")[0]
    manifest = tmp_path / "cache/manifest.json"
    manifest.write_text(manifest.read_text().replace('"num_rows": 2', '"num_rows": 3', 1))
    with pytest.raises(ValueError, match=r"manifest\.json is damaged"):
        FeatureCache(tmp_path / "cache")


def test_other_settings_or_recordings_are_refused(rows, tmp_path):
    make(rows, tmp_path / "cache")
    other = SpeechFeatures(extractor=SpeechT5FeatureExtractor(hop_length=10))
    with pytest.raises(
        ValueError, match=r"(?s)extractor: the cache has .*hop_length=16.*you ask for .*hop_length=10"
    ):
        make(rows, tmp_path / "cache", compute=other, settings=other.fingerprint)
    soundfile.write(rows[0].audio, sine(800, seconds=0.1), 16_000)  # as many bytes, other samples
    with pytest.raises(ValueError, match="content: the cache has"):
        make(rows, tmp_path / "cache")


def test_a_folder_of_other_files_is_left_alone(rows, tmp_path):
    with pytest.raises(
        ValueError, match=r"holds other files \(0\.wav, 1\.wav, 2\.wav\); choose another folder"
    ):
        make(rows, tmp_path)


def test_a_bad_recording_is_refused_with_its_line_or_left_out(rows, tmp_path, caplog):
    soundfile.write(rows[1].audio, np.zeros(900), 16_000)
    with pytest.raises(ValueError, match=r"train\.jsonl:2: .*1\.wav: it is silent"):
        make(rows, tmp_path / "cache")
    cache = make(rows, tmp_path / "other", on_bad="skip")
    assert ([row.text for row in cache.rows], cache.num_skipped) == (
        ["word 0", "word 2", "word 3", "word 4"],
        1,
    )
    assert "recordings that are left out: 1; train.jsonl:2" in caplog.text
    np.testing.assert_array_equal(cache[1]["log_mel"], FEATURES(rows[2].audio)["log_mel"])


def test_a_shard_without_a_good_recording_is_left_out(rows, tmp_path):
    for row in rows[:2]:
        soundfile.write(row.audio, np.zeros(900), 16_000)
    cache = make(rows, tmp_path / "cache", on_bad="skip")
    np.testing.assert_array_equal(cache[0]["waveform"], FEATURES(rows[2].audio)["waveform"])
    with pytest.raises(ValueError, match="none of 2 recordings can be read"):
        make(rows[:2], tmp_path / "none", on_bad="skip")


def test_a_feature_that_is_not_cached_is_named(rows, tmp_path):
    with pytest.raises(ValueError, match="has no feature 'states'; it has log_mel, waveform, mfcc"):
        make(rows, tmp_path / "cache").lengths("states")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ()}, "must be some of waveform, log_mel, mfcc"),
        ({"names": ("mfcc", "mfcc")}, "each once"),
        ({"options": AudioOptions(sampling_rate=8_000)}, "set both sampling_rate alike"),
    ],
)
def test_features_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SpeechFeatures(**options)
