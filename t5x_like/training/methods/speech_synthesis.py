"""Text or speech to speech: losses of spectrograms (Ao et al. 2022, §2.4; transformers' SpeechT5SpectrogramLoss)."""

from collections.abc import Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp

from t5x_like.batch import DECODER_FRAMES, SPEAKERS, SPECTROGRAM_LENGTHS, SPECTROGRAMS, Batch
from t5x_like.config_class import config_class
from t5x_like.model.families.family import ExtraLoss, Family
from t5x_like.model.families.speech_encoder_decoder import (
    COARSE_SPECTROGRAM,
    SPECTROGRAM,
    STOP,
    EncodedSpeech,
    SpeechEncoderDecoder,
)
from t5x_like.model.layers.dropout import fold
from t5x_like.model.named_activations import record
from t5x_like.model.parameters import ModelConfig
from t5x_like.model.spectrogram_loss import (
    STOP_WEIGHT,
    GuidedAttention,
    PartialMean,
    guided_attention_loss,
    shift_frames,
    spectrogram_losses,
    steps_of,
)
from t5x_like.model.zoo.speecht5 import SpeechT5Config
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.training.methods.method import LossContext, OwnLossMethod
from t5x_like.training.metrics import Totals
from t5x_like.training.microbatches import Memories, Microbatch

_ATTENTION = "decoder/cross_attention/probabilities"


@config_class
class SpeechSynthesis(OwnLossMethod):
    """Minimizes distances of frames, the loss of stop flags, and that of attention far from the diagonal.

    Batches have the encoder's tokens or waveforms, and the declared streams ``spectrograms``,
    ``spectrogram_lengths`` and ``speakers``. Spectrograms are padded to a multiple of the model's
    ``reduction_factor``. The decoder reads them shifted right. With microbatches, each one has its own means.

    Attributes:
      stop_weight: Weight of stop flags.
      last_frame_weight: Weight of a row's last frame in their loss, in place of 1.
      guided_attention: Loss of cross-attention; ``None`` for none, as for speech to speech.
    """

    stop_weight: float = 1.0
    last_frame_weight: float = STOP_WEIGHT
    guided_attention: GuidedAttention | None = GuidedAttention()

    measures: ClassVar[tuple[str, ...]] = ("coarse_l1", "refined_l1", "stop", "guided_attention")
    learns_unlabeled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("stop_weight", "last_frame_weight"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; give 0 or more")
        self.refuse_token_options("has no loss of target tokens")

    def streams(self) -> Sequence[str]:
        """Return the streams of spectrograms and speakers."""
        return SPECTROGRAMS, SPECTROGRAM_LENGTHS, SPEAKERS

    def check(self, model: ModelConfig, loader: object, train: LoaderConfig) -> None:
        """Check that the model writes speech."""
        if not isinstance(model, SpeechT5Config) or not model.writes_speech:
            raise ValueError(
                f"SpeechSynthesis needs a model that writes speech, and this is a {type(model).__name__} for "
                f"{getattr(model, 'task', None)}; take SpeechT5Config with task='text_to_speech'"
            )

    def compute_loss(
        self, model: Family, microbatch: Microbatch, context: LossContext
    ) -> tuple[jax.Array, tuple[Totals, Memories]]:
        """Return the sum of all losses; see ``TrainingMethod``."""
        assert isinstance(model, SpeechEncoderDecoder)
        assert model.postnet is not None, "checked before training"
        factor, key = model.postnet.config.reduction_factor, context.dropout_key
        batch, targets, real = with_frames(microbatch.batch, factor)
        encoded = model.encode(batch, fold(key, 0))
        with record(() if self.guided_attention is None else (_ATTENTION,)) as captured:
            predictions = model.decode(batch, encoded, dropout_key=fold(key, 1))
        heads = predictions.heads or {}
        means = spectrogram_losses(
            heads[COARSE_SPECTROGRAM],
            heads[SPECTROGRAM],
            heads[STOP],
            targets,
            real,
            last_weight=self.last_frame_weight,
        )
        means["guided_attention"] = self._guided(captured, encoded, steps_of(real, factor))
        extra = {
            name: ExtraLoss(
                mean.total,
                self.stop_weight if name == "stop" else 1.0,
                mean.count,
                divisor=jnp.maximum(mean.count, 1.0) * context.normalizers.parts,
            )
            for name, mean in means.items()
        }
        return self.own_total(predictions._replace(heads=None, extra_losses=extra), microbatch, context)

    def _guided(
        self, captured: dict[str, jax.Array], encoded: EncodedSpeech, steps: jax.Array
    ) -> PartialMean:
        if self.guided_attention is None:
            return PartialMean(jnp.zeros(()), jnp.zeros(()))
        inputs = encoded.segment_ids
        real = jnp.ones(encoded.output.shape[:2], bool) if inputs is None else inputs > 0
        return guided_attention_loss(captured[_ATTENTION], real, steps, self.guided_attention)


def with_frames(batch: Batch, reduction_factor: int) -> tuple[Batch, jax.Array, jax.Array]:
    """Return a batch whose decoder reads the frames to predict, shifted right; the frames, and which are real.

    Args:
      batch: Batch with spectrograms and their lengths.
      reduction_factor: Frames of a step of the decoder.

    Raises:
      ValueError: There are no spectrograms, or they are not padded to whole steps.
    """
    streams = {} if batch.declared is None else batch.declared.example
    if SPECTROGRAMS not in streams:
        raise ValueError(f"the batch has no stream {SPECTROGRAMS!r}; declare it for each example")
    targets = streams[SPECTROGRAMS]
    length = targets.shape[1]
    if length % reduction_factor:
        raise ValueError(
            f"spectrograms have {length} frames, and a step predicts {reduction_factor}; pad them to a multiple"
        )
    lengths = streams.get(SPECTROGRAM_LENGTHS)
    real = (
        jnp.ones(targets.shape[:2], bool) if lengths is None else jnp.arange(length)[None] < lengths[:, None]
    )
    targets = jnp.where(real[..., None], targets, 0.0)
    frames = {**streams, DECODER_FRAMES: shift_frames(targets, reduction_factor)}
    assert batch.declared is not None
    declared = batch.declared._replace(example=frames)
    return batch._replace(declared=declared), targets, real
