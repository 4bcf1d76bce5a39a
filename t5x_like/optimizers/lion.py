"""Lion (Chen et al. 2023, https://arxiv.org/abs/2302.06675): the sign of a momentum, and half of Adam's memory."""

from dataclasses import field
from typing import cast

import optax
from jaxtyping import PyTree

from t5x_like.config_class import config_class
from t5x_like.optimizers.optimizers import OptimizerConfig, check_fraction, decay_mask
from t5x_like.optimizers.schedules import Constant, Schedule


@config_class
class Lion(OptimizerConfig):
    """Lion, by ``optax.lion``.

    Every weight moves by the learning rate in direction of ``sign(beta1 * m + (1 - beta1) * gradient)``; then
    ``m = beta2 * m + (1 - beta2) * gradient``. The paper (§5) uses a learning rate 3 to 10 times smaller than
    AdamW's, and a decay larger by the same factor.

    Attributes:
      beta1: Weight of the momentum in an update.
      beta2: Part of the momentum that an update keeps.
      weight_decay_rate: Decoupled decay; norm scales, biases and relative-position tables do not decay.
    """

    learning_rate: Schedule | float = field(default_factory=lambda: Constant(value=1e-4))
    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay_rate: float = 0.001
    max_gradient_norm: float | None = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("beta1", self.beta1)
        check_fraction("beta2", self.beta2)

    def update_rule(self, axes: PyTree) -> optax.GradientTransformation:
        return optax.lion(
            cast(optax.Schedule, self.learning_rate),
            b1=self.beta1,
            b2=self.beta2,
            weight_decay=self.weight_decay_rate,
            mask=decay_mask(axes),
        )
