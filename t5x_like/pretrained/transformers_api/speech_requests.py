"""Arguments of ``generate_speech``, and its results in transformers' forms."""

from collections.abc import Callable
from typing import Any

import numpy as np

from t5x_like.model.model_traits import traits_of
from t5x_like.model.zoo.speecht5 import SpeechT5Config
from t5x_like.pretrained.transformers_api.speech_arguments import read_encoder_inputs, read_speakers

# From a spectrogram [T, E], or a padded batch of them [B, T, E], to a waveform [S] or waveforms [B, S].
Vocoder = Callable[[np.ndarray], np.ndarray]


def read_speech_request(
    arguments: dict[str, Any], config: SpeechT5Config, *, pad: int | None, min_ratio: float, max_ratio: float
) -> dict[str, Any]:
    """Return the checked arrays of the encoder by name, and ``speakers``.

    Args:
      arguments: Inputs, mask and speakers by transformers' names.
      config: Configuration of the model.
      pad: Id of padding of texts, which a call without a mask leaves out.
      min_ratio: Fewest frames for each of the encoder's outputs.
      max_ratio: Most frames for each of the encoder's outputs.

    Raises:
      ValueError: The model writes no speech, it has no speaker, or arguments make no sense.
    """
    if not traits_of(config).writes_speech:
        raise ValueError(f"this model's task is {config.task}; it generates no speech")
    if min_ratio < 0 or max_ratio < 0:
        raise ValueError(f"minlenratio={min_ratio:g} and maxlenratio={max_ratio:g}: give 0 or more")
    inputs = read_encoder_inputs(arguments, config)
    if not config.reads_speech and "segment_ids" not in inputs and pad is not None:
        inputs["segment_ids"] = (inputs["input_ids"] != pad).astype(np.int32)
    num_rows = len(inputs["waveforms" if config.reads_speech else "input_ids"])
    speakers = read_speakers(arguments.get("speaker_embeddings"), config, num_rows)
    if speakers is None and not config.reads_speech:
        raise ValueError(
            f"give speaker_embeddings, [batch, {config.speaker_dim}], such as an x-vector of the speaker"
        )
    # As in transformers, speech without a speaker has a vector of zeros.
    empty = np.zeros((num_rows, config.speaker_dim), np.float32)
    return inputs | {"speakers": empty if speakers is None else speakers}


def answer_with_speech(
    frames: np.ndarray, lengths: np.ndarray, *, vocoder: Vocoder | None, with_lengths: bool
) -> Any:
    """Return what transformers returns.

    Args:
      frames: Spectrograms [B, T, E] with zeros after their ends.
      lengths: Number of frames of each.
      vocoder: Turns spectrograms into waveforms; None returns spectrograms.
      with_lengths: Return the numbers of frames or samples, too.
    """
    frames = frames[:, : lengths.max()]
    if with_lengths:
        if vocoder is None:
            return frames, lengths.tolist()
        waveforms = np.asarray(vocoder(frames))
        samples_of_frame = int(waveforms.shape[1] / lengths.max())
        return waveforms, [samples_of_frame * length for length in lengths.tolist()]
    spectrogram = frames[0] if len(frames) == 1 else frames
    return spectrogram if vocoder is None else np.asarray(vocoder(spectrogram))
