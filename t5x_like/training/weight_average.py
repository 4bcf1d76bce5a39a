"""Averages of a run's weights: exponential moving, or uniform from a step on."""

from typing import TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from t5x_like.config_class import config_class
from t5x_like.model.parameters import Parameters


@config_class
class ExponentialMovingAverage:
    """``average = decay * average + (1 - decay) * weights`` after each step (Polyak and Juditsky 1992; Tarvainen 2017).

    The average is a part of the training state: it is sharded like the weights, saved, and continued to the bit.
    Evaluations measure it next to the weights.

    Attributes:
      decay: Share that a step keeps; about the last ``1 / (1 - decay)`` steps count.
      start_step: Step up to which the average is the weights themselves, such as the end of a warm-up.
    """

    decay: float = 0.999
    start_step: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.decay < 1:
            raise ValueError(f"average: decay is {self.decay}; give a share between 0 and 1, such as 0.999")
        if self.start_step < 0:
            raise ValueError(f"average: start_step is {self.start_step}; give 0 or a later step")

    def update(self, average: PyTree, params: Parameters, step: jax.Array) -> PyTree:
        """Return the average after a step.

        Args:
          average: Average before, float32.
          params: Weights after the step.
          step: Number of the step, from 1 on.
        """
        decay = jnp.where(step > self.start_step, self.decay, 0.0)
        return jax.tree.map(
            lambda old, new: decay * old + (1.0 - decay) * new.astype(jnp.float32), average, params
        )


@config_class
class UniformAverage:
    """Mean of the weights after each step from ``start_step`` on: averaged SGD (Polyak and Juditsky 1992).

    Merity et al. 2018 (§3, https://arxiv.org/abs/1708.02182) begin it when the validation loss has stopped falling.
    Here the step is given. The average is a part of the training state, as ``ExponentialMovingAverage`` is.

    Attributes:
      start_step: First step that counts; up to it the average is the weights themselves.
    """

    start_step: int

    def __post_init__(self) -> None:
        if self.start_step < 0:
            raise ValueError(f"average: start_step is {self.start_step}; give 0 or a later step")

    def update(self, average: PyTree, params: Parameters, step: jax.Array) -> PyTree:
        """Return the average after a step; see ``ExponentialMovingAverage.update``."""
        part = 1.0 / jnp.maximum(step - max(self.start_step, 1) + 1, 1)
        return jax.tree.map(lambda old, new: old + part * (new.astype(jnp.float32) - old), average, params)


WeightAverage: TypeAlias = ExponentialMovingAverage | UniformAverage
