"""Optimizers as frozen configurations, and the axis names of their state."""

import math
from dataclasses import field, fields
from typing import Literal, Protocol, cast, runtime_checkable

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PyTree

from t5x_like.config_class import config_class, refuse_unused
from t5x_like.optimizers.adafactor import (
    NEVER_FACTORED,
    STACKED,
    AdafactorState,
    Axes,
    adafactor,
    adafactor_state_axes,
    is_axes,
    parameter_scale,
)
from t5x_like.optimizers.parameter_groups import LayerDecay, rate_factors, scale_by_factors
from t5x_like.optimizers.schedules import Constant, InverseSqrt, Schedule, as_schedule


@runtime_checkable
class Optimizer(Protocol):
    """Configuration that builds an optimizer: a frozen dataclass, such as an ``OptimizerConfig``."""

    @property
    def learning_rate(self) -> Schedule | float | None:
        """Constant rate, or any function of the number of updates done; it is logged. ``None`` if it is unknown."""
        ...

    def build(self, axes: PyTree, factors: PyTree = None) -> optax.GradientTransformation:
        """Return the transformation for parameters with these axis names.

        Args:
          axes: A tree like the parameters, with a tuple of axis names for each.
          factors: Factors of their rates, from ``rate_factors``; if not given, the parameters are a whole model's.
        """
        ...

    def rate_factors(self, params: PyTree) -> PyTree:
        """Return the factor of each weight's learning rate, for a model's whole weights."""
        ...

    def state_axes(self, abstract_state: PyTree, axes: PyTree) -> PyTree:
        """Return axis names of every array of this optimizer's state, by which it is sharded.

        Args:
          abstract_state: State, or its shapes.
          axes: Axis names of the parameters.
        """
        ...


