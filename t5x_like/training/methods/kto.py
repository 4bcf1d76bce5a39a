"""KTO: answers are good or bad each by itself, and no two of them answer one prompt.

Ethayarajh et al. 2024, KTO: Model Alignment as Prospect Theoretic Optimization, https://arxiv.org/abs/2402.01306.
"""

from collections.abc import Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp

from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model.families.family import ExtraLoss, Measure
from t5x_like.text.tasks.preferences import DESIRABLE
from t5x_like.training.losses.answer_pairs import AnswerScores
from t5x_like.training.methods.method import LossContext
from t5x_like.training.methods.reference_method import ReferenceMethod


@config_class
class KTO(ReferenceMethod):
    """A model learns that desirable answers are worth more, and undesirable ones less, than a point of reference.

    Tasks are ``DesirabilityTask``. The point of reference is the divergence of model and reference, estimated by the
    log-ratios of answers to other prompts (eq. 8, and section 4.1). Each microbatch has its own, without a gradient.

    Attributes:
      desirable_weight: Weight of desirable answers. With fewer of these than of the others, weights times numbers of
        rows should be nearly equal (section 4.2).
      undesirable_weight: Weight of undesirable answers.
    """

    desirable_weight: float = 1.0
    undesirable_weight: float = 1.0

    measures: ClassVar[tuple[str, ...]] = (
        "loss",
        "kl",
        "desirable_reward",
        "undesirable_reward",
        "desirable_logp",
        "undesirable_logp",
    )
    task_class: ClassVar[str] = "DesirabilityTask"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("desirable_weight", "undesirable_weight"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; give 0 or more")

    def streams(self) -> Sequence[str]:
        """Return the stream of what is desirable."""
        return (DESIRABLE,)

    def losses_of(
        self, scores: AnswerScores, batch: Batch, context: LossContext
    ) -> tuple[dict[str, ExtraLoss], dict[str, Measure]]:
        assert batch.declared is not None, "the task declares what is desirable"
        is_example = scores.num_tokens[:, 0] > 0
        is_good = is_example & (batch.declared[DESIRABLE] > 0.5)
        is_bad = is_example & ~is_good
        own, mismatched = scores.log_ratio[:, 0], scores.log_ratio[:, 1]
        num_examples = jnp.sum(is_example, dtype=jnp.float32)
        divergence = jnp.sum(jnp.where(is_example, mismatched, 0.0)) / jnp.maximum(num_examples, 1.0)
        point = jax.lax.stop_gradient(jnp.maximum(divergence, 0.0))
        gains = jax.nn.sigmoid(self.beta * jnp.where(is_good, own - point, point - own))
        weights = jnp.where(is_good, self.desirable_weight, self.undesirable_weight)
        losses = jnp.where(is_example, weights * (1 - gains), 0.0)
        extra = {"loss": ExtraLoss(jnp.sum(losses), 1.0, num_examples, context.normalizers.examples)}
        measures = {"kl": Measure(point * num_examples, num_examples)}
        for name, chosen in (("desirable", is_good), ("undesirable", is_bad)):
            count = jnp.sum(chosen, dtype=jnp.float32)
            rewards, logps = (
                jnp.sum(jnp.where(chosen, each, 0.0)) for each in (self.beta * own, scores.logp[:, 0])
            )
            measures |= {f"{name}_reward": Measure(rewards, count), f"{name}_logp": Measure(logps, count)}
        return extra, measures
