"""Features of one recording by name, as a function that worker processes can call."""

from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np

from t5x_like.audio.audio_files import decode_audio
from t5x_like.audio.audio_options import AudioOptions
from t5x_like.audio.feature_extractor import SpeechT5FeatureExtractor
from t5x_like.audio.mfcc import mfcc_with_differences
from t5x_like.config_class import config_class

FeatureName = Literal["waveform", "log_mel", "mfcc"]
FEATURE_NAMES: tuple[str, ...] = get_args(FeatureName)


@config_class
class SpeechFeatures:
    """Features of a recording: SpeechT5's inputs and targets, and what HuBERT's first clusters are made of.

    Attributes:
      names: "waveform" [samples], "log_mel" [frames, mel bins], "mfcc" [frames, 39].
      extractor: Options of waveforms and log-mel spectra.
      options: Treatment of files with other channels or rates, or silence.
    """

    names: tuple[FeatureName, ...] = ("waveform", "log_mel")
    extractor: SpeechT5FeatureExtractor = SpeechT5FeatureExtractor()
    options: AudioOptions = AudioOptions()

    def __post_init__(self) -> None:
        if not self.names or len(set(self.names)) < len(self.names):
            raise ValueError(f"names={self.names!r} must be some of {', '.join(FEATURE_NAMES)}, each once")
        if self.extractor.sampling_rate != self.options.sampling_rate:
            raise ValueError(
                f"the extractor reads {self.extractor.sampling_rate} samples per second, and files are read at "
                f"{self.options.sampling_rate}; set both sampling_rate alike"
            )

    @property
    def fingerprint(self) -> Mapping[str, str]:
        """Settings that decide the features, one line each."""
        return {
            "features": ", ".join(self.names),
            "extractor": repr(self.extractor),
            "reading": repr(self.options),
        }

    def __call__(self, file: str) -> dict[str, np.ndarray]:
        """Return the features of a file.

        Raises:
          ValueError: The file can't be read; the message names it.
        """
        waveform = decode_audio(file, self.options)
        return {name: self._feature(name, waveform.samples) for name in self.names}

    def _feature(self, name: str, samples: np.ndarray) -> np.ndarray:
        if name == "mfcc":
            return mfcc_with_differences(samples, self.extractor.sampling_rate)
        return self.extractor.waveform(samples) if name == "waveform" else self.extractor.log_mel(samples)
