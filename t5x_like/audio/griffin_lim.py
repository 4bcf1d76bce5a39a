"""Waveforms from log-mel spectra without a trained vocoder, by the fast Griffin-Lim algorithm.

Griffin and Lim 1984, "Signal estimation from modified short-time Fourier transform"; Perraudin et al. 2013, "A fast
Griffin-Lim algorithm" (momentum). The result is understandable and sounds metallic; a neural vocoder sounds better.
"""

import numpy as np

from t5x_like.audio.feature_extractor import SpeechT5FeatureExtractor
from t5x_like.audio.spectrogram import centered, frames_of

ITERATIONS = 32
MOMENTUM = 0.99
_UPDATES = 50  # of magnitudes from mel values
_SMALL = 1e-12


def waveform_of_log_mel(
    log_mel_TM: np.ndarray,
    extractor: SpeechT5FeatureExtractor,
    *,
    iterations: int = ITERATIONS,
    momentum: float = MOMENTUM,
    seed: int = 0,
) -> np.ndarray:
    """Return a waveform whose log-mel spectrum is near a given one, float32 [samples] within -1 and 1.

    Args:
      log_mel_TM: Spectrum as ``extractor.log_mel`` makes it, [frames, num_mel_bins].
      extractor: Options of the spectrum.
      iterations: Times that phases are improved.
      momentum: Share of the last change that is repeated; 0 is the algorithm of 1984.
      seed: Seed of the first phases.

    Raises:
      ValueError: The spectrum has another width, fewer than two frames, or values that are not finite.
    """
    if log_mel_TM.ndim != 2 or log_mel_TM.shape[1] != extractor.num_mel_bins or len(log_mel_TM) < 2:
        raise ValueError(
            f"a spectrum of shape {list(log_mel_TM.shape)} gives no waveform; give at least two frames of "
            f"{extractor.num_mel_bins} values"
        )
    if not np.isfinite(log_mel_TM).all():
        raise ValueError("the spectrum has values that are not finite; a waveform needs finite ones")
    if iterations < 1 or not 0 <= momentum < 1:
        raise ValueError(
            f"iterations={iterations} must be at least 1, and momentum={momentum} from 0 to below 1"
        )
    magnitudes_TF = magnitudes_of_mel(10.0 ** log_mel_TM.astype(np.float64), extractor.filters)
    transform = _Transform(extractor)
    generator = np.random.default_rng(seed)
    phases_TF = np.exp(2j * np.pi * generator.random(magnitudes_TF.shape))
    rebuilt_TF = np.zeros_like(phases_TF)
    for _ in range(iterations):
        last_TF = rebuilt_TF
        rebuilt_TF = transform.forward(transform.inverse(magnitudes_TF * phases_TF))
        phases_TF = rebuilt_TF - momentum / (1 + momentum) * last_TF
        phases_TF /= np.abs(phases_TF) + _SMALL
    samples = transform.inverse(magnitudes_TF * phases_TF)
    return np.clip(samples, -1, 1).astype(np.float32)


def magnitudes_of_mel(mel_TM: np.ndarray, filters_FM: np.ndarray) -> np.ndarray:
    """Return magnitudes that are not negative and whose mel values are near given ones, float64 [frames, frequencies].

    There are fewer mel values than frequencies. The squared error is lowered by multiplicative updates (Lee and Seung
    2001, "Algorithms for non-negative matrix factorization"), from a mixture of the filters.

    Args:
      mel_TM: Mel values, [frames, filters].
      filters_FM: Mel filters, [frequencies, filters].
    """
    sums_TF = mel_TM @ filters_FM.T
    magnitudes_TF = sums_TF / np.maximum(filters_FM.sum(axis=1) ** 2, _SMALL)
    for _ in range(_UPDATES):
        fitted_TM = magnitudes_TF @ filters_FM
        magnitudes_TF = magnitudes_TF * sums_TF / np.maximum(fitted_TM @ filters_FM.T, _SMALL)
    return magnitudes_TF


class _Transform:
    """Short-time Fourier transform of an extractor's frames, and its least-squares inverse."""

    def __init__(self, extractor: SpeechT5FeatureExtractor) -> None:
        self._window, self._hop = extractor.window, extractor.hop
        self._length, self._fft_length = extractor.frame_length, extractor.fft_length

    def forward(self, samples: np.ndarray) -> np.ndarray:
        frames = frames_of(centered(samples, self._length), self._length, self._hop)
        return np.fft.rfft(frames * self._window, self._fft_length)

    def inverse(self, spectrum_TF: np.ndarray) -> np.ndarray:
        frames = np.fft.irfft(spectrum_TF, self._fft_length)[:, : self._length] * self._window
        size = (len(frames) - 1) * self._hop + self._length
        samples, weights = np.zeros(size), np.zeros(size)
        for frame_index, frame in enumerate(frames):
            part = slice(frame_index * self._hop, frame_index * self._hop + self._length)
            samples[part] += frame
            weights[part] += self._window**2
        half = self._length // 2
        inner = slice(half, size - (self._length - half) + self._length % 2)
        return samples[inner] / np.maximum(weights[inner], _SMALL)