@config_class
class OptimizerConfig:
    """Options of every optimizer. A new one inherits from it, in a file of its own, and writes ``update_rule``.

    Attributes:
      learning_rate: A schedule, which is any function of the number of updates done (those of optax, too), or a number
        for a constant rate; it is logged.
      max_gradient_norm: Gradients are scaled down together to this global norm; ``None`` leaves them.
      layer_decay: Lower rates near the input: a ``LayerDecay``, or its factor. ``None`` for equal rates.
      rates: Factors of the learning rate by pattern of paths, such as ``(("heads/*", 10.0),)``; patterns are those of
        ``Experiment.trainable``. Weight decay is multiplied, too. Factors of a weight are multiplied, also with that
        of ``layer_decay``.
    """

    learning_rate: Schedule | float
    max_gradient_norm: float | None = None
    layer_decay: LayerDecay | float | None = None
    rates: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "learning_rate", as_schedule(self.learning_rate))
        for name in (each.name for each in fields(self)):
            value = getattr(self, name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{name} is {value:g}; give a finite number")
        check_positive("max_gradient_norm", self.max_gradient_norm)
        _ = self._layer_decay  # whose own checks refuse a factor out of range
        for pattern, factor in self.rates:
            if not 0 < factor < math.inf:
                raise ValueError(
                    f"rates multiplies the learning rate of {pattern!r} by {factor:g}; give a positive number, or "
                    "leave the weights out of Experiment.trainable to freeze them"
                )

    def update_rule(self, axes: PyTree) -> optax.GradientTransformation:  # noqa: ARG002
        """Return the rule that turns gradients into updates, the negative learning rate included.

        Args:
          axes: Axis names of the parameters: a tree of tuples of names.

        Raises:
          ValueError: The class only holds the options that optimizers share.
        """
        raise ValueError(
            f"{type(self).__name__} has options and no update rule; choose AdamW, Adafactor, lamb.Lamb or lion.Lion"
        )

    def build(self, axes: PyTree, factors: PyTree = None) -> optax.GradientTransformation:
        rule = self.update_rule(axes)
        if self.layer_decay is not None or self.rates:
            rule = optax.chain(rule, scale_by_factors(self.rate_factors if factors is None else factors))
        if self.max_gradient_norm is None:
            return rule
        return optax.chain(optax.clip_by_global_norm(self.max_gradient_norm), rule)

    def rate_factors(self, params: PyTree) -> PyTree:
        """See ``Optimizer.rate_factors`` and ``parameter_groups.rate_factors``."""
        return rate_factors(params, self._layer_decay, self.rates)

    @property
    def _layer_decay(self) -> LayerDecay | None:
        decay = self.layer_decay
        return decay if isinstance(decay, LayerDecay | None) else LayerDecay(factor=decay)

    def state_axes(self, abstract_state: PyTree, axes: PyTree) -> PyTree:
        return state_axes(abstract_state, axes)


@config_class
class Adafactor(OptimizerConfig):
    """T5's optimizer (Shazeer and Stern 2018); see :func:`t5x_like.optimizers.adafactor.adafactor`.

    Attributes:
      decay_rate: Exponent of the second moments' decay.
      clipping_threshold: Limit of an update's root mean square; ``None`` for no limit.
      multiply_by_parameter_scale: Multiplies updates by the weight's root mean square.
      factored: Factors second moments into rows and columns.
      min_dim_size_to_factor: Smallest number of rows and columns that is factored.
      epsilon1: Added to squared gradients.
      epsilon2: Least root mean square of a weight.
      max_parameter_scale: Largest root mean square of a weight; ``None`` for no limit.
      momentum: Part of the averaged update that an update keeps; ``None`` for no momentum.
      weight_decay_rate: Part of the weight that each update takes away; ``None`` for none.
      weight_decay_rate_lr_exponent: Multiplies the decay by ``learning_rate ** exponent``.
      step_offset: Updates that don't count for the second moments' decay.
      statistics_dtype: Type in which averages are kept between updates; bfloat16 follows small changes no longer.
    """

    learning_rate: Schedule | float = field(default_factory=InverseSqrt)
    decay_rate: float = 0.8
    clipping_threshold: float | None = 1.0
    multiply_by_parameter_scale: bool = True
    factored: bool = True
    min_dim_size_to_factor: int = 128
    epsilon1: float = 1e-30
    epsilon2: float = 1e-3
    max_parameter_scale: float | None = None
    momentum: float | None = None
    weight_decay_rate: float | None = None
    weight_decay_rate_lr_exponent: float | None = None
    step_offset: int = 0
    statistics_dtype: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("momentum", self.momentum)
        check_positive("clipping_threshold", self.clipping_threshold)
        if not self.factored:
            refuse_unused(self, "min_dim_size_to_factor", because="factored=False")
        if not self.multiply_by_parameter_scale:
            because = "multiply_by_parameter_scale=False"
            refuse_unused(self, "epsilon2", "max_parameter_scale", because=because)

    def update_rule(self, axes: PyTree) -> optax.GradientTransformation:
        of_all = [each.name for each in fields(OptimizerConfig) if each.name != "learning_rate"]
        options = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in of_all}
        return adafactor(axes=axes, **options)


@config_class
class Adam(OptimizerConfig):
    """Options of optimizers that scale gradients as Adam does (Kingma and Ba 2015).

    Attributes:
      beta1: Part of the averaged gradient that an update keeps.
      beta2: Part of the averaged squared gradient that an update keeps.
      epsilon: Added to the root of the averaged square.
      weight_decay_rate: Decoupled decay; norm scales, biases and relative-position tables do not decay.
      bias_correction: Corrects averages that begin at zero. Without it the first steps are larger, as in the code of
        BERT, ALBERT and ELECTRA; on small data some seeds then learn nothing (Zhang et al. 2021, §4,
        https://arxiv.org/abs/2006.05987).
    """

    learning_rate: Schedule | float = field(default_factory=lambda: Constant(value=1e-4))
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay_rate: float = 0.01
    bias_correction: bool = True
    max_gradient_norm: float | None = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("beta1", self.beta1)
        check_fraction("beta2", self.beta2)

    def chain(
        self,
        axes: PyTree,
        *last: optax.GradientTransformation,
        before_decay: tuple[optax.GradientTransformation, ...] = (),
    ) -> optax.GradientTransformation:
        """Return Adam's step, weight decay, further transformations and the learning rate, one after the other.

        Args:
          axes: Axis names of the weights, which say what decays.
          *last: Transformations between weight decay and learning rate.
          before_decay: Transformations between Adam's step and weight decay.
        """
        scaled = optax.scale_by_adam if self.bias_correction else _scale_by_uncorrected_adam
        return optax.chain(
            scaled(b1=self.beta1, b2=self.beta2, eps=self.epsilon),
            *before_decay,
            optax.add_decayed_weights(self.weight_decay_rate, decay_mask(axes)),
            *last,
            optax.scale_by_learning_rate(cast(optax.Schedule, self.learning_rate)),
        )


