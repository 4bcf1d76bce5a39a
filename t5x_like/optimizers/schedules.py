"""Learning rates as functions of the number of updates already done, which is 0 for the first update."""

import inspect
import math
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp

from t5x_like.config_class import config_class, refuse_unused

Step: TypeAlias = int | jax.Array


def _check_rates(schedule: object, *names: str) -> None:
    for name in names:
        rate = getattr(schedule, name)
        if not 0 <= rate < math.inf:
            raise ValueError(f"{name} is {rate:g}; give a learning rate that is finite and not negative")


@config_class
class Constant:
    """A constant rate; T5 fine-tunes with 0.001 (Raffel et al. 2020, §3.1.2).

    Attributes:
      value: The rate.
    """

    value: float = 1e-3

    def __post_init__(self) -> None:
        _check_rates(self, "value")

    def __call__(self, step: Step) -> jax.Array:  # noqa: ARG002
        return jnp.float32(self.value)


@config_class
class InverseSqrt:
    """``base / sqrt(max(step, warmup_steps))``: constant, then falling (Raffel et al. 2020, §3.1.2).

    Attributes:
      base: Numerator.
      warmup_steps: Updates with a constant rate.

    >>> float(InverseSqrt(warmup_steps=10_000)(40_000))
    0.004999999888241291
    """

    base: float = 1.0
    warmup_steps: int = 10_000

    def __post_init__(self) -> None:
        _check_rates(self, "base")
        if self.warmup_steps < 1:
            raise ValueError(
                f"warmup_steps is {self.warmup_steps}; rates start at base/sqrt(warmup_steps): give 1 or more"
            )

    def __call__(self, step: Step) -> jax.Array:
        return self.base / jnp.sqrt(jnp.maximum(_float(step), self.warmup_steps))


@config_class
class _WarmupAndDecay:
    peak: float
    warmup_steps: int
    total_steps: int
    end: float = 0.0

    def __post_init__(self) -> None:
        _check_rates(self, "peak", "end")
        if not 0 <= self.warmup_steps < self.total_steps:
            raise ValueError(
                f"warmup_steps={self.warmup_steps} must lie in 0 … total_steps-1; total_steps is {self.total_steps}"
            )

    def _rise_and_progress(self, step: Step) -> tuple[jax.Array, jax.Array]:
        now = _float(step)
        rise = jnp.minimum(1.0, now / max(self.warmup_steps, 1)) if self.warmup_steps else jnp.float32(1.0)
        progress = (now - self.warmup_steps) / (self.total_steps - self.warmup_steps)
        return rise, jnp.clip(progress, 0.0, 1.0)


@config_class
class LinearWarmupLinearDecay(_WarmupAndDecay):
    """Rises linearly from 0 to ``peak``, then falls linearly to ``end`` (Devlin et al. 2019).

    Attributes:
      peak: Rate that the warm-up rises to.
      warmup_steps: Updates of the warm-up.
      total_steps: Updates until the end.
      end: Rate from ``total_steps`` on.
      decay_from: Where the falling line has the peak: at the end of the warm-up, or with ``"start"`` at step 0, as in
        the code of BERT, ALBERT and ELECTRA. There the rate drops at the end of the warm-up, by the warm-up's share.
    """

    decay_from: Literal["peak", "start"] = "peak"

    def __call__(self, step: Step) -> jax.Array:
        rise, progress = self._rise_and_progress(step)
        if self.decay_from == "start":
            progress = jnp.clip(_float(step) / self.total_steps, 0.0, 1.0)
            progress = jnp.where(_float(step) < self.warmup_steps, 0.0, progress)
        return rise * (self.end + (self.peak - self.end) * (1.0 - progress))


@config_class
class LinearWarmupCosine(_WarmupAndDecay):
    """Rises linearly from 0 to ``peak``, then falls by half a cosine to ``end``.

    Attributes:
      peak: Highest rate.
      warmup_steps: Updates until the peak.
      total_steps: Updates until the end.
      end: Rate from ``total_steps`` on.
    """

    def __call__(self, step: Step) -> jax.Array:
        rise, progress = self._rise_and_progress(step)
        return rise * (self.end + (self.peak - self.end) * 0.5 * (1.0 + jnp.cos(jnp.pi * progress)))


