"""Generation of spectrograms: frame after frame until a stop flag (Shen et al. 2018, §2.2)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.batch import Batch
from t5x_like.model.families.speech_encoder_decoder import EncodedSpeech, SpeechEncoderDecoder
from t5x_like.model.layers.kv_cache import DecoderCache
from t5x_like.model.layers.spectrogram_nets import SpectrogramPostnet
from t5x_like.model.layers.stack import unrolled


class SpeechLimits(NamedTuple):
    """Fewest and most steps of the decoder."""

    min_steps: int
    max_steps: int

    @classmethod
    def of(
        cls, num_inputs: int, reduction_factor: int, *, min_ratio: float, max_ratio: float
    ) -> "SpeechLimits":
        """Return the limits for inputs of some length, as in transformers; there is at least one step.

        Args:
          num_inputs: Tokens or frames of the encoder, padding included.
          reduction_factor: Frames of a step.
          min_ratio: Fewest frames for each of the encoder's.
          max_ratio: Most frames for each of the encoder's.
        """
        fewest, most = (int(num_inputs * ratio / reduction_factor) for ratio in (min_ratio, max_ratio))
        return cls(fewest, max(fewest, most, 1))


class GeneratedSpeech(NamedTuple):
    """Spectrograms; frames after a row's end are 0.

    Attributes:
      frames: Refined frames.
      lengths: Number of frames of each row.
    """

    frames: Float[Array, "B T E"]
    lengths: Int[Array, " B"]


class _State(NamedTuple):
    """State of the loop: steps so far, their frames, and the step after which each row ended, 0 before."""

    num_steps: Int[Array, ""]
    frames: Float[Array, "B S R E"]
    last_step: Int[Array, " B"]
    cache: DecoderCache


def generate_frames(
    model: SpeechEncoderDecoder,
    batch: Batch,
    speakers: Float[Array, "B S"] | None,
    key: Key[Array, ""],
    *,
    threshold: float | Float[Array, ""],
    min_ratio: float,
    max_ratio: float,
) -> GeneratedSpeech:
    """Return spectrograms for texts or waveforms; for ``jax.jit``.

    A row ends where the probabilities of its step's stop flags sum to ``threshold``. Each row is what it would be
    alone, but for the units that the net before the decoder keeps.

    Args:
      model: Model whose decoder predicts frames.
      batch: Streams of the encoder.
      speakers: Vectors of speakers; None leaves their layer out.
      key: Random key of the units that are kept.
      threshold: Sum of probabilities.
      min_ratio: Fewest frames for each of the encoder's outputs.
      max_ratio: Most frames for each of the encoder's outputs.
    """
    model = unrolled(model)
    postnet = model.postnet
    assert isinstance(postnet, SpectrogramPostnet)
    factor, bins = postnet.config.reduction_factor, postnet.config.num_mel_bins
    encoded: EncodedSpeech = model.encode(batch)
    num_rows, num_inputs = encoded.output.shape[:2]
    limits = SpeechLimits.of(num_inputs, factor, min_ratio=min_ratio, max_ratio=max_ratio)

    def goes_on(state: _State) -> Bool[Array, ""]:
        return (state.num_steps < limits.max_steps) & jnp.any(state.last_step == 0)

    def step(state: _State) -> _State:
        index = state.num_steps
        before = jax.lax.dynamic_index_in_dim(
            state.frames, jnp.maximum(index - 1, 0), axis=1, keepdims=False
        )[:, -1]
        before = jnp.where(index > 0, before, 0.0)
        frames, stop_logits, cache = model.frame_step(
            before, speakers, state.cache, jax.random.fold_in(key, index)
        )
        is_last = jnp.sum(jax.nn.sigmoid(stop_logits), axis=1) >= threshold
        number = index + 1
        may_end = number >= limits.min_steps
        ends = (state.last_step == 0) & may_end & (is_last | (number >= limits.max_steps))
        return _State(
            number,
            jax.lax.dynamic_update_index_in_dim(state.frames, frames, index, axis=1),
            jnp.where(ends, number, state.last_step),
            cache,
        )

    state = jax.lax.while_loop(
        goes_on,
        step,
        _State(
            jnp.zeros((), jnp.int32),
            jnp.zeros((num_rows, limits.max_steps, factor, bins)),
            jnp.zeros(num_rows, jnp.int32),
            model.start_cache(encoded, max_length=limits.max_steps),
        ),
    )
    lengths, frames = state.last_step * factor, state.frames.reshape(num_rows, -1, bins)
    real = jnp.arange(frames.shape[1])[None] < lengths[:, None]
    return GeneratedSpeech(postnet.refine(frames, real), lengths)
