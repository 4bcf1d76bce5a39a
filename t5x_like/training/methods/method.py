"""A training method: the loss of a batch, the frozen models that it reads, and what it logs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model.families.family import Family, Measure, Predictions, predict
from t5x_like.model.families.segment_memory import Memory
from t5x_like.model.parameters import ModelConfig
from t5x_like.pretrained.sentence_transformers import SentenceEmbedding
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.objectives.objective import LabelLoss
from t5x_like.training import losses
from t5x_like.training.companions import CompanionSource, FrozenModel
from t5x_like.training.losses import LossConfig, Normalizers
from t5x_like.training.metrics import Totals
from t5x_like.training.microbatches import MODEL, Memories, Microbatch, accumulate


class LossContext(NamedTuple):
    """Arguments of the loss next to model and microbatch.

    Attributes:
      normalizers: Numbers to divide by, of the whole batch.
      num_tasks: Number of tasks in the mixture, whose losses are logged apart.
      dropout_key: Key of the microbatch's dropout; None where rows are only measured.
      companions: Frozen models by name, with their weights.
      label_loss: Loss of the labels in the batch; None for a batch without labels.
      step: Number of the steps before, int32 []; None where rows are only measured.
    """

    normalizers: Normalizers
    num_tasks: int
    dropout_key: jax.Array | None
    companions: Mapping[str, FrozenModel]
    label_loss: LabelLoss | None = None
    step: jax.Array | None = None


# A function of model, microbatch and context -> the same as one of trained weights, microbatch and dropout key.
OfWeights = Callable[[Callable[..., PyTree]], Callable[..., PyTree]]


@config_class
class TrainingMethod:
    """Base of training methods. A subclass changes the loss, and names the frozen models that it reads.

    Attributes:
      loss: Options of the loss over target tokens and labels.
      measures: Names of the means that the method logs, next to those of every run.
      learns_unlabeled: Whether rows without labels teach the model something.
      compares_answers: Whether examples have several ranked answers.
      compares_texts: Whether vectors of texts are compared, by a model without a head.
      has_value_head: Whether the model gets a head that predicts one number of each token.
      numbers: Names of numbers that the method changes during a run, and that are saved with it; at first they are 0.
    """

    loss: LossConfig = field(default_factory=LossConfig)

    measures: ClassVar[tuple[str, ...]] = ()
    learns_unlabeled: ClassVar[bool] = False
    compares_answers: ClassVar[bool] = False
    compares_texts: ClassVar[bool] = False
    has_value_head: ClassVar[bool] = False
    numbers: ClassVar[tuple[str, ...]] = ()

    def companions(self, model: Any) -> Mapping[str, CompanionSource]:
        """Return where the frozen models are that the loss reads, by name.

        Args:
          model: Configuration of the trained model.
        """
        return {}

    def streams(self) -> Sequence[str]:
        """Return the names of streams that the loss reads and tasks declare; see ``PairsTask.streams``."""
        return ()

    def model_head(self, head: tuple[str, int, str | None]) -> tuple[str, int, str | None]:
        """Return the head that the model needs for rows of a head; by default the same.

        Args:
          head: Kind of the rows' head, its number of scores, and "multi_label" for several labels of a row.
        """
        return head

    def with_heads(self, model: ModelConfig) -> ModelConfig:
        """Return the model with further heads that the loss reads; by default the same.

        Args:
          model: Configuration of the trained model.
        """
        return model

    def check(self, model: ModelConfig, loader: object, train: LoaderConfig) -> None:
        """Check that the model, the data and the frozen models fit each other; no weights are read.

        Args:
          model: Configuration of the trained model.
          loader: Loader of the training data: its vocabulary and head.
          train: Configuration of that data.

        Raises:
          ValueError: They don't.
        """

    @property
    def sentence_embedding(self) -> SentenceEmbedding | None:
        """Settings of the vectors that the model learns, which the run records; ``None`` for other methods."""
        return None

    def gradients(
        self,
        of_weights: OfWeights,
        trained: PyTree,
        whole: Microbatch,
        dropout_key: jax.Array,
        *,
        num_parts: int,
        num_filled: jax.Array | None = None,
    ) -> tuple[PyTree, Totals, Memories]:
        """Return the gradients of a batch, the sums to log, and memories of the rows for the next batch.

        Args:
          of_weights: Turns a function of model, microbatch and context into one of trained weights, microbatch and
            dropout key.
          trained: Weights to differentiate by.
          whole: The batch.
          dropout_key: Key of its dropout.
          num_parts: Number of microbatches.
          num_filled: Number of the first microbatches to compute, int32 []; ``None`` computes all.
        """
        gradient = jax.grad(of_weights(self.compute_loss), has_aux=True)
        return accumulate(gradient, trained, whole, dropout_key, num_parts=num_parts, num_filled=num_filled)

    def defers_logits(self, model: Family, batch: Batch) -> bool:
        """Return whether the loss computes the logits itself, of a few positions at a time.

        Args:
          model: The trained model.
          batch: Batch of a step.
        """
        return self.loss.logits_chunk_length is not None

    def compute_loss(
        self, model: Family, microbatch: Microbatch, context: LossContext
    ) -> tuple[jax.Array, tuple[Totals, Memories]]:
        """Return the loss of a microbatch, the sums to log, and memories of the rows for the next batch.

        Args:
          model: The trained model.
          microbatch: Rows with targets.
          context: Normalizers, dropout key and frozen models.

        Returns:
          Loss, float32 []; the sums; and ``predictions.memory`` of each model that the method ran, by name: ``MODEL``
          for the trained one. A memory that is left out stays as it is.
        """
        predictions = predict(
            model, microbatch.batch, dropout_key=context.dropout_key, memory=microbatch.memories.get(MODEL)
        )
        total, totals = self.total(predictions, microbatch, context)
        return total, (totals, {MODEL: predictions.memory})

    def measure(
        self, model: Family, microbatch: Microbatch, context: LossContext
    ) -> tuple[Totals, Memory | None]:
        """Return the sums to log of held-out rows, and the trained model's memory of them.

        They are the loss of targets and labels. A method that learns something else measures that.

        Args:
          model: The trained model.
          microbatch: Rows with targets.
          context: Normalizers and frozen models, and no dropout.
        """
        batch = microbatch.batch
        predictions = predict(model, batch, memory=microbatch.memories.get(MODEL))
        measured = losses.measure(predictions, batch, self.loss, context.num_tasks, context.label_loss)
        unmeasured = {name: Measure(jnp.zeros(()), jnp.zeros(())) for name in self.measures}
        return measured._replace(measures={**unmeasured, **measured.measures}), predictions.memory

    def total(
        self,
        predictions: Predictions,
        microbatch: Microbatch,
        context: LossContext,
        *,
        label_weight: float = 1.0,
    ) -> tuple[jax.Array, Totals]:
        """Return the loss from targets and labels, and the sums to log.

        Args:
          predictions: Predictions of the trained model; their ``extra_losses`` are added.
          microbatch: What it has read.
          context: Normalizers and number of tasks.
          label_weight: Weight of the losses from targets and labels.
        """
        return losses.total(
            predictions,
            microbatch.batch,
            self.loss,
            weights=microbatch.weights,
            normalizers=context.normalizers,
            num_tasks=context.num_tasks,
            label_loss=context.label_loss,
            label_weight=label_weight,
        )


@config_class
class OwnLossMethod(TrainingMethod):
    """Base of methods whose whole loss is their own. Held-out rows are measured by it, too."""

    def refuse_token_options(self, because: str) -> None:
        """Refuse options of the loss over target tokens, except those of memory.

        Args:
          because: Reason, as a clause.

        Raises:
          ValueError: One of them is given.
        """
        kept = LossConfig(z_loss=self.loss.z_loss, logits_chunk_length=self.loss.logits_chunk_length)
        if self.loss != kept:
            raise ValueError(
                f"{type(self).__name__} {because}; of LossConfig it reads logits_chunk_length alone"
            )

    def measure(
        self, model: Family, microbatch: Microbatch, context: LossContext
    ) -> tuple[Totals, Memory | None]:
        totals, memories = self.compute_loss(model, microbatch, context)[1]
        return totals, memories[MODEL]

    def own_total(
        self, predictions: Predictions, microbatch: Microbatch, context: LossContext
    ) -> tuple[jax.Array, tuple[Totals, Memories]]:
        """Return what ``compute_loss`` does, of a method whose whole loss is in ``extra_losses``.

        Args:
          predictions: Predictions of the trained model, with the method's losses and means.
          microbatch: What it has read.
          context: Normalizers and number of tasks.
        """
        total, totals = losses.own_total(
            predictions, microbatch.batch, normalizers=context.normalizers, num_tasks=context.num_tasks
        )
        return total, (totals, {MODEL: predictions.memory})
