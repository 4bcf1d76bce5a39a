import json

import numpy as np
import pytest

from t5x_like.audio.feature_extractor import PREPROCESSOR_CONFIG, SpeechT5FeatureExtractor
from t5x_like.audio.mel_filters import slaney_hertz, slaney_mel
from tests.references import FIXTURES

SPEECH = FIXTURES / "speech"
CASES = ("default", "other", "slow")
NAMES = ("chirp", "short", "silent")


@pytest.fixture(scope="module")
def reference() -> dict[str, np.ndarray]:
    with np.load(SPEECH / "features.npz") as arrays:
        return dict(arrays)


def samples_of(reference: dict[str, np.ndarray], name: str) -> np.ndarray:
    return reference[f"samples_{name}"].astype(np.float32) / 32_768


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", CASES)
def test_log_mels_are_those_of_transformers(reference, case, name):
    extractor = SpeechT5FeatureExtractor.read(SPEECH / f"{case}.json")
    result = extractor.log_mel(samples_of(reference, name))
    expected = reference[f"{case}.log_mel.{name}"]
    assert (
        result.shape
        == expected.shape
        == (extractor.num_frames(result_length(reference, name)), result.shape[1])
    )
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, atol=1e-5, rtol=0)


def result_length(reference: dict[str, np.ndarray], name: str) -> int:
    return len(reference[f"samples_{name}"])


@pytest.mark.parametrize("name", NAMES)
def test_normalized_waveforms_are_those_of_transformers(reference, name):
    extractor = SpeechT5FeatureExtractor.read(SPEECH / "other.json")
    result = extractor.waveform(samples_of(reference, name))
    np.testing.assert_allclose(result, reference[f"other.waveform.{name}"], atol=1e-5, rtol=0)


def test_padded_waveforms_and_their_mask_are_those_of_transformers(reference):
    extractor = SpeechT5FeatureExtractor.read(SPEECH / "other.json")
    rows = [extractor.waveform(samples_of(reference, name)) for name in NAMES]
    padded = extractor.pad(rows, multiple=64)
    np.testing.assert_allclose(padded.values, reference["padded.values"], atol=1e-5, rtol=0)
    np.testing.assert_array_equal(padded.attention_mask, reference["padded.mask"])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("num_mel_bins", 79),
        ("hop_length", 17),
        ("win_length", 60),
        ("win_function", "hamming"),
        ("fmin", 90.0),
        ("fmax", 7_500.0),
        ("mel_floor", 0.1),
    ],
)
def test_every_option_of_the_spectrum_matters(reference, option, value):
    result = SpeechT5FeatureExtractor(**{option: value}).log_mel(samples_of(reference, "chirp"))
    expected = reference["default.log_mel.chirp"]
    assert result.shape != expected.shape or np.abs(result - expected).max() > 1e-3


def test_a_long_waveform_is_transformed_in_parts_without_a_seam():
    extractor = SpeechT5FeatureExtractor(hop_length=1, num_mel_bins=8)
    samples = np.random.default_rng(0).normal(size=40_000).astype(np.float32)
    whole = extractor.log_mel(samples)
    at = 2_048 * extractor.hop  # the first sample of the second part's middle
    part = extractor.log_mel(samples[at - 1_024 : at + 1_024])
    assert len(whole) == 2_501
    np.testing.assert_allclose(whole[2_048], part[1_024 // extractor.hop], rtol=1e-5, atol=1e-5)


def test_spectra_are_padded_with_a_mask_of_frames():
    extractor = SpeechT5FeatureExtractor(padding_value=-5.0)
    padded = extractor.pad([np.ones((2, 3), np.float32), np.ones((1, 3), np.float32)], length=4)
    assert padded.values.shape == (2, 4, 3)
    assert padded.attention_mask.tolist() == [[1, 1, 0, 0], [1, 0, 0, 0]]
    assert padded.values[1, 1:].tolist() == [[-5.0] * 3] * 3


def test_the_published_file_is_read(tmp_path):
    fields = {"frame_signal_scale": 1.0, "reduction_factor": 2, "processor_class": "SpeechT5Processor"}
    (tmp_path / PREPROCESSOR_CONFIG).write_text(json.dumps({"fmin": 80, "win_length": 64, **fields}))
    assert SpeechT5FeatureExtractor.read(tmp_path) == SpeechT5FeatureExtractor()


@pytest.mark.parametrize("case", CASES)
def test_a_written_file_is_that_of_transformers(tmp_path, case):
    SpeechT5FeatureExtractor.read(SPEECH / f"{case}.json").write(tmp_path)
    assert json.loads((tmp_path / PREPROCESSOR_CONFIG).read_text()) == json.loads(
        (SPEECH / f"{case}.json").read_text()
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"frame_signal_scale": 2.0}, "the field 'frame_signal_scale' with value 2.0 is not known"),
        ({"dither": 0.1}, "the field 'dither'"),
        ({"feature_extractor_type": "WhisperFeatureExtractor"}, "'SpeechT5FeatureExtractor' is read"),
        ({"win_function": "kaiser"}, "no window 'kaiser'; there are hann_window"),
        ({"fmax": 9_000}, "from 0 to half of the sampling rate"),
        ({"num_mel_bins": 900}, "900 mel filters are too narrow for 513 frequencies"),
        ({"num_mel_bins": "many"}, "num_mel_bins"),
        ({"feature_size": 2}, "the field 'feature_size' with value 2"),
        ({"hop_length": 0}, "must be positive"),
    ],
)
def test_fields_that_are_not_known_are_refused_with_the_file(tmp_path, fields, message):
    (tmp_path / PREPROCESSOR_CONFIG).write_text(json.dumps(fields))
    with pytest.raises(ValueError, match=f"{PREPROCESSOR_CONFIG}.*{message}"):
        SpeechT5FeatureExtractor.read(tmp_path)


@pytest.mark.parametrize("samples", [np.zeros(0), np.zeros((5, 2))])
def test_a_waveform_has_one_dimension_and_samples(samples):
    with pytest.raises(ValueError, match="one dimension and at least one sample"):
        SpeechT5FeatureExtractor().log_mel(samples)


def test_a_row_over_the_length_is_refused():
    with pytest.raises(ValueError, match="a row has 5 positions, more than length=4"):
        SpeechT5FeatureExtractor().pad([np.zeros(5)], length=4)
    with pytest.raises(ValueError, match="no rows to pad"):
        SpeechT5FeatureExtractor().pad([])


def test_the_mel_scale_is_undone():
    hertz = np.array([0.0, 500, 1_000, 1_001, 7_600])
    assert slaney_hertz(slaney_mel(hertz)) == pytest.approx(hertz)
    assert slaney_mel(np.array([1_000.0, 6_400.0])) == pytest.approx([15, 42])
