"""Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon): orthogonal updates of hidden matrices."""

from dataclasses import field
from typing import cast

import jax
import optax
from jaxtyping import PyTree
from optax.contrib import MuonDimensionNumbers, muon

from t5x_like.config_class import config_class
from t5x_like.optimizers.adafactor import NEVER_FACTORED, Axes, inner_dimensions, is_axes
from t5x_like.optimizers.optax_optimizer import axes_by_path
from t5x_like.optimizers.optimizers import OptimizerConfig, check_fraction, check_positive
from t5x_like.optimizers.schedules import Constant, Schedule, as_schedule

# Matrices with one of these axes hold a vector for each of many things, and are trained by Adam (Jordan et al. 2024).
_TABLE_AXES = frozenset({"vocab", "positions", "classes", "characters", "experts_router"}) | NEVER_FACTORED


@config_class
class Muon(OptimizerConfig):
    """Muon, by ``optax.contrib.muon``, on the hidden matrices; Adam on all other weights.

    A matrix moves by its averaged gradient with nearly equal singular values. Each layer of a stacked weight is a
    matrix of its own. Embeddings, projections to words and classes, norm scales and biases have
    Adam's updates, and don't decay.

    Attributes:
      learning_rate: Rate of the matrices, and of the other weights without ``adam_learning_rate``.
      beta: Part of the averaged gradient that an update keeps.
      nesterov: Adds the newest gradient to the average once more, in Adam's updates, too.
      num_iterations: Newton-Schulz iterations, which make singular values equal.
      consistent_rms: Root mean square of a matrix's update at rate 1; 0.2 is about Adam's, so that both share a rate
        (Liu et al. 2025, §2.2, https://arxiv.org/abs/2502.16982). ``None`` scales by ``sqrt(max(1, out / in))``.
      weight_decay_rate: Decoupled decay of the matrices.
      adam_learning_rate: Rate of the other weights; ``None`` for that of the matrices.
      adam_beta1: Part of the averaged gradient that Adam's update keeps.
      adam_beta2: Part of the averaged squared gradient that Adam's update keeps.
      epsilon: Added to denominators.
    """

    learning_rate: Schedule | float = field(default_factory=lambda: Constant(value=1e-3))
    beta: float = 0.95
    nesterov: bool = True
    num_iterations: int = 5
    consistent_rms: float | None = 0.2
    weight_decay_rate: float = 0.1
    adam_learning_rate: Schedule | float | None = None
    adam_beta1: float = 0.9
    adam_beta2: float = 0.95
    epsilon: float = 1e-8
    max_gradient_norm: float | None = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adam_learning_rate is not None:
            object.__setattr__(self, "adam_learning_rate", as_schedule(self.adam_learning_rate))
        for name in ("beta", "adam_beta1", "adam_beta2"):
            check_fraction(name, getattr(self, name))
        check_positive("consistent_rms", self.consistent_rms)
        if self.num_iterations < 1:
            raise ValueError(f"num_iterations is {self.num_iterations}; give at least 1")

    def update_rule(self, axes: PyTree) -> optax.GradientTransformation:
        return muon(
            cast(optax.Schedule, self.learning_rate),
            ns_steps=self.num_iterations,
            beta=self.beta,
            eps=self.epsilon,
            weight_decay=self.weight_decay_rate,
            nesterov=self.nesterov,
            adam_b1=self.adam_beta1,
            adam_b2=self.adam_beta2,
            adam_learning_rate=cast(optax.Schedule, self.adam_learning_rate),
            muon_weight_dimension_numbers=jax.tree.map(_matrix_dimensions, axes, is_leaf=is_axes),
            consistent_rms=self.consistent_rms,
        )

    def state_axes(self, abstract_state: PyTree, axes: PyTree) -> PyTree:
        """See ``Optimizer.state_axes``; each part of the state lacks the weights of the other."""
        return axes_by_path(abstract_state, axes)


def _matrix_dimensions(names: Axes) -> MuonDimensionNumbers | None:
    """Return the input and output dimension of a hidden matrix; ``None`` for any other weight."""
    inner = inner_dimensions(names)
    if len(inner) != 2 or not _TABLE_AXES.isdisjoint(names):
        return None
    return MuonDimensionNumbers(reduction_axis=inner[0], output_axis=inner[1])
