"""Generative classification of rows by prefixes: the loss of contrastive prefixes (Qian et al. 2022).

https://arxiv.org/abs/2202.13257, §3.1.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array

from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model.families.family import ExtraLoss, Measure, Predictions
from t5x_like.model.heads import whole_logits

MEASURES = ("discriminative_loss", "attribute_accuracy")
TAKE_ONE = (
    "this model has a prefix for each of several attributes, and a text is read or written with one of them: make a "
    "run of that one with t5x-like convert --attribute NAME --from RUN --to DIR"
)


@config_class
class AttributeContrast:
    """Reads each row once with the prefix of every attribute. The row's own attribute is the number of its task.

    The discriminative loss of a row ``x`` with attribute ``y`` is ``-log(p(x | y) / sum over y' of p(x | y'))``, where
    ``p(x | y)`` is the probability of all its targets after prefix ``y``, and attributes are equally frequent.

    Attributes:
      num_attributes: Number of prefixes.
      weight: Factor of the discriminative loss; that of the language model's loss is 1.
    """

    num_attributes: int
    weight: float

    def __call__(self, predict: Callable[[Batch], Predictions], batch: Batch) -> Predictions:
        """Return the predictions after each row's own prefix, and the discriminative loss.

        Args:
          predict: Reads a batch whose rows are in equal groups, one for each attribute in order.
          batch: Rows with targets and tasks.

        Raises:
          ValueError: The batch has no targets and tasks.
        """
        if batch.task_ids is None or batch.target_tokens is None or batch.loss_weights is None:
            raise ValueError(TAKE_ONE)
        num_rows = batch.target_tokens.shape[0]
        everywhere = jax.tree.map(lambda rows: jnp.concatenate([rows] * self.num_attributes), batch)
        predictions = predict(everywhere)
        assert predictions.logits is not None, "prefixes that are contrasted need a language model"
        logits = whole_logits(predictions.logits)
        logits_KBLV = logits.reshape(self.num_attributes, num_rows, *logits.shape[1:])
        chosen_KBL = jnp.take_along_axis(logits_KBLV, batch.target_tokens[None, ..., None], axis=-1)[..., 0]
        likelihoods_KBL = chosen_KBL - jax.nn.logsumexp(logits_KBLV, axis=-1)
        likelihoods_KB = jnp.sum(likelihoods_KBL * batch.loss_weights[None], axis=-1)
        has_targets_B = jnp.any(batch.loss_weights > 0, axis=-1)
        own_B = jnp.max(jnp.where(batch.loss_weights > 0, batch.task_ids, 0), axis=-1)
        losses_B = -jnp.take_along_axis(jax.nn.log_softmax(likelihoods_KB, axis=0), own_B[None], axis=0)[0]
        is_right_B = (jnp.argmax(likelihoods_KB, axis=0) == own_B) & has_targets_B

        def own(rows: Array | None) -> Array | None:
            if rows is None:
                return None
            return rows.reshape(self.num_attributes, num_rows, *rows.shape[1:])[own_B, jnp.arange(num_rows)]

        return Predictions(
            logits=own(logits),
            decoder_output=own(predictions.decoder_output),
            routing=predictions.routing,
            extra_losses={"discriminative_loss": ExtraLoss(jnp.sum(losses_B * has_targets_B), self.weight)},
            measures={"attribute_accuracy": Measure(_count(is_right_B), _count(has_targets_B))},
        )


def _count(rows: Array) -> Array:
    return jnp.sum(rows).astype(jnp.float32)
