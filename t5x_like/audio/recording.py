"""A recording as an array of samples that is read when it is needed."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from t5x_like.audio.audio_files import read_header
from t5x_like.audio.speech_features import SpeechFeatures


class Recording:
    """Samples of an audio file as a model reads them, float32 [samples]; ``numpy.asarray`` reads the file.

    Args:
      path: WAV or FLAC file.
      features: Function from its path to its waveform.
      min_seconds: Shortest recording.
      max_seconds: Longest recording.

    Raises:
      ValueError: There is no such file, its options refuse it, or it is shorter or longer.
    """

    def __init__(
        self, path: str, features: SpeechFeatures, *, min_seconds: float, max_seconds: float
    ) -> None:
        self._path, self._features = path, features
        seconds = read_header(path, features.options).seconds
        if not min_seconds <= seconds <= max_seconds:
            raise ValueError(
                f"{path} has {seconds:.2f} seconds; from min_seconds={min_seconds:g} to "
                f"max_seconds={max_seconds:g} are read"
            )
        self._num_samples = round(seconds * features.options.sampling_rate)

    def __len__(self) -> int:
        return self._num_samples

    def __getitem__(self, index: Any) -> Any:
        return np.asarray(self)[index]

    def __iter__(self) -> Iterator[float]:
        return iter(np.asarray(self).tolist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the samples; resampling may have rounded their number otherwise than the header's length."""
        read = self._features(self._path)["waveform"][: self._num_samples]
        return np.pad(read, (0, self._num_samples - len(read))).astype(dtype or np.float32)