@config_class
class WarmupStableDecay(_WarmupAndDecay):
    """Rises linearly from 0 to ``peak``, stays there, and falls to ``end`` in the last ``decay_steps`` updates.

    The trapezoidal schedule of Xing et al. 2018 (https://arxiv.org/abs/1802.08770), also called WSD (Hu et al. 2024,
    https://arxiv.org/abs/2404.06395). After a share ``x`` of the decay the rate is ``end + (peak - end) * (1 -
    sqrt(x))``, which does better than a line in Hägele et al. 2024, https://arxiv.org/abs/2405.18392.

    Attributes:
      peak: Highest rate.
      warmup_steps: Updates until the peak.
      decay_steps: Updates from the peak to the end; 0 for no decay.
      total_steps: Updates until the end.
      end: Rate from ``total_steps`` on, if there is a decay.
      decay_shape: ``"one_minus_sqrt"``, or ``"linear"`` for ``1 - x``.

    >>> float(WarmupStableDecay(peak=1.0, warmup_steps=10, decay_steps=100, total_steps=200)(125))
    0.5
    """

    decay_steps: int
    decay_shape: Literal["one_minus_sqrt", "linear"] = "one_minus_sqrt"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.decay_steps <= self.total_steps - self.warmup_steps:
            raise ValueError(
                f"decay_steps={self.decay_steps} must lie in 0 … total_steps-warmup_steps, which is "
                f"{self.total_steps - self.warmup_steps}"
            )
        if not self.decay_steps:
            refuse_unused(self, "end", "decay_shape", because="with decay_steps=0 the rate stays at its peak")

    def __call__(self, step: Step) -> jax.Array:
        rise, _ = self._rise_and_progress(step)
        if not self.decay_steps:
            return rise * self.peak
        share = jnp.clip((_float(step) - self.total_steps) / self.decay_steps + 1.0, 0.0, 1.0)
        fall = jnp.sqrt(share) if self.decay_shape == "one_minus_sqrt" else share
        return rise * (self.end + (self.peak - self.end) * (1.0 - fall))


@config_class
class SlantedTriangular:
    """A short linear rise to ``peak`` and a long linear fall to ``peak / ratio`` (Howard and Ruder 2018, §3.2).

    Attributes:
      peak: Highest rate, ULMFiT's ``η_max``.
      total_steps: Updates until the rate is at its lowest again.
      cut_fraction: Share of the updates in which the rate rises.
      ratio: Highest rate by lowest.
    """

    peak: float = 0.01
    total_steps: int
    cut_fraction: float = 0.1
    ratio: float = 32.0

    def __post_init__(self) -> None:
        _check_rates(self, "peak")
        if not 0 < self.cut_fraction < 1:
            raise ValueError(
                f"cut_fraction is {self.cut_fraction}; give the share of steps in which the rate rises, between 0 "
                "and 1"
            )
        if self.total_steps * self.cut_fraction < 1:
            raise ValueError(
                f"cut_fraction={self.cut_fraction} of total_steps={self.total_steps} is less than a step; give "
                f"{math.ceil(1 / self.cut_fraction)} steps or more, or a larger cut_fraction"
            )
        if self.ratio < 1:
            raise ValueError(
                f"ratio is {self.ratio}; the highest rate is at least the lowest: give 1 or more"
            )

    def __call__(self, step: Step) -> jax.Array:
        now, cut = _float(step), math.floor(self.total_steps * self.cut_fraction)
        fall = 1.0 - (now - cut) / (cut * (1.0 / self.cut_fraction - 1.0))
        part = jnp.clip(jnp.where(now < cut, now / cut, fall), 0.0, 1.0)
        return self.peak * (1.0 + part * (self.ratio - 1.0)) / self.ratio


@config_class
class Noam:
    """``factor * model_dim ** -0.5 * min(n ** -0.5, n * warmup_steps ** -1.5)`` of update ``n``, which is from 1 on.

    The schedule of the Transformer (Vaswani et al. 2017, §5.3), named as in tensor2tensor and OpenNMT.

    Attributes:
      model_dim: Width of the model.
      warmup_steps: Updates until the highest rate.
      factor: Multiplies the rate; the paper has 1.
    """

    model_dim: int = 512
    warmup_steps: int = 4000
    factor: float = 1.0

    def __post_init__(self) -> None:
        _check_rates(self, "factor")
        if self.model_dim < 1 or self.warmup_steps < 1:
            raise ValueError(
                f"model_dim is {self.model_dim} and warmup_steps is {self.warmup_steps}; give 1 or more for both"
            )

    def __call__(self, step: Step) -> jax.Array:
        step_from_one = _float(step) + 1.0
        return (
            self.factor
            * self.model_dim**-0.5
            * jnp.minimum(step_from_one**-0.5, step_from_one * self.warmup_steps**-1.5)
        )


@config_class
class Shifted:
    """``schedule(start + step)``: the rate of a weight whose updates began at step ``start`` of the run.

    Attributes:
      schedule: Schedule of the run.
      start: First step at which the weight trains.
    """

    schedule: "Schedule"
    start: int

    def __call__(self, step: Step) -> jax.Array:
        return self.schedule(step + self.start)


