"""Contrastive learning of vectors: texts of a pair become neighbors, and other texts of the batch do not."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp

from t5x_like.batch import Batch, DataField
from t5x_like.config_class import config_class, refuse_unused
from t5x_like.model.families.family import Family, Measure, Predictions, predict
from t5x_like.model.layers.pooler import VectorPooling, pool
from t5x_like.model.model_traits import traits_of
from t5x_like.model.multiple_choice import flatten_choices, num_choices
from t5x_like.model.parameters import ModelConfig
from t5x_like.model.zoo.model_tasks import HEADLESS_TASKS
from t5x_like.pretrained.sentence_transformers import SentenceEmbedding
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.training import losses
from t5x_like.training.losses import LossConfig
from t5x_like.training.losses.text_vectors import (
    TextVectors,
    cosine_losses,
    in_batch_losses,
    is_nearest,
    margin_mse_losses,
    triplet_losses,
)
from t5x_like.training.methods.joint_method import JointMethod, Represented
from t5x_like.training.methods.method import LossContext
from t5x_like.training.metrics import Totals, zero_totals
from t5x_like.training.microbatches import MODEL, Microbatch

# Fewest texts of an example, by loss.
_NUM_TEXTS = {"in_batch": 1, "triplet": 3, "cosine": 2, "margin_mse": 3}
_HEADS = (*HEADLESS_TASKS, "multiple_choice")


@config_class
class Contrastive(JointMethod):
    """Each example has two texts that belong together, and perhaps further ones that don't (hard negatives).

    With the loss ``"in_batch"`` the first text is compared with the other texts of all examples of the batch, by the
    cosines of their vectors. The loss is the cross entropy of its own second text among them (Gao et al. 2021, SimCSE,
    section 4, https://arxiv.org/abs/2104.08821). An example of one text is read twice, and the two vectors differ by
    dropout alone (section 3). Without ``across_microbatches``, each microbatch has its own negatives.

    ``TextTuple`` and ``text_tuples`` read such examples.

    Attributes:
      temperature: Divides the cosines.
      weight: Stream with the weight of each example, which the task declares; None weighs all alike.
      loss_type: ``"triplet"`` raises the cosine of first and second text above those of the example's own further
        texts by ``margin``. ``"cosine"`` learns the cosine of two texts from the stream ``score`` (Reimers and
        Gurevych 2019, section 3). ``"margin_mse"`` learns a teacher's margin between second and third text, as the
        difference of inner products (Hofstätter et al. 2020, https://arxiv.org/abs/2010.02666).
      score: Stream with the numbers of ``"cosine"`` and ``"margin_mse"``, which the task declares.
      symmetric: Second texts also look for their first texts, and both losses are averaged, as in CLIP.
      margin: Number that own cosines are lowered by before they are compared, and the margin of ``"triplet"``.
      dimensions: Widths whose losses are averaged, such as ``(768, 256, 64)``: the first dimensions of vectors learn
        to be vectors themselves (Kusupati et al. 2022, https://arxiv.org/abs/2205.13147). Empty for the whole width.
      dimension_weights: Weight of each width; all alike if not given.
      pooling: Vector of a text's tokens (see ``SentenceEmbedding``). The run records it, for ``embed``, serving and
        exports.
      pooler_in_training: Losses read what the model's pooler makes of the first token, a layer with tanh for BERT. It
        is left out afterwards, as in unsupervised SimCSE (section 6.3).
    """

    temperature: float = 0.05
    weight: str | None = None
    loss_type: Literal["in_batch", "triplet", "cosine", "margin_mse"] = "in_batch"
    score: str = "score"
    symmetric: bool = False
    margin: float = 0.0
    dimensions: tuple[int, ...] = ()
    dimension_weights: tuple[float, ...] = ()
    pooling: VectorPooling = "mean"
    pooler_in_training: bool = False

    measures: ClassVar[tuple[str, ...]] = ("loss", "accuracy")
    learns_unlabeled: ClassVar[bool] = True
    compares_texts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"temperature is {self.temperature}; give a positive number, such as 0.05")
        if self.loss != LossConfig(z_loss=self.loss.z_loss):
            raise ValueError(
                "Contrastive has no loss of target tokens or labels; leave the options of loss out"
            )
        if self.margin < 0:
            raise ValueError(f"margin is {self.margin}; give 0 or more")
        because = f"loss_type is {self.loss_type!r}"
        if self.loss_type != "in_batch":
            refuse_unused(self, "temperature", "symmetric", "across_microbatches", because=because)
        if self.loss_type in ("cosine", "margin_mse"):
            refuse_unused(self, "margin", because=because)
        else:
            refuse_unused(self, "score", because=because)
        if self.loss_type == "triplet" and not self.margin:
            raise ValueError("loss_type 'triplet' needs a difference of cosines; give margin, such as 0.3")
        self._check_dimensions()
        if self.pooler_in_training and self.pooling != "first":
            raise ValueError(
                f"pooler_in_training reads the first token, and pooling is {self.pooling!r}; give pooling='first'"
            )

    def _check_dimensions(self) -> None:
        if not self.dimensions:
            refuse_unused(self, "dimension_weights", because="there are no dimensions")
            return
        if len(set(self.dimensions)) < len(self.dimensions) or min(self.dimensions) < 1:
            raise ValueError(
                f"dimensions are {self.dimensions}; give different widths, such as (768, 256, 64)"
            )
        if self.dimension_weights and len(self.dimension_weights) != len(self.dimensions):
            raise ValueError(
                f"there are {len(self.dimensions)} dimensions and {len(self.dimension_weights)} dimension_weights; "
                "give one for each"
            )
        if self.dimension_weights and (min(self.dimension_weights) < 0 or not any(self.dimension_weights)):
            raise ValueError(f"dimension_weights are {self.dimension_weights}; give 0 or more, and not all 0")

    @property
    def sentence_embedding(self) -> SentenceEmbedding:
        """Settings of the vectors that the model learns."""
        return SentenceEmbedding(pooling=self.pooling, normalized=self.loss_type != "margin_mse")

    def streams(self) -> Sequence[str]:
        """Return the streams of weights and scores, if there are any."""
        scores = (self.score,) if self.loss_type in ("cosine", "margin_mse") else ()
        return scores if self.weight is None else (self.weight, *scores)

    def check(self, model: ModelConfig, loader: Any, train: LoaderConfig) -> None:
        """Check that examples have as many texts as the loss compares, and that the model has such vectors."""
        super().check(model, loader, train)
        if loader.head is None or loader.head[0] not in _HEADS:
            raise ValueError(
                f"Contrastive compares the texts of an example, and mixture {train.mixture!r} has one text in each; "
                "give its task head=TextTuple(texts=('{query}', '{answer}'))"
            )
        num_texts = loader.num_rows_of_example
        if num_texts < _NUM_TEXTS[self.loss_type]:
            raise ValueError(
                f"loss_type {self.loss_type!r} compares {_NUM_TEXTS[self.loss_type]} texts of an example, and those of "
                f"mixture {train.mixture!r} have {num_texts}; add columns, or take loss_type='in_batch'"
            )
        if self.loss_type == "in_batch":
            _require_others(train.batch_size, max(num_texts, 2))
        if self.loss_type == "cosine" and num_texts > 2:
            raise ValueError(
                f"loss_type 'cosine' compares two texts, and examples of mixture {train.mixture!r} have {num_texts}; "
                "leave the others out"
            )
        self._check_model(model, num_texts)

    def _check_model(self, model: Any, num_texts: int) -> None:
        traits = traits_of(model)
        if self.dimensions and max(self.dimensions) > traits.model_dim:
            raise ValueError(
                f"dimensions are {self.dimensions}, and the model's vectors have {traits.model_dim}; give at most "
                f"{traits.model_dim}"
            )
        rates = [value for name, value in vars(model).items() if name.endswith("dropout_rate")]
        if num_texts == 1 and rates and not any(rates):
            raise ValueError(
                "examples have one text, whose two readings differ by dropout alone, and the model has none; give a "
                "dropout_rate, such as 0.1 (DROPOUT_RATE in recipes), or a second text"
            )
        if self.pooler_in_training and (traits.task != "base" or model.parts.heads.pooler is None):
            raise ValueError(
                "pooler_in_training needs a model with a pooler, such as a BERT with task='base'; give the training "
                "task head=TextTuple(…, keeps_pooler=True), or leave pooler_in_training out"
            )

    def represent(self, model: Family, microbatch: Microbatch, context: LossContext) -> Represented:
        """Return the vectors of the texts."""
        batch = _with_two_texts(microbatch.batch)
        predictions = predict(model, batch, dropout_key=context.dropout_key)
        is_real = flatten_choices(batch).encoder_segment_ids > 0
        vectors = self._vectors(predictions, is_real)
        rows = vectors.reshape(-1, num_choices(batch), vectors.shape[-1])
        loss, totals = losses.own_total(
            predictions, microbatch.batch, normalizers=context.normalizers, num_tasks=context.num_tasks
        )
        return Represented(rows, loss, totals, {MODEL: predictions.memory})

    def _vectors(self, predictions: Predictions, is_real: jax.Array) -> jax.Array:
        if self.pooler_in_training:
            assert predictions.pooled is not None, "the model has no pooler"
            return predictions.pooled.astype(jnp.float32)
        outputs = predictions.encoder_output
        outputs = predictions.decoder_output if outputs is None else outputs
        assert outputs is not None, "the model has no hidden states"
        return pool(outputs.astype(jnp.float32), is_real, self.pooling)

    def compare(
        self, rows: jax.Array, microbatch: Microbatch, context: LossContext
    ) -> tuple[jax.Array, Totals]:
        """Return the mean loss of the examples, and how often a text is nearest to its own second text."""
        if self.loss_type == "in_batch":
            _require_others(*rows.shape[:2])
        batch = microbatch.batch
        texts = TextVectors(rows, jnp.any(_with_two_texts(batch).encoder_segment_ids > 0, axis=-1))
        weights = texts.is_example.astype(jnp.float32)
        if self.weight is not None:
            weights = self._numbers(self.weight, texts, batch)
        divisor = jnp.maximum(jnp.sum(weights), 1e-9)
        total = jnp.sum(self._losses(texts, batch) * weights)
        num_nearest = jnp.sum(is_nearest(texts.units()) * weights)
        counted = (
            jnp.zeros(()) if self.loss_type == "cosine" else divisor
        )  # dissimilar pairs are no neighbors
        measures = {"loss": Measure(total, divisor), "accuracy": Measure(num_nearest, counted)}
        return total / divisor, zero_totals(context.num_tasks)._replace(measures=measures)

    @staticmethod
    def _numbers(stream: str, texts: TextVectors, batch: Batch) -> jax.Array:
        """Return a declared stream, 0 for rows that fill up the batch."""
        assert batch.declared is not None
        return jnp.where(texts.is_example, batch.declared[stream], 0.0)

    def _losses(self, texts: TextVectors, batch: Batch) -> jax.Array:
        """Return the loss of each example: the weighted mean over widths."""
        widths = self.dimensions or (texts.vectors.shape[-1],)
        weights = self.dimension_weights or (1.0,) * len(widths)
        of_widths = [
            weight * self._losses_of(texts.first(width), batch)
            for width, weight in zip(widths, weights, strict=True)
        ]
        return sum(of_widths, jnp.zeros(())) / sum(weights)

    def _losses_of(self, texts: TextVectors, batch: Batch) -> jax.Array:
        match self.loss_type:
            case "margin_mse":
                return margin_mse_losses(texts, self._numbers(self.score, texts, batch))
            case "cosine":
                return cosine_losses(texts.units(), self._numbers(self.score, texts, batch))
            case "triplet":
                return triplet_losses(texts.units(), margin=self.margin)
            case "in_batch":
                return in_batch_losses(
                    texts.units(),
                    temperature=self.temperature,
                    margin=self.margin,
                    symmetric=self.symmetric,
                )


def _with_two_texts(batch: Batch) -> Batch:
    """Return a batch whose examples have at least two texts; a single one is there twice."""
    if num_choices(batch) != 1:
        return batch

    def twice(field: DataField, stream: Any) -> Any:
        return stream if field.level == "example" else jnp.concatenate([stream, stream], axis=1)

    return batch.map(twice)


def _require_others(num_examples: int, num_texts: int) -> None:
    """Check that a text is compared with other texts than its own second one.

    Raises:
      ValueError: There are none.
    """
    if num_examples * (num_texts - 1) < 2:
        raise ValueError(
            f"a batch of {num_examples} example has no other text to compare with; give a larger batch_size, fewer "
            "microbatches, or across_microbatches=True"
        )
