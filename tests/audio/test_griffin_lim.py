import numpy as np
import pytest

from t5x_like.audio.audio_files import read_audio, write_wav
from t5x_like.audio.feature_extractor import SpeechT5FeatureExtractor
from t5x_like.audio.griffin_lim import magnitudes_of_mel, waveform_of_log_mel
from t5x_like.audio.spectrogram import centered, frames_of, magnitudes

EXTRACTORS = [
    SpeechT5FeatureExtractor(),
    SpeechT5FeatureExtractor(win_length=25, hop_length=10, num_mel_bins=40),
    SpeechT5FeatureExtractor(sampling_rate=11_025, fmax=5_000.0),  # frames of 705 samples, 176 apart
]


def vowel(rate: int = 16_000) -> np.ndarray:
    """Harmonics of a voice that rises, in two bursts."""
    time = np.arange(rate // 3) / rate
    phase = 2 * np.pi * (120 * time + 30 * time**2)
    harmonics = sum(np.sin(k * phase) / k for k in range(1, 20))
    return (0.2 * harmonics * np.abs(np.sin(6 * np.pi * time))).astype(np.float32)


def error(log_mel: np.ndarray, other: np.ndarray) -> float:
    """Relative error of mel values."""
    return float(np.linalg.norm(10.0**other - 10.0**log_mel) / np.linalg.norm(10.0**log_mel))


@pytest.mark.parametrize("extractor", EXTRACTORS)
def test_the_spectrum_of_the_waveform_is_near(extractor):
    log_mel = extractor.log_mel(vowel(extractor.sampling_rate))
    again = extractor.log_mel(waveform_of_log_mel(log_mel, extractor))
    assert again.shape == log_mel.shape
    assert error(log_mel, again) < 0.1


def test_iterations_and_momentum_bring_it_nearer():
    extractor = EXTRACTORS[0]
    log_mel = extractor.log_mel(vowel())

    def result(**options: float) -> float:
        return error(log_mel, extractor.log_mel(waveform_of_log_mel(log_mel, extractor, **options)))

    assert result() < result(momentum=0.0) < result(iterations=1)


def test_the_waveform_depends_on_the_seed_alone():
    extractor = EXTRACTORS[0]
    log_mel = extractor.log_mel(vowel())[:9]
    first, again, other = (
        waveform_of_log_mel(log_mel, extractor, iterations=2, seed=seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.01


def test_it_can_be_listened_to(tmp_path):
    extractor = EXTRACTORS[0]
    samples = waveform_of_log_mel(extractor.log_mel(vowel()), extractor)
    write_wav(tmp_path / "voice.wav", samples, extractor.sampling_rate)
    assert read_audio(tmp_path / "voice.wav").samples == pytest.approx(samples, abs=1e-4)


def test_magnitudes_of_mel_values_have_these_mel_values():
    extractor = EXTRACTORS[0]
    frames = frames_of(centered(vowel(), 1_024), 1_024, 256)
    mel = np.concatenate(list(magnitudes(frames, extractor.window, 1_024))) @ extractor.filters
    result = magnitudes_of_mel(mel, extractor.filters)
    assert result.min() >= 0
    assert np.linalg.norm(result @ extractor.filters - mel) < 0.03 * np.linalg.norm(mel)


@pytest.mark.parametrize(
    ("log_mel", "options", "message"),
    [
        (np.zeros((5, 79)), {}, "at least two frames of 80 values"),
        (np.zeros((1, 80)), {}, "at least two frames of 80 values"),
        (np.full((5, 80), np.nan), {}, "not finite"),
        (np.zeros((5, 80)), {"iterations": 0}, "iterations=0 must be at least 1"),
        (np.zeros((5, 80)), {"momentum": 1.0}, "momentum=1.0 from 0 to below 1"),
    ],
)
def test_what_is_no_spectrum_is_refused(log_mel, options, message):
    with pytest.raises(ValueError, match=message):
        waveform_of_log_mel(log_mel, EXTRACTORS[0], **options)
