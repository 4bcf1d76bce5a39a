"""Pretraining of models that read entities: the objective's own loss, and that of entities (Zhang et al. 2019)."""

from collections.abc import Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp

from t5x_like.batch import ENTITIES, ENTITY_TARGETS, Batch
from t5x_like.config_class import config_class
from t5x_like.model.families.entity_encoder import ENTITY_HEAD, EntityEncoderConfig, first_mention
from t5x_like.model.families.family import ExtraLoss, Family, Measure, Predictions, predict
from t5x_like.model.families.segment_memory import Memory
from t5x_like.model.parameters import ModelConfig
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.training import losses
from t5x_like.training.methods.method import LossContext, TrainingMethod
from t5x_like.training.metrics import Totals
from t5x_like.training.microbatches import MODEL, Memories, Microbatch


@config_class
class EntityPretraining(TrainingMethod):
    """Adds the loss of the denoising entity autoencoder to those of target tokens and labels (§3.5).

    It is the mean cross entropy of each aligned token's entity among all entities of its row. A row of several examples
    has the entities of all. With microbatches, each one has its own mean.

    Attributes:
      entity_weight: Factor of the loss; the paper adds it as it is. 0 only measures it.
    """

    entity_weight: float = 1.0

    measures: ClassVar[tuple[str, ...]] = ("entity_loss", "entity_accuracy")

    def __post_init__(self) -> None:
        if self.entity_weight < 0:
            raise ValueError(f"entity_weight is {self.entity_weight}; give 0 or more, as the paper's 1")

    def streams(self) -> Sequence[str]:
        """Return the streams of entities and of the right ones."""
        return ENTITIES, ENTITY_TARGETS

    def check(self, model: ModelConfig, loader: object, train: LoaderConfig) -> None:
        """Check that the model reads entities and has a head for them."""
        parts = getattr(model, "parts", None)
        if not isinstance(parts, EntityEncoderConfig):
            raise ValueError(
                f"EntityPretraining needs a model that reads entities, and a {type(model).__name__} reads none; take "
                "EntityBertConfig"
            )
        if not any(head.name == ENTITY_HEAD for head in parts.heads.scores):
            raise ValueError(
                "EntityPretraining needs a model with a head for entities; give it task='pretraining' or 'masked_lm'"
            )

    def compute_loss(
        self, model: Family, microbatch: Microbatch, context: LossContext
    ) -> tuple[jax.Array, tuple[Totals, Memories]]:
        """Return the sum of all losses; see ``TrainingMethod``."""
        predictions = predict(model, microbatch.batch, dropout_key=context.dropout_key)
        predictions = self._with_entities(predictions, microbatch.batch, context.normalizers.parts)
        total, totals = self.total(predictions, microbatch, context)
        return total, (totals, {MODEL: predictions.memory})

    def measure(
        self, model: Family, microbatch: Microbatch, context: LossContext
    ) -> tuple[Totals, Memory | None]:
        """Return the sums to log of held-out rows, that of entities included."""
        batch = microbatch.batch
        predictions = self._with_entities(predict(model, batch), batch, 1)
        totals = losses.measure(predictions, batch, self.loss, context.num_tasks, context.label_loss)
        return totals, predictions.memory

    def _with_entities(
        self, predictions: Predictions, batch: Batch, num_parts: int | jax.Array
    ) -> Predictions:
        assert batch.declared is not None, "checked before training"
        heads = dict(predictions.heads or {})
        total, correct, count = entity_losses(heads.pop(ENTITY_HEAD), batch.declared[ENTITY_TARGETS])
        loss = ExtraLoss(total, self.entity_weight, count, jnp.maximum(count, 1.0) * num_parts)
        return predictions._replace(
            heads=heads,
            extra_losses={**(predictions.extra_losses or {}), "entity_loss": loss},
            measures={**(predictions.measures or {}), "entity_accuracy": Measure(correct, count)},
        )


def entity_losses(scores: jax.Array, targets: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the summed cross entropy of entities, the number predicted right, and the number of all.

    Args:
      scores: Score of each token for the entity at each place of its row, float32 [B, L, L]; see ``entity_scores``.
      targets: Entity of each token, int32 [B, L]; -1 for none.
    """
    own, is_target = first_mention(targets), targets >= 0
    chosen = jnp.take_along_axis(jax.nn.log_softmax(scores), own[..., None], axis=-1)[..., 0]
    is_right = is_target & (jnp.argmax(scores, axis=-1) == own)
    sums = (jnp.where(is_target, -chosen, 0.0), is_right, is_target)
    total, correct, count = (jnp.sum(each, dtype=jnp.float32) for each in sums)
    return total, correct, count
