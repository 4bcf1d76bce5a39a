"""Schedule-free AdamW (Defazio et al. 2024, https://arxiv.org/abs/2405.15682): an average in place of a falling rate.

The weights of a run are the average, ``x`` in the paper. Whoever reads them gets it: validation, evaluation, saved
steps, exports. Only the train step computes its gradients elsewhere, at ``y``.
"""

from dataclasses import field
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PyTree

from t5x_like.config_class import config_class
from t5x_like.optimizers.optimizers import OptimizerConfig, check_fraction, decay_mask
from t5x_like.optimizers.schedules import Constant, Schedule


@config_class
class ScheduleFreeAdamW(OptimizerConfig):
    """AdamW without momentum, whose weights are an average (algorithm 1).

    After each step, with the squared highest rate so far for the weight of a step in the average:

    - gradients are those of ``y = x + (1 - beta1) * (z - x)``;
    - ``z`` takes AdamW's step, without momentum;
    - ``x`` is the average of all ``z``, and is the run's weights.

    Give a learning rate that rises, and then stays: ``WarmupStableDecay`` with ``decay_steps=0``. The state has the
    size of AdamW's; a train step holds one more copy of the weights, ``y``.

    Attributes:
      learning_rate: Rate of ``z``; the authors advise 1 to 10 times that of AdamW with a schedule.
      beta1: Share of ``x`` in ``y``; in the paper 0.9 for short runs, 0.95 or 0.98 for long ones.
      beta2: Part of the averaged squared gradient that an update keeps.
      epsilon: Added to the root of the averaged square.
      weight_decay_rate: Decoupled decay towards 0 from ``y``; norm scales, biases and relative-position tables do not
        decay.
    """

    learning_rate: Schedule | float = field(default_factory=lambda: Constant(value=0.0025))
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay_rate: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("beta1", self.beta1)
        check_fraction("beta2", self.beta2)

    def update_rule(self, axes: PyTree) -> optax.GradientTransformation:
        """Return the rule of ``z``."""
        return optax.chain(
            optax.scale_by_rms(decay=self.beta2, eps=self.epsilon, eps_in_sqrt=False, bias_correction=True),
            optax.add_decayed_weights(self.weight_decay_rate, decay_mask(axes)),
            optax.scale_by_learning_rate(cast(optax.Schedule, self.learning_rate)),
        )

    def build(self, axes: PyTree, factors: PyTree = None) -> optax.GradientTransformation:
        """See ``Optimizer.build``; clipping and factors of the rate belong to the steps of ``z``."""
        return averaging(super().build(axes, factors), cast(Schedule, self.learning_rate), self.beta1)


class ScheduleFreeState(NamedTuple):
    """Averages of a run by ``ScheduleFreeAdamW``.

    Attributes:
      step: int32 [], updates done so far.
      highest_rate: float32 [], highest learning rate so far.
      total: float32 [], sum of the squared highest rates.
      z: Weights that take the steps.
      of_steps: State of the rule of ``z``.
    """

    step: jax.Array
    highest_rate: jax.Array
    total: jax.Array
    z: Any
    of_steps: Any


class ScheduleFreeTransformation(optax.GradientTransformation):
    """Transformation of averaged weights, whose gradients are computed at other weights."""

    beta1: float

    def gradient_weights(self, state: ScheduleFreeState, params: PyTree) -> PyTree:
        """Return the weights at which gradients are computed, ``y``.

        Args:
          state: State of the transformation.
          params: Averaged weights.
        """
        return jax.tree.map(lambda x, z: x + (1.0 - self.beta1) * (z - x), params, state.z)


def averaging(
    rule: optax.GradientTransformation, learning_rate: Schedule, beta1: float
) -> ScheduleFreeTransformation:
    """Return the schedule-free form of a rule without momentum.

    Args:
      rule: Rule of ``z``, the learning rate included.
      learning_rate: Its learning rate, by which steps count in the average.
      beta1: Share of the average in the weights at which gradients are computed.
    """

    def init(params: PyTree) -> ScheduleFreeState:
        zero = jnp.zeros((), jnp.float32)
        z = jax.tree.map(jnp.copy, params)  # steps give away the memory of both
        return ScheduleFreeState(jnp.zeros((), jnp.int32), zero, zero, z, rule.init(params))

    def update(
        updates: PyTree, state: ScheduleFreeState, params: PyTree = None
    ) -> tuple[PyTree, ScheduleFreeState]:
        y = transformation.gradient_weights(state, params)
        steps, of_steps = rule.update(updates, state.of_steps, y)
        z = optax.apply_updates(state.z, steps)
        rate = jnp.maximum(state.highest_rate, learning_rate(state.step))
        total = state.total + rate**2
        share = rate**2 / jnp.where(total > 0, total, 1.0)  # 0 while the rate is 0
        changes = jax.tree.map(lambda x, z: share * (z - x), params, z)
        return changes, ScheduleFreeState(state.step + 1, rate, total, z, of_steps)

    transformation = ScheduleFreeTransformation(init, update)  # pyright: ignore[reportArgumentType]
    transformation.beta1 = beta1
    return transformation


def gradient_weights(transformation: optax.GradientTransformation, state: PyTree, params: PyTree) -> PyTree:
    """Return the weights at which gradients are computed: those that are trained, except in schedule-free runs.

    Args:
      transformation: Optimizer of the weights.
      state: Its state.
      params: Weights that are trained.
    """
    if isinstance(transformation, ScheduleFreeTransformation):
        return transformation.gradient_weights(state, params)
    return params
