"""SpeechT5's inputs and targets: normalized waveforms, and log-mel spectra (Ao et al. 2022)."""

import dataclasses
import functools
import os
from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from t5x_like.audio.mel_filters import slaney_filters, window_of
from t5x_like.audio.spectrogram import centered, frames_of, magnitudes
from t5x_like.config_class import config_class
from t5x_like.io.files import PathLike, as_path, read_json, write_json

PREPROCESSOR_CONFIG = "preprocessor_config.json"
_VARIANCE_FLOOR = 1e-7


class PaddedFeatures(NamedTuple):
    """Rows of one length.

    Attributes:
      values: float32 [rows, length], or [rows, length, width].
      attention_mask: int32 [rows, length]; 1 for positions with content, and 0 for padding.
    """

    values: np.ndarray
    attention_mask: np.ndarray


@config_class
class SpeechT5FeatureExtractor:
    """Waveforms as inputs, and log-mel spectra as targets, as transformers' class of this name makes them.

    Attributes:
      sampling_rate: Samples per second.
      padding_value: Value of padding.
      padding_side: Side of padding; "right".
      do_normalize: Give each waveform zero mean and unit variance.
      num_mel_bins: Mel filters, the width of a frame.
      hop_length: Milliseconds from one frame to the next.
      win_length: Milliseconds of a frame.
      win_function: Window of a frame; see ``mel_filters.WINDOWS``.
      fmin: Lower end of the filters in Hz.
      fmax: Upper end of the filters in Hz.
      mel_floor: Smallest value before the logarithm.
    """

    sampling_rate: int = 16_000
    padding_value: float = 0.0
    padding_side: Literal["right"] = "right"
    do_normalize: bool = False
    num_mel_bins: int = 80
    hop_length: int = 16
    win_length: int = 64
    win_function: str = "hann_window"
    fmin: float = 80.0
    fmax: float = 7_600.0
    mel_floor: float = 1e-10

    _TYPE: ClassVar[str] = "SpeechT5FeatureExtractor"
    # Further fields of files: those that are written, and those with the only value that is known here.
    _WRITTEN: ClassVar[dict[str, object]] = {"feature_size": 1, "return_attention_mask": True}
    _FIXED: ClassVar[dict[str, object]] = {"feature_size": 1, "frame_signal_scale": 1.0}
    # A mask is always made; the reduction factor is one of the model.
    _OF_OTHERS: ClassVar[tuple[str, ...]] = (
        "feature_extractor_type",
        "processor_class",
        "reduction_factor",
        "return_attention_mask",
        "transformers_version",
    )

    def __post_init__(self) -> None:
        if not 0 <= self.fmin < self.fmax <= self.sampling_rate / 2:
            raise ValueError(
                f"fmin={self.fmin:g} and fmax={self.fmax:g} must be ascending, from 0 to half of the sampling rate "
                f"({self.sampling_rate / 2:g})"
            )
        if self.frame_length < 2 or self.hop < 1 or self.num_mel_bins < 1 or not self.mel_floor > 0:
            raise ValueError(
                f"win_length={self.win_length}, hop_length={self.hop_length} (milliseconds), num_mel_bins="
                f"{self.num_mel_bins} and mel_floor={self.mel_floor} must be positive"
            )
        window_of(self.win_function, self.frame_length)
        _ = self.filters

    @property
    def frame_length(self) -> int:
        """Samples of a frame."""
        return self.win_length * self.sampling_rate // 1_000

    @property
    def hop(self) -> int:
        """Samples from one frame to the next."""
        return self.hop_length * self.sampling_rate // 1_000

    @property
    def fft_length(self) -> int:
        """Length of the Fourier transform, the next power of two."""
        return 1 << (self.frame_length - 1).bit_length()

    @property
    def filters(self) -> np.ndarray:
        """Mel filters, float64 [frequencies, num_mel_bins]."""
        num_bins = self.fft_length // 2 + 1
        return _filters(self.num_mel_bins, num_bins, self.sampling_rate, self.fmin, self.fmax)

    @property
    def window(self) -> np.ndarray:
        """Factors of the samples of a frame, float64 [frame_length]."""
        return window_of(self.win_function, self.frame_length)

    def num_frames(self, num_samples: int) -> int:
        """Return the number of frames of a waveform."""
        return 1 + (num_samples - self.frame_length % 2) // self.hop

    def waveform(self, samples: np.ndarray) -> np.ndarray:
        """Return a waveform as a model reads it, float32 [samples]; normalized if ``do_normalize`` says so."""
        samples = _checked(samples)
        if not self.do_normalize:
            return samples
        wide = samples.astype(np.float64)
        return ((wide - wide.mean()) / np.sqrt(wide.var() + _VARIANCE_FLOOR)).astype(np.float32)

    def log_mel(self, samples: np.ndarray) -> np.ndarray:
        """Return the logarithms (base 10) of mel-filtered magnitudes, float32 [frames, num_mel_bins]."""
        frames = frames_of(centered(_checked(samples), self.frame_length), self.frame_length, self.hop)
        filters = self.filters
        mel = [part @ filters for part in magnitudes(frames, self.window, self.fft_length)]
        return np.log10(np.maximum(np.concatenate(mel), self.mel_floor)).astype(np.float32)

    def pad(
        self, rows: Sequence[np.ndarray], *, length: int | None = None, multiple: int = 1
    ) -> PaddedFeatures:
        """Return rows of different lengths as one array, with its mask.

        Args:
          rows: Arrays of ``waveform`` or of ``log_mel``.
          length: Length of the result; None for that of the longest row.
          multiple: The result's length is rounded up to a multiple of it.

        Raises:
          ValueError: There is no row, or one is longer than ``length``.
        """
        if not rows:
            raise ValueError("there are no rows to pad; give at least one waveform or spectrum")
        longest = max(map(len, rows))
        if length is not None and longest > length:
            raise ValueError(
                f"a row has {longest} positions, more than length={length}; cut it, or raise length"
            )
        padded_length = -(-(length or longest) // multiple) * multiple
        values = np.full((len(rows), padded_length, *rows[0].shape[1:]), self.padding_value, np.float32)
        mask = np.zeros((len(rows), padded_length), np.int32)
        for row_index, row in enumerate(rows):
            values[row_index, : len(row)] = row
            mask[row_index, : len(row)] = 1
        return PaddedFeatures(values, mask)

    @classmethod
    def read(cls, path: PathLike) -> "SpeechT5FeatureExtractor":
        """Read a ``preprocessor_config.json``.

        Args:
          path: The file, or the folder that holds it.

        Raises:
          ValueError: It is another kind of file, or has a field that isn't known here.
        """
        file = as_path(path)
        file = file / PREPROCESSOR_CONFIG if file.is_dir() else file
        values, name = read_json(file, dict), os.fspath(file)
        kind = values.get("feature_extractor_type", cls._TYPE)
        if kind != cls._TYPE:
            raise ValueError(f"{name} is for feature_extractor_type {kind!r}; {cls._TYPE!r} is read")
        names = {field.name for field in dataclasses.fields(cls)}
        for field, value in values.items():
            if field in names or field in cls._OF_OTHERS:
                continue
            if field not in cls._FIXED or value != cls._FIXED[field]:
                raise ValueError(f"{name}: the field {field!r} with value {value!r} is not known; remove it")
        try:
            return cls(**{field: value for field, value in values.items() if field in names})
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def write(self, folder: PathLike) -> None:
        """Write ``preprocessor_config.json``, which transformers reads, into a folder."""
        values = {"feature_extractor_type": self._TYPE, **self._WRITTEN, **dataclasses.asdict(self)}
        write_json(as_path(folder) / PREPROCESSOR_CONFIG, dict(sorted(values.items())))


@functools.lru_cache(maxsize=16)
def _filters(num_filters: int, num_bins: int, sampling_rate: int, fmin: float, fmax: float) -> np.ndarray:
    filters = slaney_filters(
        num_filters, num_bins=num_bins, sampling_rate=sampling_rate, fmin=fmin, fmax=fmax
    )
    filters.setflags(write=False)
    return filters


def _checked(samples: np.ndarray) -> np.ndarray:
    if samples.ndim != 1 or not samples.size:
        raise ValueError(
            f"a waveform has one dimension and at least one sample; this one has shape {list(samples.shape)}"
        )
    return samples.astype(np.float32, copy=False)
