"""Methods whose loss compares the rows of a batch with each other."""

from abc import abstractmethod
from typing import NamedTuple

import jax
from jaxtyping import PyTree

from t5x_like.config_class import config_class
from t5x_like.model.families.family import Family
from t5x_like.model.model_traits import traits_of
from t5x_like.model.parameters import ModelConfig
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.training.gradient_cache import cached_gradients
from t5x_like.training.methods.method import LossContext, OfWeights, OwnLossMethod
from t5x_like.training.metrics import Totals
from t5x_like.training.microbatches import MODEL, Memories, Microbatch


class Represented(NamedTuple):
    """Rows of a microbatch as the comparison reads them.

    Attributes:
      rows: float32 arrays with one entry for each example.
      loss: Loss of the microbatch by itself, such as that of load balancing.
      totals: Sums to log of the microbatch by itself.
      memories: Memories of its rows for the next batch.
    """

    rows: PyTree
    loss: jax.Array
    totals: Totals
    memories: Memories


@config_class
class JointMethod(OwnLossMethod):
    """Base of methods that represent each example, and compare those of the batch.

    Attributes:
      across_microbatches: Compare the examples of all microbatches, as without microbatches. Each is computed twice,
        and the memory is that of one (GradCache, Gao et al. 2021, https://arxiv.org/abs/2101.06983).
    """

    across_microbatches: bool = False

    @abstractmethod
    def represent(self, model: Family, microbatch: Microbatch, context: LossContext) -> Represented:
        """Return the examples of a microbatch as ``compare`` reads them.

        Args:
          model: The trained model.
          microbatch: Rows.
          context: Normalizers and dropout key.
        """

    @abstractmethod
    def compare(self, rows: PyTree, microbatch: Microbatch, context: LossContext) -> tuple[jax.Array, Totals]:
        """Return the mean loss of examples, and the sums to log.

        Args:
          rows: Representations of the examples.
          microbatch: The examples.
          context: Number of tasks.
        """

    def check(self, model: ModelConfig, loader: object, train: LoaderConfig) -> None:
        """Check that rows don't continue those of the batch before, where microbatches are joined."""
        carried = traits_of(model).carried_memory
        if self.across_microbatches and carried is not None:
            raise ValueError(
                f"across_microbatches computes each microbatch twice, and {carried.setting}; give {carried.without}, "
                "or leave across_microbatches out"
            )

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
        if num_parts == 1 or not self.across_microbatches:
            return super().gradients(
                of_weights, trained, whole, dropout_key, num_parts=num_parts, num_filled=num_filled
            )

        def compare(rows: PyTree) -> tuple[jax.Array, Totals]:
            part = of_weights(lambda _, microbatch, context: self.compare(rows, microbatch, context))
            return part(trained, whole, dropout_key)

        represent = of_weights(lambda *arguments: self.represent(*arguments)[:3])
        gradients, totals = cached_gradients(
            represent, compare, trained, whole, dropout_key, num_parts=num_parts
        )
        return gradients, totals, {}

    def compute_loss(
        self, model: Family, microbatch: Microbatch, context: LossContext
    ) -> tuple[jax.Array, tuple[Totals, Memories]]:
        represented = self.represent(model, microbatch, context)
        loss, totals = self.compare(represented.rows, microbatch, context)
        measures = {**represented.totals.measures, **totals.measures}
        return represented.loss + loss / context.normalizers.parts, (
            represented.totals._replace(measures=measures),
            {MODEL: represented.memories.get(MODEL)},
        )
