"""Adagrad (Duchi et al. 2011, https://jmlr.org/papers/v12/duchi11a.html): rates that fall as gradients add up."""

import math
from typing import cast

import optax
from jaxtyping import PyTree

from t5x_like.config_class import config_class
from t5x_like.optimizers.optimizers import OptimizerConfig


@config_class
class Adagrad(OptimizerConfig):
    """``w = w - learning_rate * gradient / sqrt(s + epsilon)``, where ``s`` is the sum of all squared gradients.

    Jozefowicz et al. 2016 (§3.3, https://arxiv.org/abs/1602.02410) and ELMo's code train language models with a rate
    of 0.2 and sums that begin at 1.

    Attributes:
      initial_accumulator: Number at which the sums begin, as in TensorFlow. PyTorch begins at 0.
      epsilon: Added to the sums. TensorFlow adds nothing.
    """

    initial_accumulator: float = 0.1
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("initial_accumulator", "epsilon"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; give 0 or a positive number")

    def update_rule(self, axes: PyTree) -> optax.GradientTransformation:  # noqa: ARG002
        return optax.chain(
            optax.scale_by_rss(initial_accumulator_value=self.initial_accumulator, eps=self.epsilon),
            optax.scale_by_learning_rate(cast(optax.Schedule, self.learning_rate)),
        )
