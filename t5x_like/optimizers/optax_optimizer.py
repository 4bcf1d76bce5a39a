"""Optimizers of optax, or of anyone who writes an ``optax.GradientTransformation``."""

from typing import Any

import jax
import optax
from jax.tree_util import KeyPath
from jaxtyping import PyTree

from t5x_like.config_class import config_class
from t5x_like.function_names import name_function
from t5x_like.optimizers.adafactor import Axes, is_axes
from t5x_like.optimizers.optimizers import Optimizer
from t5x_like.optimizers.parameter_groups import rate_factors
from t5x_like.optimizers.schedules import Schedule, as_schedule


@config_class
class OptaxOptimizer:
    """A finished transformation as an ``Optimizer``; ``Experiment.optimizer`` makes it of a bare one.

    >>> Experiment(optimizer=optax.adamw(1e-3), ...)
    >>> Experiment(optimizer=OptaxOptimizer(transformation=optax.sgd(schedule), learning_rate=schedule), ...)

    Attributes:
      transformation: Transformation that includes learning rate and sign, such as ``optax.adamw(1e-3)``.
      learning_rate: Rate to log, which changes no update. ``None`` logs that of ``optax.inject_hyperparams``, if it
        is used, and otherwise none.
    """

    transformation: optax.GradientTransformation
    learning_rate: Schedule | float | None = None

    def __post_init__(self) -> None:
        if self.learning_rate is not None:
            object.__setattr__(self, "learning_rate", as_schedule(self.learning_rate))

    def described(self) -> dict[str, Any]:
        """Return the transformation by the names of its functions, for records."""
        return {
            "transformation": name_function(self.transformation.update),
            "learning_rate": self.learning_rate,
        }

    def build(self, axes: PyTree, factors: PyTree = None) -> optax.GradientTransformation:
        """See ``Optimizer.build``; all weights have the same rate.

        Raises:
          ValueError: At the first update, if the transformation needs more than gradients and weights. At the start,
            if it trains other weights than those to evaluate.
        """
        del axes, factors

        def init(params: PyTree) -> PyTree:
            state = self.transformation.init(params)
            parts = jax.tree.leaves(state, is_leaf=_is_schedule_free)
            if any(_is_schedule_free(part) for part in parts):
                raise ValueError(
                    "optax's schedule_free trains other weights than those to evaluate, and a run evaluates and saves "
                    "what it trains; use t5x_like's ScheduleFreeAdamW"
                )
            return state

        def update(updates: PyTree, state: PyTree, params: PyTree = None) -> tuple[PyTree, PyTree]:
            try:
                return self.transformation.update(updates, state, params)
            except TypeError as error:
                if "missing" not in str(error):
                    raise
                raise ValueError(
                    f"the optimizer {name_function(self.transformation.update)} needs more than gradients and weights "
                    f"({error}); training passes no loss to it: use a transformation without that part"
                ) from error

        return optax.GradientTransformation(init, update)

    def rate_factors(self, params: PyTree) -> PyTree:
        """See ``Optimizer.rate_factors``; all factors are 1."""
        return rate_factors(params, None, ())

    def state_axes(self, abstract_state: PyTree, axes: PyTree) -> PyTree:
        return axes_by_path(abstract_state, axes)


def _is_schedule_free(part: object) -> bool:
    return isinstance(part, optax.contrib.ScheduleFreeState)


def axes_by_path(abstract_state: PyTree, axes: PyTree) -> PyTree:
    """Return the axis names of a weight for each statistic with its path and rank, and ``()`` for others.

    Args:
      abstract_state: State of an optimizer, or its shapes; parts of it may lack weights.
      axes: Axis names of the parameters.
    """
    by_path = dict(jax.tree_util.tree_flatten_with_path(axes, is_leaf=is_axes)[0])
    lengths = sorted({len(path) for path in by_path}, reverse=True)

    def named(path: KeyPath, leaf: jax.Array | jax.ShapeDtypeStruct) -> Axes:
        ends = (by_path.get(path[-length:]) for length in lengths)
        return next((names for names in ends if names is not None and len(names) == len(leaf.shape)), ())

    return jax.tree_util.tree_map_with_path(named, abstract_state)


def as_optimizer(optimizer: Optimizer | optax.GradientTransformation) -> Optimizer:
    """Return a bare ``optax.GradientTransformation`` as an ``OptaxOptimizer``, and any other optimizer as it is."""
    if isinstance(optimizer, optax.GradientTransformation):
        return OptaxOptimizer(transformation=optimizer)
    return optimizer
