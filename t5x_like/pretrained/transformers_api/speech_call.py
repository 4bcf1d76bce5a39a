"""Calls of encoder-decoders of speech: SpeechT5's classes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from t5x_like.batch import DECODER_FRAMES, SPEAKERS, WAVEFORM_LENGTHS, WAVEFORMS, Batch
from t5x_like.model.families.family import Predictions
from t5x_like.model.families.speech_encoder_decoder import (
    COARSE_SPECTROGRAM,
    SPECTROGRAM,
    STOP,
    EncodedSpeech,
    SpeechEncoderDecoder,
    speech_batch,
)
from t5x_like.model.heads import whole_logits
from t5x_like.model.named_activations import record
from t5x_like.model.spectrogram_loss import (
    guided_attention_loss,
    shift_frames,
    spectrogram_losses,
    steps_of,
)
from t5x_like.model.zoo.speecht5 import SpeechT5Config
from t5x_like.pretrained.transformers_api.call import Context
from t5x_like.pretrained.transformers_api.call_arguments import check_rows, mask_rows, shift_right, token_rows
from t5x_like.pretrained.transformers_api.encoder_decoder_call import read_encoded
from t5x_like.pretrained.transformers_api.head_outputs import cross_entropy
from t5x_like.pretrained.transformers_api.speech_arguments import (
    check_start_token,
    float_rows,
    read_encoder_inputs,
    read_speakers,
    read_spectrogram_labels,
)

ARGUMENTS: tuple[str, ...] = (
    "input_ids",
    "input_values",
    "attention_mask",
    "decoder_input_ids",
    "decoder_input_values",
    "decoder_attention_mask",
    "speaker_embeddings",
    "encoder_outputs",
    "labels",
)

_ATTENTION = "decoder/cross_attention/probabilities"


def read(arguments: dict[str, PyTree], context: Context) -> dict[str, PyTree]:
    """Return the checked arguments as numpy arrays by name.

    With ``labels`` alone, the decoder reads them shifted right. With ``encoder_outputs`` the inputs are not needed.
    """
    config = context.config
    encoded = arguments.get("encoder_outputs")
    if encoded is None:
        inputs = read_encoder_inputs(arguments, config)
        rows = inputs["waveforms"] if config.reads_speech else inputs["input_ids"]
    else:
        rows = read_encoded(encoded)
        inputs = {"encoded": rows, **_mask_of_encoded(arguments, config, rows)}
    others = ("decoder_input_ids",) if config.writes_speech else ("decoder_input_values",)
    for name in others:
        if arguments.get(name) is not None:
            raise ValueError(f"a model for {config.task} reads no {name}; leave it out")
    decoder = _read_frames if config.writes_speech else _read_tokens
    inputs |= decoder(arguments, context)
    steps = inputs["decoder_frames"] if config.writes_speech else inputs["decoder_input_ids"]
    check_rows(rows, steps, None)
    speakers = read_speakers(arguments.get("speaker_embeddings"), config, len(rows))
    return inputs if speakers is None else inputs | {"speakers": speakers}


def _mask_of_encoded(
    arguments: dict[str, Any], config: SpeechT5Config, encoded: np.ndarray
) -> dict[str, np.ndarray]:
    """Return which of the encoder's outputs are real, by a mask over samples or tokens."""
    mask = arguments.get("attention_mask")
    if mask is None:
        return {}
    if not config.reads_speech:
        rows = mask_rows(mask, "attention_mask", np.zeros(encoded.shape[:2]))
        assert rows is not None
        return {"segment_ids": rows}
    lengths = config.waveforms.num_frames(np.asarray(mask).sum(axis=1))
    return {"segment_ids": (np.arange(encoded.shape[1]) < lengths[:, None]).astype(np.int32)}


def _read_tokens(arguments: dict[str, Any], context: Context) -> dict[str, np.ndarray]:
    config, special = context.config, context.special_ids
    labels, ids = arguments.get("labels"), arguments.get("decoder_input_ids")
    inputs: dict[str, np.ndarray] = {}
    if labels is not None:
        inputs["labels"] = token_rows(labels, "labels", config.vocab_size, is_label=True)
    if ids is not None:
        ids = token_rows(ids, "decoder_input_ids", config.vocab_size)
    elif labels is not None:
        check_start_token(special.decoder_start, config.vocab_size)
        ids = shift_right(inputs["labels"], start=special.decoder_start, pad=special.fill)
    else:
        raise ValueError("give decoder_input_ids, or labels to make them from")
    check_rows(ids, ids, inputs.get("labels"))
    mask = mask_rows(arguments.get("decoder_attention_mask"), "decoder_attention_mask", ids)
    inputs |= {} if mask is None else {"decoder_segment_ids": mask}
    return inputs | {"decoder_input_ids": ids}


