import numpy as np
import pytest

from t5x_like.audio.mfcc import MFCC_WIDTH, differences, mfcc, mfcc_with_differences
from tests.references import FIXTURES


def test_coefficients_are_those_of_kaldi():
    with np.load(FIXTURES / "speech/features.npz") as arrays:
        samples, expected = arrays["samples_chirp"].astype(np.float32), arrays["mfcc.chirp"]
    np.testing.assert_allclose(mfcc(samples, 16_000), expected, atol=2e-3, rtol=0)


def test_differences_are_slopes():
    rows = np.arange(10, dtype=np.float32)[:, None] * np.array([[1.0, -3.0]], np.float32)
    assert differences(rows)[2:-2] == pytest.approx(np.tile([1.0, -3.0], (6, 1)))
    assert differences(rows)[0] == pytest.approx([0.5, -1.5])  # the first frame is repeated before the start


def test_hubert_reads_39_numbers_of_a_frame():
    result = mfcc_with_differences(np.random.default_rng(0).normal(size=1_600), 16_000)
    assert result.shape == (8, MFCC_WIDTH)
    np.testing.assert_array_equal(result[:, 13:26], differences(result[:, :13]))
    np.testing.assert_array_equal(result[:, 26:], differences(result[:, 13:26]))


def test_a_waveform_shorter_than_a_frame_is_refused():
    with pytest.raises(ValueError, match="399 samples is shorter than a frame of 400"):
        mfcc(np.zeros(399), 16_000)