@config_class
class Factors:
    """T5X's schedule language: a product of named factors.

    Attributes:
      factors: Names of ``FACTORS`` joined by ``*``.
      base: Factor ``constant``.
      warmup_steps: Updates of ``linear_warmup``, and offset of ``rsqrt_decay``.
      decay_factor: Factor of each ``decay_every``; slope of ``linear_decay``.
      steps_per_decay: Updates between decays of ``decay_every``.
      steps_per_cycle: Updates of one ``cosine_decay``.
      step_offset: Updates that don't count.
      minimum: Lowest rate.

    >>> float(Factors(factors="constant * linear_warmup", base=0.5, warmup_steps=10)(5))
    0.25
    """

    factors: str = "constant * linear_warmup * rsqrt_decay"
    base: float = 0.5
    warmup_steps: int = 1000
    decay_factor: float = 0.5
    steps_per_decay: int = 20_000
    steps_per_cycle: int = 100_000
    step_offset: int = 0
    minimum: float = 1e-8

    def __post_init__(self) -> None:
        _check_rates(self, "base", "minimum")
        unknown = [word for word in self._words() if word not in FACTORS]
        if unknown:
            raise ValueError(f"unknown schedule factors {unknown}; choose from {', '.join(FACTORS)}")
        used = {name for word in self._words() for name in _FIELDS_OF_FACTORS[word]}
        unused = {name for names in _FIELDS_OF_FACTORS.values() for name in names} - used
        refuse_unused(self, *unused, because=f"no factor of {self.factors!r} reads it")

    def _words(self) -> list[str]:
        return [word.strip() for word in self.factors.split("*")]

    def __call__(self, step: Step) -> jax.Array:
        since = jnp.maximum(_float(step) - self.step_offset, 0.0)
        rate = jnp.float32(1.0)
        for word in self._words():
            rate = rate * FACTORS[word](self, since)
        return jnp.maximum(rate, self.minimum)


FACTORS: dict[str, Callable[[Factors, jax.Array], jax.Array | float]] = {
    "constant": lambda s, _: s.base,
    "linear_warmup": lambda s, step: jnp.minimum(1.0, step / s.warmup_steps),
    # brings its own base and warm-up, and a slope of decay_factor per step
    "linear_decay": lambda s, step: (
        s.base * jnp.minimum(step / s.warmup_steps, 1.0 + s.decay_factor * (s.warmup_steps - step))
    ),
    "rsqrt_decay": lambda s, step: 1.0 / jnp.sqrt(jnp.maximum(step, s.warmup_steps)),
    "rsqrt_normalized_decay": lambda s, step: (
        s.warmup_steps**0.5 / jnp.sqrt(jnp.maximum(step, s.warmup_steps))
    ),
    "decay_every": lambda s, step: s.decay_factor ** jnp.floor(step / s.steps_per_decay),
    "cosine_decay": lambda s, step: (
        0.5 * (1.0 + jnp.cos(jnp.pi * (jnp.maximum(0.0, step - s.warmup_steps) / s.steps_per_cycle % 1.0)))
    ),
}

# Options that each of these factors reads.
_FIELDS_OF_FACTORS: dict[str, tuple[str, ...]] = {
    "constant": ("base",),
    "linear_warmup": ("warmup_steps", "step_offset"),
    "linear_decay": ("base", "warmup_steps", "decay_factor", "step_offset"),
    "rsqrt_decay": ("warmup_steps", "step_offset"),
    "rsqrt_normalized_decay": ("warmup_steps", "step_offset"),
    "decay_every": ("decay_factor", "steps_per_decay", "step_offset"),
    "cosine_decay": ("warmup_steps", "steps_per_cycle", "step_offset"),
}

Schedule: TypeAlias = (
    Constant
    | InverseSqrt
    | LinearWarmupLinearDecay
    | LinearWarmupCosine
    | WarmupStableDecay
    | SlantedTriangular
    | Noam
    | Shifted
    | Factors
    | Callable[[Step], Any]
)


def as_schedule(rate: Schedule | float) -> Schedule:
    """Return a schedule as it is, and a number as the constant schedule of that rate.

    Raises:
      ValueError: The schedule is no function of the number of updates that JAX can compile.
    """
    if isinstance(rate, int | float):
        return Constant(value=rate)
    _check_function(rate)
    return rate


def _check_function(schedule: Callable[[Step], object]) -> None:
    name = getattr(schedule, "__qualname__", repr(schedule))
    if inspect.isclass(schedule):
        raise ValueError(f"the learning rate is the class {name} itself; call it: {name}(…)")
    try:
        rate = jax.eval_shape(schedule, jax.ShapeDtypeStruct((), jnp.int32))
    except jax.errors.ConcretizationTypeError as error:
        raise ValueError(
            f"the learning rate {name} can't be compiled, because it decides in Python by the step; use jnp.where in "
            "place of if, and jnp in place of math"
        ) from error
    except TypeError as error:
        raise ValueError(
            f"the learning rate {name} is no function of the step ({error}); give a function of one number, or call "
            "the one that makes it, such as optax.cosine_decay_schedule(1e-3, 1000)"
        ) from error
    if getattr(rate, "shape", ()) != ():
        raise ValueError(f"the learning rate {name} returns an array {list(rate.shape)}; return one number")


def _float(step: Step) -> jax.Array:
    return jnp.asarray(step).astype(jnp.float32)
