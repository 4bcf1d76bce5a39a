"""Declarations of streams of speech: sequences of samples and frames, with lengths that batches can be halved to."""

import math

from t5x_like.audio.feature_extractor import SpeechT5FeatureExtractor
from t5x_like.batch import DataField
from t5x_like.text.tasks.speech_table import SpeechTable

_SAMPLE_MULTIPLE = 4096  # halves of such lengths are lengths of shorter batches
_FRAME_MULTIPLE = 64


def waveform_samples(table: SpeechTable, extractor: SpeechT5FeatureExtractor) -> int:
    """Return the number of samples of the longest recording, rounded up.

    Args:
      table: Longest recording.
      extractor: Sampling rate.
    """
    return math.ceil(table.max_seconds * extractor.sampling_rate / _SAMPLE_MULTIPLE) * _SAMPLE_MULTIPLE


def spectrogram_frames(table: SpeechTable, extractor: SpeechT5FeatureExtractor) -> int:
    """Return the number of frames of the longest recording's spectrogram, rounded up.

    Args:
      table: Longest recording.
      extractor: Frames of a second.
    """
    frames = waveform_samples(table, extractor) // extractor.hop + 1
    return math.ceil(frames / _FRAME_MULTIPLE) * _FRAME_MULTIPLE


def sequence_stream(name: str, lengths: str, max_length: int, *, width: int | None = None) -> DataField:
    """Return the declaration of a sequence of each example.

    Args:
      name: Name of the stream.
      lengths: Name of the stream of lengths.
      max_length: Length of the longest sequence.
      width: Numbers of each value; None for one.
    """
    return DataField(name, "example", "float32", width=width, max_length=max_length, length_stream=lengths)