def _read_frames(arguments: dict[str, Any], context: Context) -> dict[str, np.ndarray]:
    config, mask = context.config, arguments.get("decoder_attention_mask")
    labels, frames = arguments.get("labels"), arguments.get("decoder_input_values")
    inputs: dict[str, np.ndarray] = {}
    if labels is not None:
        inputs["labels"], inputs["has_loss"] = read_spectrogram_labels(labels, config)
    if frames is not None:
        frames = float_rows(frames, "decoder_input_values", (None, None, config.num_mel_bins))
    elif labels is not None:
        frames = np.asarray(shift_frames(jnp.asarray(inputs["labels"]), config.reduction_factor))
        mask = (
            None
            if mask is None
            else np.asarray(mask)[:, config.reduction_factor - 1 :: config.reduction_factor]
        )
    else:
        raise ValueError("give decoder_input_values, or labels to make them from")
    if labels is not None and frames.shape[1] * config.reduction_factor != inputs["labels"].shape[1]:
        raise ValueError(
            f"decoder_input_values has {frames.shape[1]} frames for labels of {inputs['labels'].shape[1]}; give one "
            f"for every {config.reduction_factor}"
        )
    mask = mask_rows(mask, "decoder_attention_mask", frames[..., 0])
    inputs |= {} if mask is None else {"decoder_segment_ids": mask}
    return inputs | {"decoder_frames": frames}


def encoder_batch(inputs: dict[str, Any], **decoder: Any) -> Batch:
    """Return the encoder's streams for checked arguments.

    Args:
      inputs: Arrays by name.
      **decoder: Fields of the decoder.
    """
    names = {
        WAVEFORMS: "waveforms",
        WAVEFORM_LENGTHS: "num_samples",
        DECODER_FRAMES: "decoder_frames",
        SPEAKERS: "speakers",
    }
    return speech_batch(
        {stream: inputs.get(name) for stream, name in names.items()},
        encoder_input_tokens=inputs.get("input_ids"),
        encoder_segment_ids=inputs.get("segment_ids"),
        **decoder,
    )


def compute(model: SpeechEncoderDecoder, config: SpeechT5Config, inputs: dict[str, Any]) -> dict[str, PyTree]:
    """Return outputs under transformers' names; the loss of spectrograms is that of text to speech alone."""
    batch = encoder_batch(
        inputs,
        decoder_input_tokens=inputs.get("decoder_input_ids"),
        decoder_segment_ids=inputs.get("decoder_segment_ids"),
    )
    has_loss = "labels" in inputs and config.task != "speech_to_speech"
    is_guided = has_loss and config.writes_speech and config.guided_attention is not None
    if "encoded" in inputs:
        states = inputs["encoded"].astype(config.compute_dtype)
        encoded = EncodedSpeech(states, inputs.get("segment_ids"), routing=None)
    else:
        encoded = model.encode(batch)
    with record((_ATTENTION,) if is_guided else ()) as captured:
        predictions = model.decode(batch, encoded)
    outputs = {
        "encoder_last_hidden_state": predictions.encoder_output,
        "decoder_last_hidden_state": predictions.decoder_output,
    }
    if not config.writes_speech:
        assert predictions.logits is not None
        outputs["logits"] = whole_logits(predictions.logits)[..., : config.vocab_size]
        return outputs | ({"loss": cross_entropy(outputs["logits"], inputs["labels"])} if has_loss else {})
    assert predictions.heads is not None
    outputs["spectrogram"] = predictions.heads[SPECTROGRAM]
    if has_loss:
        of_inputs = inputs.get("segment_ids")
        shape = encoded.output.shape[:2]
        real = jnp.ones(shape, bool) if of_inputs is None else of_inputs > 0
        outputs["loss"] = _spectrogram_loss(predictions, config, inputs, real, captured.get(_ATTENTION))
    return outputs


def _spectrogram_loss(
    predictions: Predictions,
    config: SpeechT5Config,
    inputs: dict[str, Any],
    of_inputs: jax.Array,
    attention: jax.Array | None,
) -> jax.Array:
    heads, real = predictions.heads, inputs["has_loss"]
    assert heads is not None
    losses = spectrogram_losses(
        heads[COARSE_SPECTROGRAM], heads[SPECTROGRAM], heads[STOP], inputs["labels"], real
    )
    total = jnp.asarray(sum(each.mean for each in losses.values()))
    if config.guided_attention is None:
        return total
    assert attention is not None, "it was recorded"
    steps = steps_of(real, config.reduction_factor)
    return total + guided_attention_loss(attention, of_inputs, steps, config.guided_attention).mean
