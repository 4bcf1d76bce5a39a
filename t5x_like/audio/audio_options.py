"""Options of reading audio, and the two forms in which a file is read: its header and its samples."""

import math
from typing import Literal, NamedTuple

import numpy as np

from t5x_like.config_class import config_class

SAMPLING_RATE = 16_000  # of SpeechT5, HuBERT and wav2vec 2.0


@config_class
class AudioOptions:
    """Samples that a model needs, and the treatment of files that have others.

    Attributes:
      sampling_rate: Samples per second that the model reads.
      channels: "mono" refuses files of several channels; "mean" reads their mean.
      resample: Convert other sampling rates, with a warning; False refuses such files.
      silence: "refuse" or "warn", for files without a sample louder than -60 dB of full scale.
      max_seconds: Longest file that is read.
    """

    sampling_rate: int = SAMPLING_RATE
    channels: Literal["mono", "mean"] = "mono"
    resample: bool = True
    silence: Literal["refuse", "warn"] = "refuse"
    max_seconds: float = 3_600.0

    def __post_init__(self) -> None:
        if self.sampling_rate < 1:
            raise ValueError(
                f"sampling_rate must be at least 1, not {self.sampling_rate}; SpeechT5 needs {SAMPLING_RATE}"
            )
        if not self.max_seconds > 0 or math.isinf(self.max_seconds):
            raise ValueError(f"max_seconds must be a positive number of seconds, not {self.max_seconds}")


class AudioHeader(NamedTuple):
    """Properties of a file that are known before its samples are decoded.

    Attributes:
      file: Path.
      num_frames: Samples of each channel.
      sampling_rate: Samples per second.
      num_channels: Number of channels.
      format: Name of the format, "WAV" or "FLAC", and of its encoding, such as "PCM_16".
    """

    file: str
    num_frames: int
    sampling_rate: int
    num_channels: int
    format: str

    @property
    def seconds(self) -> float:
        """Length."""
        return self.num_frames / self.sampling_rate


class Waveform(NamedTuple):
    """Samples of one channel.

    Attributes:
      samples: float32 [samples], within -1 and 1 unless the file has larger ones.
      sampling_rate: Samples per second.
      warnings: Sentences about what is unusual in the file, such as clipped samples.
    """

    samples: np.ndarray
    sampling_rate: int
    warnings: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Length."""
        return len(self.samples) / self.sampling_rate
