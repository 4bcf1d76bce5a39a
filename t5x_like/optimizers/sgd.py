"""Stochastic gradient descent, without momentum."""

from typing import cast

import optax
from jaxtyping import PyTree

from t5x_like.config_class import config_class
from t5x_like.optimizers.optimizers import OptimizerConfig, decay_mask


@config_class
class Sgd(OptimizerConfig):
    """``w = w - learning_rate * (gradient + weight_decay_rate * w)``.

    Merity et al. 2018 (§5, https://arxiv.org/abs/1708.02182) train AWD-LSTM with a constant rate of 30, gradients of
    norm 0.25 at most, and ``UniformAverage`` of the weights.

    Attributes:
      weight_decay_rate: Part of the weight that is added to its gradient; norm scales and biases do not decay.
    """

    weight_decay_rate: float = 0.0

    def update_rule(self, axes: PyTree) -> optax.GradientTransformation:
        return optax.chain(
            optax.add_decayed_weights(self.weight_decay_rate, decay_mask(axes)),
            optax.scale_by_learning_rate(cast(optax.Schedule, self.learning_rate)),
        )
