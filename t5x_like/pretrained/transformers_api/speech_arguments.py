"""Arguments of models that read or write speech, checked and converted to numpy arrays."""

from typing import Any

import numpy as np
from jaxtyping import PyTree

from t5x_like.index_checks import check_token_ids
from t5x_like.model.layers.waveform_encoder import WaveformEncoderConfig
from t5x_like.model.zoo.speecht5 import SpeechT5Config
from t5x_like.pretrained.transformers_api.call_arguments import mask_rows, numbers, token_rows

IGNORED_FRAME = -100.0  # marks frames of labels that have no loss


def float_rows(values: object, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
    """Return float32 numbers of a shape.

    Args:
      values: Array or nested lists.
      name: Name of the argument in messages.
      shape: Expected sizes; ``None`` for any.

    Raises:
      ValueError: The values have another shape, or are not finite.
    """
    rows = np.asarray(numbers(values, name), np.float32)
    fits = rows.ndim == len(shape) and all(
        wanted in (None, size) for size, wanted in zip(rows.shape, shape, strict=True)
    )
    if not fits or not rows.size:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} has shape {rows.shape}; give numbers of shape [{wanted}]")
    if not np.isfinite(rows).all():
        raise ValueError(f"{name} holds {rows[~np.isfinite(rows)][0]}; give finite numbers")
    return rows


def read_encoder_inputs(arguments: dict[str, Any], config: SpeechT5Config) -> dict[str, PyTree]:
    """Return ``waveforms`` and ``num_samples``, or ``input_ids`` and ``segment_ids``; absent ones are left out.

    Args:
      arguments: ``input_values`` or ``input_ids``, and ``attention_mask``.
      config: Configuration of the model.

    Raises:
      ValueError: The model reads the other kind of input, a row is too short for one frame, or values make no sense.
    """
    ids, values, mask = (arguments.get(name) for name in ("input_ids", "input_values", "attention_mask"))
    if not config.reads_speech:
        if values is not None:
            raise ValueError(
                f"a model for {config.task} reads no input_values; give input_ids, [batch, length]"
            )
        rows = token_rows(ids, "input_ids", config.vocab_size)
        mask = mask_rows(mask, "attention_mask", rows)
        return {"input_ids": rows} | ({} if mask is None else {"segment_ids": mask})
    if values is not None and ids is not None:
        raise ValueError(
            f"a model for {config.task} reads no input_ids; give input_values, [batch, samples], alone"
        )
    waveforms = float_rows(ids if values is None else values, "input_values", (None, None))
    mask = mask_rows(mask, "attention_mask", waveforms)
    lengths = np.full(len(waveforms), waveforms.shape[1]) if mask is None else mask.sum(axis=1)
    check_samples(lengths, config.waveforms)
    return {"waveforms": waveforms} | ({} if mask is None else {"num_samples": lengths.astype(np.int32)})


def check_samples(lengths: np.ndarray, config: WaveformEncoderConfig) -> None:
    """Refuse waveforms that are too short for one frame.

    Args:
      lengths: Number of samples of each row.
      config: Net that reads them.

    Raises:
      ValueError: With the smallest number of samples.
    """
    short = np.flatnonzero(lengths < config.min_samples)
    if short.size:
        raise ValueError(
            f"row {short[0]} of input_values has {lengths[short[0]]} samples, and a frame needs {config.min_samples}; "
            "give longer waveforms"
        )


def read_speakers(speakers: object, config: SpeechT5Config, num_rows: int) -> np.ndarray | None:
    """Return vectors of speakers, one for each row; ``None`` stays ``None``.

    Args:
      speakers: Array [B, E], or [1, E] for one speaker of all rows.
      config: Configuration of the model.
      num_rows: Number of rows.

    Raises:
      ValueError: Their number or width is another one.
    """
    if speakers is None:
        return None
    if not config.writes_speech:
        raise ValueError(f"a model for {config.task} has no speakers; leave speaker_embeddings out")
    vectors = float_rows(speakers, "speaker_embeddings", (None, config.speaker_dim))
    if len(vectors) not in (1, num_rows):
        raise ValueError(
            f"speaker_embeddings has {len(vectors)} rows for {num_rows} inputs; give one for each, or a single one"
        )
    return np.broadcast_to(vectors, (num_rows, config.speaker_dim))


def read_spectrogram_labels(labels: object, config: SpeechT5Config) -> tuple[np.ndarray, np.ndarray]:
    """Return frames to predict, with zeros where they have no loss, and True for those that have one.

    Args:
      labels: Array [B, T, E]; -100 marks frames without a loss.
      config: Configuration of the model.

    Raises:
      ValueError: Their shape is another one, or they are no whole number of the decoder's steps.
    """
    frames = float_rows(labels, "labels", (None, None, config.num_mel_bins))
    if frames.shape[1] % config.reduction_factor:
        raise ValueError(
            f"labels has {frames.shape[1]} frames; a step of the decoder predicts {config.reduction_factor}, give a "
            "multiple"
        )
    is_real = frames != IGNORED_FRAME
    if (is_real.any(axis=-1) != is_real.all(axis=-1)).any():
        raise ValueError("labels marks a part of a frame by -100; mark all mel filters of a frame, or none")
    real = is_real[..., 0]
    if not real.any():
        raise ValueError("labels marks all frames by -100; leave some to learn from")
    return np.where(is_real, frames, 0.0).astype(np.float32), real


def check_start_token(start: int, vocab_size: int) -> None:
    """Refuse an id that begins a decoder's text and has no embedding.

    Args:
      start: The id.
      vocab_size: Number of ids.
    """
    check_token_ids(start, "decoder_start_token_id of config.json", vocab_size)