@config_class
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101).

    Attributes:
      multiply_by_parameter_scale: Multiplies Adam's steps by the root mean square of the weight, at least 0.001, as
        Adafactor does. Nawrot 2023 (§3, https://arxiv.org/abs/2309.02373) pretrains T5 so, with a rate of 0.02. Each
        layer of a stacked weight has its own scale. Weight decay has none.
    """

    multiply_by_parameter_scale: bool = False

    def update_rule(self, axes: PyTree) -> optax.GradientTransformation:
        scales = (scale_by_parameters(axes),) if self.multiply_by_parameter_scale else ()
        return self.chain(axes, before_decay=scales)


def scale_by_parameters(axes: PyTree) -> optax.GradientTransformation:
    """Multiply each layer's step by ``parameter_scale`` of its weight.

    Args:
      axes: Axis names of the parameters.
    """

    def scaled(step: jax.Array, param: jax.Array, names: Axes) -> jax.Array:
        return step * parameter_scale(param.astype(jnp.float32), names)

    def update(updates: PyTree, state: PyTree, params: PyTree = None) -> tuple[PyTree, PyTree]:
        return jax.tree.map(scaled, updates, params, axes), state

    return optax.GradientTransformation(lambda _: optax.EmptyState(), update)  # pyright: ignore[reportArgumentType]


def _scale_by_uncorrected_adam(b1: float, b2: float, eps: float) -> optax.GradientTransformation:
    """Return Adam's step without bias correction; arguments and state are those of ``optax.scale_by_adam``."""
    adam = optax.scale_by_adam(b1=b1, b2=b2, eps=eps)

    def update(updates: PyTree, state: PyTree, params: PyTree = None) -> tuple[PyTree, PyTree]:
        _, state = adam.update(updates, state, params)
        return jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + eps), state.mu, state.nu), state

    return optax.GradientTransformation(adam.init, update)


def decay_mask(axes: PyTree) -> PyTree:
    """Return True for weights that decay: all but norm scales, biases and relative-position tables."""

    def decays(names: Axes) -> bool:
        return NEVER_FACTORED.isdisjoint(names) and sum(name not in STACKED for name in names) >= 2

    return jax.tree.map(decays, axes, is_leaf=is_axes)


def state_axes(abstract_state: PyTree, axes: PyTree) -> PyTree:
    """Return axis names of every array of an optimizer's state: the same tree with tuples of names for leaves.

    Trees like the parameters' have the parameters' names, counters ``()``. To map over both trees, put the state
    first: ``jax.tree.map(f, abstract_state, state_axes(abstract_state, axes))``.

    Args:
      abstract_state: State, or its shapes.
      axes: Axis names of the parameters.

    Raises:
      ValueError: A statistic is not shaped like the parameters.
    """
    like_params = jax.tree.structure(axes, is_leaf=is_axes)

    def stops(part: PyTree) -> bool:
        return isinstance(part, AdafactorState) or jax.tree.structure(part) == like_params

    def named(part: PyTree) -> PyTree:
        if isinstance(part, AdafactorState):
            return adafactor_state_axes(part, axes)
        if jax.tree.structure(part) == like_params:
            return axes
        if part.shape:
            raise ValueError(
                f"an optimizer statistic of shape {part.shape} is not shaped like the parameters"
            )
        return ()

    return jax.tree.map(named, abstract_state, is_leaf=stops)


def check_fraction(name: str, value: float | None) -> None:
    """Raise ValueError unless an option is a fraction below 1.

    Args:
      name: Name of the option in messages.
      value: Its value; None if it is off.
    """
    if value is not None and not 0 <= value < 1:
        raise ValueError(f"{name} is {value}; it averages over updates and must lie in 0 … 1, 1 excluded")


def check_positive(name: str, value: float | None) -> None:
    """Raise ValueError unless an option is positive or off.

    Args:
      name: Name of the option in messages.
      value: Its value; None if it is off.
    """
    if value is not None and value <= 0:
        raise ValueError(f"{name} is {value}; give a positive number, or None to switch it off")
