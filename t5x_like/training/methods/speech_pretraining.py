"""Pretraining of speech and text with shared stacks (Ao et al. 2022, §2.3, https://arxiv.org/abs/2110.07205)."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from t5x_like.batch import (
    CLUSTERS,
    SPECTROGRAM_LENGTHS,
    SPECTROGRAMS,
    WAVEFORM_LENGTHS,
    WAVEFORMS,
    Batch,
)
from t5x_like.config_class import config_class
from t5x_like.model.families.family import ExtraLoss, Family, Measure, Predictions
from t5x_like.model.families.segment_memory import Memory
from t5x_like.model.families.speech_and_text import SpeechPretrainingModel
from t5x_like.model.families.speech_encoder_decoder import (
    COARSE_SPECTROGRAM,
    SPECTROGRAM,
    STOP,
    EncodedSpeech,
)
from t5x_like.model.layers.dropout import fold
from t5x_like.model.layers.routing_sums import add_routing
from t5x_like.model.layers.spec_augment import draw_spans
from t5x_like.model.layers.vector_quantizer import GumbelTemperature
from t5x_like.model.layers.waveform_encoder import WaveformEncoderConfig
from t5x_like.model.parameters import ModelConfig
from t5x_like.model.spectrogram_loss import STOP_WEIGHT, PartialMean, spectrogram_losses
from t5x_like.model.zoo.speecht5 import SpeechT5Config
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.training import losses
from t5x_like.training.methods.method import LossContext, TrainingMethod
from t5x_like.training.methods.speech_synthesis import with_frames
from t5x_like.training.metrics import Totals
from t5x_like.training.microbatches import MODEL, Memories, Microbatch

_HIDDEN, _MIX_SPEECH, _MIX_TEXT = 10, 11, 12  # sites of the key that are no dropout
_MIN_SPANS = 2  # of a row, as in HuBERT's code


@config_class
class SpeechPretraining(TrainingMethod):
    """Minimizes the losses of hidden frames' clusters, of spectrograms, of infilled text, and of unused codes.

    A row has a recording and an unpaired text. Batches have the streams of text, and the declared streams of
    ``streams``; ``speakers`` may be among them. The decoder reads the encoder's output, of which a share is quantized.

    The mean cross entropy of text is over the targets of the whole batch. With microbatches, each one has its own means
    of the other losses. Held-out rows have the same hidden frames and quantized positions in each evaluation.

    Attributes:
      cluster_weight: Weight of the mean cross entropy of hidden frames' clusters (eq. 2).
      spectrogram_weight: Weight of the mean distances of frames before and after the postnet's convolutions (eq. 3).
      stop_weight: Weight of the mean loss of stop flags.
      text_weight: Weight of the mean cross entropy of the text's tokens (eq. 5).
      diversity_weight: Weight of the share of unused codes, for speech and for text (the paper's gamma).
      span_start_rate: Share of frames at which a hidden span begins (Hsu et al. 2021, §4.1: 8 %).
      span_length: Frames of a hidden span.
      mix_rate: Share of the encoder's outputs that the decoder reads quantized (§2.3: 10 %).
      temperature: Temperature of the quantizer's Gumbel softmax.
      last_frame_weight: Weight of a row's last frame in the loss of stop flags, in place of 1.
    """

    cluster_weight: float = 1.0
    spectrogram_weight: float = 1.0
    stop_weight: float = 1.0
    text_weight: float = 1.0
    diversity_weight: float = 0.1
    span_start_rate: float = 0.08
    span_length: int = 10
    mix_rate: float = 0.1
    temperature: GumbelTemperature = GumbelTemperature()
    last_frame_weight: float = STOP_WEIGHT

    measures: ClassVar[tuple[str, ...]] = (
        "cluster_loss",
        "cluster_accuracy",
        "coarse_l1",
        "refined_l1",
        "stop",
        "speech_diversity_loss",
        "speech_code_perplexity",
        "text_diversity_loss",
        "text_code_perplexity",
    )

    def __post_init__(self) -> None:
        weights = ("cluster", "spectrogram", "stop", "text", "diversity", "last_frame")
        for name in (f"{each}_weight" for each in weights):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; give 0 or more")
        for name in ("span_start_rate", "mix_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a share from 0 to 1")
        if self.span_length < 1:
            raise ValueError(f"span_length is {self.span_length}; give 1 or more, as HuBERT's 10")

    def streams(self) -> Sequence[str]:
        """Return the streams of recordings, their spectrograms and clusters."""
        return WAVEFORMS, WAVEFORM_LENGTHS, SPECTROGRAMS, SPECTROGRAM_LENGTHS, CLUSTERS

    def check(self, model: ModelConfig, loader: object, train: LoaderConfig) -> None:
        """Check that the model has nets for speech and text, and a vector of hidden frames."""
        if not isinstance(model, SpeechT5Config) or model.task != "speech_pretraining":
            raise ValueError(
                f"SpeechPretraining needs a model with nets for speech and text, and this is a {type(model).__name__} "
                f"for {getattr(model, 'task', None)}; take SpeechT5Config with task='speech_pretraining'"
            )
        if not model.augment.has_vector:
            raise ValueError(
                "the model has no vector for hidden frames, since its augment has time_rate=0 and feature_rate=0; give "
                "a rate above 0, which fine-tuning hides"
            )

    def compute_loss(
        self, model: Family, microbatch: Microbatch, context: LossContext
    ) -> tuple[jax.Array, tuple[Totals, Memories]]:
        """Return the sum of all losses; see ``TrainingMethod``."""
        predictions = self._predict(model, microbatch.batch, context)
        total, totals = self.total(predictions, microbatch, context, label_weight=self.text_weight)
        return total, (totals, {MODEL: None})

    def measure(
        self, model: Family, microbatch: Microbatch, context: LossContext
    ) -> tuple[Totals, Memory | None]:
        """Return the sums to log of held-out rows, those of all losses."""
        batch = microbatch.batch
        predictions = self._predict(model, batch, context)
        return losses.measure(predictions, batch, self.loss, context.num_tasks, context.label_loss), None

    def _predict(self, model: Family, batch: Batch, context: LossContext) -> Predictions:
        """Return the predictions of text, with all other losses."""
        assert isinstance(model, SpeechPretrainingModel)
        speech = self._speech(model, Batch(declared=batch.declared), context)
        text = self._text(model, batch._replace(declared=None), context)
        return text._replace(
            extra_losses={**(speech.extra_losses or {}), **(text.extra_losses or {})},
            measures={**(speech.measures or {}), **(text.measures or {})},
            routing=add_routing(speech.routing, text.routing),
        )

    def _speech(self, model: SpeechPretrainingModel, batch: Batch, context: LossContext) -> Predictions:
        key, postnet = context.dropout_key, model.speech.postnet
        assert postnet is not None, "a model of speech has one"
        batch, frames, real = with_frames(batch, postnet.config.reduction_factor)
        assert batch.declared is not None
        is_hidden = self.hidden_frames(model, batch.declared.example, key)
        encoded = model.speech.encode(batch, fold(key, 0), is_hidden=is_hidden)
        clusters = cluster_losses(model.clusters(encoded.output), batch.declared.example[CLUSTERS], is_hidden)
        mixed, mixing = self._mix(model, encoded, context, _MIX_SPEECH, "speech")
        predictions = model.speech.decode(batch, mixed, dropout_key=fold(key, 1))
        heads = predictions.heads or {}
        means = spectrogram_losses(
            heads[COARSE_SPECTROGRAM],
            heads[SPECTROGRAM],
            heads[STOP],
            frames,
            real,
            last_weight=self.last_frame_weight,
        )
        weights = dict.fromkeys(means, self.spectrogram_weight) | {"stop": self.stop_weight}
        parts = context.normalizers.parts
        extra = {name: _extra(mean, weights[name], parts) for name, mean in means.items()}
        extra["cluster_loss"] = _extra(clusters.loss, self.cluster_weight, parts)
        accuracy = Measure(*clusters.accuracy)
        return predictions._replace(
            heads=None,
            extra_losses={**extra, **(mixing.extra_losses or {})},
            measures={"cluster_accuracy": accuracy, **(mixing.measures or {})},
        )

    def _text(self, model: SpeechPretrainingModel, batch: Batch, context: LossContext) -> Predictions:
        key, text = context.dropout_key, model.text
        encoded = text.encode(batch, fold(key, 2))
        mixed, mixing = self._mix(model, encoded, context, _MIX_TEXT, "text")
        predictions = text.decode(batch, mixed, dropout_key=fold(key, 3))
        return predictions._replace(extra_losses=mixing.extra_losses, measures=mixing.measures)

    def hidden_frames(
        self, model: SpeechPretrainingModel, streams: Mapping[str, jax.Array], key: jax.Array | None
    ) -> jax.Array:
        """Return True for the encoder's frames that are hidden, bool [B, M].

        Args:
          model: Model that reads waveforms.
          streams: Waveforms, and their lengths if they differ.
          key: Random key of the microbatch; ``None`` hides the same frames every time.
        """
        net = model.speech.config.encoder_input
        assert isinstance(net, WaveformEncoderConfig), "a model of speech to speech reads waveforms"
        waveforms = streams[WAVEFORMS]
        size = net.num_frames(waveforms.shape[1])
        num_samples = streams.get(WAVEFORM_LENGTHS)
        lengths = jnp.full(len(waveforms), size) if num_samples is None else net.num_frames(num_samples)
        rate = self.span_start_rate * self.span_length
        return draw_spans(
            _drawing(key, _HIDDEN),
            lengths,
            size,
            rate=rate,
            length=self.span_length,
            min_spans=_MIN_SPANS if rate > 0 else 0,
        )

    def _mix(
        self,
        model: SpeechPretrainingModel,
        encoded: EncodedSpeech,
        context: LossContext,
        site: int,
        name: str,
    ) -> tuple[EncodedSpeech, Predictions]:
        """Return the decoder's inputs, and the loss and the mean of the codes' use."""
        mixed, use = model.mix(
            encoded,
            rate=self.mix_rate,
            temperature=self.temperature.at(context.step),
            key=_drawing(context.dropout_key, site),
            has_noise=context.dropout_key is not None,
        )
        one = jnp.ones(())
        loss = _extra(PartialMean(use.diversity_loss, one), self.diversity_weight, context.normalizers.parts)
        return mixed, Predictions(
            extra_losses={f"{name}_diversity_loss": loss},
            measures={f"{name}_code_perplexity": Measure(use.perplexity, one)},
        )


class ClusterMeans(NamedTuple):
    """Means over hidden frames with a cluster.

    Attributes:
      loss: Cross entropy.
      accuracy: Share of frames whose cluster has the highest score.
    """

    loss: PartialMean
    accuracy: PartialMean


def cluster_losses(scores: jax.Array, clusters: jax.Array, is_hidden: jax.Array) -> ClusterMeans:
    """Return the means of the prediction of clusters.

    Args:
      scores: Scores of clusters for each frame, float32 [B, M, C].
      clusters: Cluster of each frame, int32 [B, F]; -1 for none, as frames after the last one have.
      is_hidden: True for frames that count, bool [B, M].
    """
    size = scores.shape[1]
    clusters = jnp.pad(
        clusters[:, :size], ((0, 0), (0, max(size - clusters.shape[1], 0))), constant_values=-1
    )
    counts = is_hidden & (clusters >= 0)
    # A cluster that the head lacks gives not-a-number.
    wanted = jnp.where(counts, clusters, 0)[..., None]
    chosen = jnp.take_along_axis(jax.nn.log_softmax(scores), wanted, axis=-1, mode="fill")[..., 0]
    is_right = counts & (jnp.argmax(scores, axis=-1) == clusters)
    sums = (jnp.where(counts, -chosen, 0.0), is_right, counts)
    total, correct, count = (jnp.sum(each, dtype=jnp.float32) for each in sums)
    return ClusterMeans(PartialMean(total, count), PartialMean(correct, count))


def _extra(mean: PartialMean, weight: float, parts: int | jax.Array) -> ExtraLoss:
    return ExtraLoss(mean.total, weight, mean.count, divisor=jnp.maximum(mean.count, 1.0) * parts)


def _drawing(key: jax.Array | None, site: int) -> jax.Array:
    """Return the key of a draw that held-out rows have, too."""
    return jax.random.fold_in(jax.random.key(0) if key is None else key, site)
