"""Contrastive learning of vectors: texts of a pair become neighbors, and other texts of the batch do not."""

from collections.abc import Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp

from t5x_like.config_class import config_class
from t5x_like.model.families.family import ExtraLoss, Family, Measure, predict
from t5x_like.model.multiple_choice import flatten_choices, num_choices
from t5x_like.model.parameters import ModelConfig
from t5x_like.text.batches.loader import Loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.training.losses import LossConfig
from t5x_like.training.methods.method import LossContext, OwnLossMethod
from t5x_like.training.metrics import Totals
from t5x_like.training.microbatches import Memories, Microbatch


@config_class
class Contrastive(OwnLossMethod):
    """Each example has two texts that belong together, and perhaps further ones that don't (hard negatives).

    The first text is compared with the other texts of all examples of the batch, by the cosine of mean hidden states.
    The loss is the cross entropy of its own second text among them (Gao et al. 2021, SimCSE, section 4,
    https://arxiv.org/abs/2104.08821). With microbatches, each one has its own negatives.

    A task reads such examples by ``MultipleChoice(choices=("{query}", "{answer}"), keeps_unlabeled=True)``.

    Attributes:
      temperature: Divides the cosines.
      weight: Stream with the weight of each example, which the task declares; None weighs all alike.
    """

    temperature: float = 0.05
    weight: str | None = None

    measures: ClassVar[tuple[str, ...]] = ("loss", "accuracy")
    learns_unlabeled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"temperature is {self.temperature}; give a positive number, such as 0.05")
        if self.loss != LossConfig(z_loss=self.loss.z_loss):
            raise ValueError(
                "Contrastive has no loss of target tokens or labels; leave the options of loss out"
            )

    def streams(self) -> Sequence[str]:
        """Return the stream of weights, if there is one."""
        return () if self.weight is None else (self.weight,)

    def check(self, model: ModelConfig, loader: Loader, train: LoaderConfig) -> None:
        """Check that each example has at least two texts."""
        if loader.head is None or loader.head[0] != "multiple_choice":
            raise ValueError(
                f"Contrastive compares the texts of an example, and mixture {train.mixture!r} has one text in each; "
                "give its task head=MultipleChoice(choices=('{query}', '{answer}'), keeps_unlabeled=True)"
            )

    def compute_loss(
        self, model: Family, microbatch: Microbatch, context: LossContext
    ) -> tuple[jax.Array, tuple[Totals, Memories]]:
        """Return the mean loss of the examples, and how often a text is nearest to its own second text."""
        batch = microbatch.batch
        predictions = predict(model, batch, dropout_key=context.dropout_key)
        outputs = predictions.encoder_output
        outputs = predictions.decoder_output if outputs is None else outputs
        assert outputs is not None, "the model has no hidden states"
        real = flatten_choices(batch).encoder_segment_ids[..., None] > 0
        sums = jnp.sum(jnp.where(real, outputs.astype(jnp.float32), 0.0), axis=1)
        vectors = sums.reshape(-1, num_choices(batch), sums.shape[-1])
        losses, is_nearest, is_example = contrastive_losses(vectors, temperature=self.temperature)
        weights = is_example
        if self.weight is not None:
            assert batch.declared is not None
            weights = jnp.where(is_example > 0, batch.declared[self.weight], 0.0)
        divisor = jnp.maximum(jnp.sum(weights), 1e-9)
        loss = ExtraLoss(jnp.sum(losses * weights), 1.0, divisor, divisor * context.normalizers.parts)
        accuracy = Measure(jnp.sum(is_nearest * weights), divisor)
        own = predictions._replace(
            extra_losses={**(predictions.extra_losses or {}), "loss": loss},
            measures={**(predictions.measures or {}), "accuracy": accuracy},
        )
        return self.own_total(own, microbatch, context)


def contrastive_losses(vectors: jax.Array, *, temperature: float) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Compare the first vector of each example with the others of all examples.

    Args:
      vectors: Vectors of any length, float32 [B, C, D]; zeros for rows without a text.
      temperature: Divides the cosines.

    Returns:
      The cross entropy of each example's own second vector, 1 where that is the nearest, and 1 for real examples: each
      float32 [B].
    """
    squares = jnp.sum(jnp.square(vectors), axis=-1)
    is_real = squares > 0
    units = vectors * jax.lax.rsqrt(jnp.where(is_real, squares, 1.0))[..., None]
    num_others = vectors.shape[1] - 1
    others, is_other = units[:, 1:].reshape(-1, vectors.shape[-1]), is_real[:, 1:].reshape(-1)
    scores = jnp.where(is_other, units[:, 0] @ others.T / temperature, -1e9)
    own = jnp.arange(len(vectors)) * num_others
    losses = -jnp.take_along_axis(jax.nn.log_softmax(scores), own[:, None], axis=-1)[:, 0]
    is_example = (is_real[:, 0] & is_real[:, 1]).astype(jnp.float32)
    return losses, (jnp.argmax(scores, axis=-1) == own).astype(jnp.float32), is_example
