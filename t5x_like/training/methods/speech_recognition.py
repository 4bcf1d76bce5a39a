"""Speech to text: cross entropy of the decoder's tokens, and CTC of the encoder's frames (Watanabe et al. 2017)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import jax
import jax.numpy as jnp

from t5x_like.batch import WAVEFORM_LENGTHS, WAVEFORMS
from t5x_like.config_class import config_class
from t5x_like.model.families.family import ExtraLoss, Family, Predictions
from t5x_like.model.families.segment_memory import Memory
from t5x_like.model.families.speech_encoder_decoder import CTC, SpeechEncoderDecoder
from t5x_like.model.layers.dropout import fold
from t5x_like.model.parameters import ModelConfig
from t5x_like.model.zoo.speecht5 import SpeechT5Config
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.training import losses
from t5x_like.training.losses.ctc import ctc_losses
from t5x_like.training.methods.method import LossContext, TrainingMethod
from t5x_like.training.metrics import Totals
from t5x_like.training.microbatches import MODEL, Memories, Microbatch


@config_class
class SpeechRecognition(TrainingMethod):
    """Minimizes ``(1 - ctc_weight) * cross entropy + ctc_weight * CTC`` (Watanabe et al. 2017, eq. 15).

    Batches have the decoder's tokens and targets, and the declared streams ``waveforms`` and ``waveform_lengths``. Both
    losses are divided by the number of target tokens of the whole batch.

    Attributes:
      ctc_weight: Weight of CTC in [0, 1]; 0 leaves its head out.
      blank_id: Id of frames between labels; ``None`` is the last of the vocabulary, SpeechT5's ``<ctc_blank>``.
      unaligned_ids: Ids of targets that have no frames, such as that of the end.
    """

    ctc_weight: float = 0.5
    blank_id: int | None = None
    unaligned_ids: tuple[int, ...] = (2,)

    measures: ClassVar[tuple[str, ...]] = ("ctc_loss",)

    def __post_init__(self) -> None:
        if not 0 <= self.ctc_weight <= 1:
            raise ValueError(f"ctc_weight is {self.ctc_weight}; give a share from 0 to 1, such as 0.5")

    def streams(self) -> Sequence[str]:
        """Return the streams of waveforms and of their lengths."""
        return WAVEFORMS, WAVEFORM_LENGTHS

    def with_heads(self, model: ModelConfig) -> ModelConfig:
        """Return the model with the head that CTC reads."""
        if isinstance(model, SpeechT5Config) and self.ctc_weight > 0:
            return replace(model, has_ctc_head=True)
        return model

    def check(self, model: ModelConfig, loader: object, train: LoaderConfig) -> None:
        """Check that the model writes text for speech, and that ids are in its vocabulary."""
        if not isinstance(model, SpeechT5Config) or model.task != "speech_to_text":
            raise ValueError(
                f"SpeechRecognition needs a model that writes text for speech, and this is a {type(model).__name__} "
                f"for {getattr(model, 'task', None)}; take SpeechT5Config with task='speech_to_text'"
            )
        end = getattr(getattr(loader, "vocabulary", None), "special", None)
        if self.ctc_weight > 0 and end is not None and end.eos not in (None, *self.unaligned_ids):
            raise ValueError(
                f"unaligned_ids={self.unaligned_ids} lack {end.eos}, which ends texts in this vocabulary and has no "
                f"frames; give unaligned_ids=({end.eos},)"
            )
        blank = self.blank_id
        if blank is not None and not 0 <= blank < model.vocab_size:
            raise ValueError(f"blank_id is {blank}; the model has the ids 0 to {model.vocab_size - 1}")

    def compute_loss(
        self, model: Family, microbatch: Microbatch, context: LossContext
    ) -> tuple[jax.Array, tuple[Totals, Memories]]:
        """Return the sum of both losses; see ``TrainingMethod``."""
        predictions = self._predict(model, microbatch, context)
        total, totals = self.total(predictions, microbatch, context, label_weight=1.0 - self.ctc_weight)
        return total, (totals, {MODEL: predictions.memory})

    def measure(
        self, model: Family, microbatch: Microbatch, context: LossContext
    ) -> tuple[Totals, Memory | None]:
        """Return the sums to log of held-out rows, that of CTC included."""
        predictions = self._predict(model, microbatch, context)
        totals = losses.measure(
            predictions, microbatch.batch, self.loss, context.num_tasks, context.label_loss
        )
        return totals, predictions.memory

    def _predict(self, model: Family, microbatch: Microbatch, context: LossContext) -> Predictions:
        """Return the predictions with CTC among the further losses."""
        assert isinstance(model, SpeechEncoderDecoder)
        batch, key = microbatch.batch, context.dropout_key
        encoded = model.encode(batch, fold(key, 0))
        predictions = model.decode(batch, encoded, dropout_key=fold(key, 1))
        heads = dict(predictions.heads or {})
        logits = heads.pop(CTC, None)
        if logits is None:
            nothing = ExtraLoss(jnp.zeros(()), 0.0, jnp.zeros(()), divisor=jnp.ones(()))
            return predictions._replace(extra_losses={"ctc_loss": nothing})
        rows, length = logits.shape[:2]
        real = encoded.segment_ids
        num_frames = jnp.full(rows, length) if real is None else jnp.sum(real, axis=1)
        is_label = (batch.loss_weights > 0) & ~jnp.isin(batch.target_tokens, jnp.array(self.unaligned_ids))
        blank = logits.shape[-1] - 1 if self.blank_id is None else self.blank_id
        of_rows, counts = ctc_losses(logits, num_frames, batch.target_tokens, is_label, blank_id=blank)
        loss = ExtraLoss(
            jnp.sum(of_rows), self.ctc_weight, jnp.sum(counts), divisor=context.normalizers.weights
        )
        return predictions._replace(heads=heads, extra_losses={"ctc_loss": loss})
