"""Text for speech by a decoder and CTC together (Watanabe et al. 2017, §II-C and algorithm 2).

https://www.merl.com/publications/docs/TR2017-190.pdf. A text so far has the score
``(1 - weight) * log p_decoder + weight * log p_ctc``. CTC's probability is that of all texts that begin with it; with
the end token it is that of this very text.

Shape letters here: B inputs, J beams of an input, R = B * J rows, T frames, V vocabulary.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from t5x_like.inference.decodable import is_any_of, log_probabilities
from t5x_like.model.families.speech_encoder_decoder import (
    CTC,
    EncodedSpeech,
    SpeechEncoderDecoder,
    waveform_batch,
)
from t5x_like.model.layers.kv_cache import DecoderCache, beam_rows, input_rows
from t5x_like.model.layers.top_k import argmax

# Logarithm of 0: finite, so that differences of two stay ordinary.
LOG_ZERO = -1e10

_NO_LABEL = -1


@dataclass(frozen=True, kw_only=True)
class JointCtc:
    """Settings of a decoder that counts CTC.

    Attributes:
      weight: Weight of CTC in [0, 1]; the decoder has the rest.
      blank_id: Id of frames between labels; ``None`` is the last of the vocabulary, SpeechT5's ``<ctc_blank>``.
      end_ids: Ids that end a text, which have no frames.
    """

    weight: float = 0.3
    blank_id: int | None = None
    end_ids: tuple[int, ...] = (2,)

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 1:
            raise ValueError(
                f"the weight of CTC is {self.weight}; give a share from 0 for the decoder alone to 1, such as 0.3"
            )


class CtcPrefixes(NamedTuple):
    """CTC's probabilities of texts so far, each the prefix of others.

    Attributes:
      forward: Log-probabilities of a text's alignments with the first ``t`` frames: those that end in a label, and
        those that end in a blank.
      log_prob: Log-probability of all texts that begin so.
      last: Last label; -1 for a text without any.
    """

    forward: Float[Array, "R T+1 2"]
    log_prob: Float[Array, " R"]
    last: Int[Array, " R"]

    @property
    def whole(self) -> Float[Array, " R"]:
        """Log-probability of each text as a whole."""
        return jnp.logaddexp(self.forward[:, -1, 0], self.forward[:, -1, 1])

    def extend(
        self, log_probs: Float[Array, "B T V"], labels: Int[Array, " R"], *, blank_id: int
    ) -> "CtcPrefixes":
        """Return the prefixes with one more label each.

        Args:
          log_probs: Log-probabilities of the inputs' frames.
          labels: New labels.
          blank_id: Id of the blank.
        """
        inputs = _inputs_of(len(labels), len(log_probs))
        label_RT, blank_RT = log_probs[inputs, :, labels], log_probs[inputs, :, blank_id]
        in_label_RT, in_blank_RT = self.forward[:, :-1, 0], self.forward[:, :-1, 1]
        either_RT = jnp.logaddexp(in_label_RT, in_blank_RT)
        # The same label again needs a blank between the two.
        before_RT = jnp.where((labels == self.last)[:, None], in_blank_RT, either_RT)

        def frame(
            ends: tuple[Array, Array], each: tuple[Array, Array, Array]
        ) -> tuple[tuple[Array, Array], Array]:
            (in_label_R, in_blank_R), (label_R, blank_R, before_R) = ends, each
            ends = (
                label_R + jnp.logaddexp(in_label_R, before_R),
                blank_R + jnp.logaddexp(in_label_R, in_blank_R),
            )
            return ends, jnp.stack(ends, axis=-1)

        none_R = jnp.full(len(labels), LOG_ZERO)
        frames = (label_RT.T, blank_RT.T, before_RT.T)
        _, forward_TR2 = jax.lax.scan(frame, (none_R, none_R), frames)
        first_R12 = jnp.full((len(labels), 1, 2), LOG_ZERO)
        return CtcPrefixes(
            forward=jnp.concatenate([first_R12, forward_TR2.swapaxes(0, 1)], axis=1),
            log_prob=_sum_of_frames(before_RT + label_RT, axis=1),
            last=labels,
        )

    def next_log_probs(
        self, log_probs: Float[Array, "B T V"], *, blank_id: int, end_ids: tuple[int, ...]
    ) -> Float[Array, "R V"]:
        """Return the log-probability of each next label after the prefix; that of the ends is of its end here.

        Args:
          log_probs: Log-probabilities of the inputs' frames.
          blank_id: Id of the blank, which is no label.
          end_ids: Ids that end a text.
        """
        num_inputs, _, num_labels = log_probs.shape
        num_rows = len(self.last)
        before_RT = jnp.logaddexp(self.forward[:, :-1, 0], self.forward[:, :-1, 1])
        before_BJT1 = before_RT.reshape(num_inputs, -1, before_RT.shape[1], 1)
        scores_RV = _sum_of_frames(before_BJT1 + log_probs[:, None], axis=2).reshape(num_rows, num_labels)
        last_RT = log_probs[_inputs_of(num_rows, num_inputs), :, self.last]
        again_R = _sum_of_frames(self.forward[:, :-1, 1] + last_RT, axis=1)
        labels_1V = jnp.arange(num_labels)[None]
        scores_RV = jnp.where(labels_1V == self.last[:, None], again_R[:, None], scores_RV)
        scores_RV = jnp.where(is_any_of(labels_1V, end_ids), self.whole[:, None], scores_RV)
        scores_RV = jnp.where(labels_1V == blank_id, LOG_ZERO, scores_RV)
        return scores_RV - self.log_prob[:, None]


class JointCache(NamedTuple):
    """Cache of a decoder, and CTC's state of its rows.

    Attributes:
      decoder: Cache of the decoder.
      log_probs: Log-probabilities of the inputs' frames; padding is blank.
      prefixes: Texts of the rows, without the token that is read next.
    """

    decoder: DecoderCache
    log_probs: Float[Array, "B T V"]
    prefixes: CtcPrefixes


class JointCtcDecoder(nnx.Module):
    """A model of speech to text that decodes with its head for CTC; a ``GenerativeModel``.

    >>> decoder = JointCtcDecoder(model, JointCtc(weight=0.3))
    >>> settings = {"max_new_tokens": 100, "eos_token_id": (2,), "num_beams": 4}
    >>> tokens, scores = continue_prompts(decoder, waveforms, mask, None, start_id=2, settings=settings)

    Args:
      model: The model.
      options: Weight and special ids.

    Raises:
      ValueError: The model has no head for CTC.
    """

    gives_log_probs: ClassVar[bool] = True

    def __init__(self, model: SpeechEncoderDecoder, options: JointCtc = JointCtc()):
        if not isinstance(model, SpeechEncoderDecoder) or CTC not in model.heads.scores:
            raise ValueError(
                "this model has no head for CTC, which ctc_weight needs; train one with SpeechRecognition, or leave "
                "ctc_weight out"
            )
        self.model = model
        self.options = options

    def prefill(
        self, prompts: Float[Array, "B S"], mask: Int[Array, "B S"], *, max_new_tokens: int, start_id: int
    ) -> tuple[Int[Array, " B"], JointCache]:
        """Encode waveforms; see ``GenerativeModel``."""
        encoded = self.model.encode(waveform_batch(prompts, mask))
        num_rows, num_frames = encoded.output.shape[:2]
        log_probs, blank_id = frame_log_probs(self.model, encoded), self._blank_id
        # Blanks are padding, too, each with probability 1.
        padding = jnp.where(jnp.arange(log_probs.shape[-1]) == blank_id, 0.0, LOG_ZERO)
        log_probs = jnp.where(_is_real(encoded)[..., None], log_probs, padding)
        blanks_BT = jnp.cumsum(log_probs[..., blank_id], axis=1)
        in_blank = jnp.concatenate([jnp.zeros((num_rows, 1)), blanks_BT], axis=1)
        empty = CtcPrefixes(
            forward=jnp.stack([jnp.full((num_rows, num_frames + 1), LOG_ZERO), in_blank], axis=-1),
            log_prob=jnp.zeros(num_rows),
            last=jnp.full(num_rows, _NO_LABEL, jnp.int32),
        )
        cache = self.model.start_cache(encoded, max_length=max_new_tokens)
        return jnp.full(num_rows, start_id, jnp.int32), JointCache(cache, log_probs, empty)

    def decode_step(
        self, tokens: Int[Array, " R"], cache: JointCache
    ) -> tuple[Float[Array, "R V"], JointCache]:
        """Read one token of each row, and return weighted log-probabilities of the next one; see ``GenerativeModel``.

        They don't sum to 1, and are scores of beam search as they are.
        """
        options, blank_id = self.options, self._blank_id
        is_start = cache.decoder.index == 0
        logits, decoder = self.model.decode_step(tokens, cache.decoder)
        extended = cache.prefixes.extend(cache.log_probs, tokens, blank_id=blank_id)
        prefixes = jax.tree.map(
            lambda start, other: jnp.where(is_start, start, other), cache.prefixes, extended
        )
        of_ctc = prefixes.next_log_probs(cache.log_probs, blank_id=blank_id, end_ids=options.end_ids)
        padded = jnp.pad(of_ctc, ((0, 0), (0, logits.shape[1] - of_ctc.shape[1])), constant_values=LOG_ZERO)
        scores = (1 - options.weight) * log_probabilities(logits) + options.weight * padded
        return scores, cache._replace(decoder=decoder, prefixes=prefixes)

    def reorder_cache(self, cache: JointCache, origins: Int[Array, "B J"]) -> JointCache:
        """Return the cache in which beam ``j`` of input ``b`` is its former beam ``origins[b, j]``."""
        rows = beam_rows(origins, num_rows=len(cache.prefixes.last))
        decoder = self.model.reorder_cache(cache.decoder, origins)
        return cache._replace(decoder=decoder, prefixes=jax.tree.map(lambda each: each[rows], cache.prefixes))

    def keep_inputs(self, cache: JointCache, inputs: Int[Array, " C"], num_inputs: int) -> JointCache:
        """Return the cache of the inputs with the present indices, out of ``num_inputs``."""
        rows = input_rows(inputs, num_rows=len(cache.prefixes.last), num_inputs=num_inputs)
        return JointCache(
            decoder=self.model.keep_inputs(cache.decoder, inputs, num_inputs),
            log_probs=cache.log_probs[inputs],
            prefixes=jax.tree.map(lambda each: each[rows], cache.prefixes),
        )

    @property
    def _blank_id(self) -> int:
        blank_id = self.options.blank_id
        return _num_labels(self.model) - 1 if blank_id is None else blank_id


def frame_log_probs(model: SpeechEncoderDecoder, encoded: EncodedSpeech) -> Float[Array, "B T V"]:
    """Return the log-probabilities of labels and of the blank at each frame, float32.

    Args:
      model: Model with a head for CTC.
      encoded: The encoder's output.
    """
    return jax.nn.log_softmax(model.heads.scores[CTC](encoded.output).astype(jnp.float32))


def best_alignment(
    log_probs: Float[Array, "B T V"], num_frames: Int[Array, " B"], *, blank_id: int
) -> tuple[Int[Array, "B T"], Int[Array, " B"]]:
    """Return the labels of each row's most likely alignment, and how many they are (Graves et al. 2006, §3.2).

    It is a fast guess of the most likely text: repeats of a frame's label are one, and blanks are left out.

    Args:
      log_probs: Log-probabilities of frames.
      num_frames: Number of real frames of each row.
      blank_id: Id of the blank, which also fills rows after their labels.
    """
    length = log_probs.shape[1]
    labels_BT = argmax(log_probs)
    before_BT = jnp.pad(labels_BT[:, :-1], ((0, 0), (1, 0)), constant_values=blank_id)
    is_real = jnp.arange(length)[None] < num_frames[:, None]
    stays_BT = is_real & (labels_BT != before_BT) & (labels_BT != blank_id)
    order = jnp.argsort(~stays_BT, axis=1, stable=True)
    counts = jnp.sum(stays_BT, axis=1, dtype=jnp.int32)
    labels_BT = jnp.take_along_axis(labels_BT, order, axis=1)
    return jnp.where(jnp.arange(length)[None] < counts[:, None], labels_BT, blank_id), counts


def _is_real(encoded: EncodedSpeech) -> Array:
    shape = encoded.output.shape[:2]
    return jnp.ones(shape, bool) if encoded.segment_ids is None else encoded.segment_ids > 0


def _num_labels(model: SpeechEncoderDecoder) -> int:
    return model.heads.scores[CTC].config.num_outputs


def _inputs_of(num_rows: int, num_inputs: int) -> Array:
    """Return the input of each row."""
    return jnp.arange(num_rows) // (num_rows // num_inputs)


def _sum_of_frames(log_probs: Array, *, axis: int) -> Array:
    """Return the logarithm of a sum of probabilities over frames."""
    return jnp.maximum(jax.nn.logsumexp(log_probs, axis=axis), LOG_ZERO)
