"""Learning rates as functions of the number of updates already done: the first update asks for step 0."""

from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp

from t5x_like.config_class import config_class

Step: TypeAlias = int | jax.Array


@config_class
class Constant:
    """The same rate for ever; T5 fine-tunes with 0.001 (Raffel et al. 2020, §3.1.2)."""

    value: float = 1e-3

    def __call__(self, step: Step) -> jax.Array:  # noqa: ARG002
        return jnp.float32(self.value)


@config_class
class InverseSqrt:
    """``base / sqrt(max(step, warmup_steps))``: flat, then falling (Raffel et al. 2020, §3.1.2).

    >>> float(InverseSqrt(warmup_steps=10_000)(40_000))
    0.004999999888241291
    """

    base: float = 1.0
    warmup_steps: int = 10_000

    def __post_init__(self) -> None:
        if self.warmup_steps < 1:
            raise ValueError(
                f"warmup_steps is {self.warmup_steps}; rates start at base/sqrt(warmup_steps): give 1 or more"
            )

    def __call__(self, step: Step) -> jax.Array:
        return self.base / jnp.sqrt(jnp.maximum(_float(step), self.warmup_steps))


@config_class
class LinearWarmupLinearDecay:
    """Straight up from 0 to ``peak``, straight down to ``end`` at ``total_steps`` (Devlin et al. 2019)."""

    peak: float
    warmup_steps: int
    total_steps: int
    end: float = 0.0

    def __post_init__(self) -> None:
        _check_warmup(self.warmup_steps, self.total_steps)

    def __call__(self, step: Step) -> jax.Array:
        rise, progress = _rise_and_progress(step, self.warmup_steps, self.total_steps)
        return rise * (self.end + (self.peak - self.end) * (1.0 - progress))


@config_class
class LinearWarmupCosine:
    """Straight up from 0 to ``peak``, then down half a cosine to ``end`` at ``total_steps``."""

    peak: float
    warmup_steps: int
    total_steps: int
    end: float = 0.0

    def __post_init__(self) -> None:
        _check_warmup(self.warmup_steps, self.total_steps)

    def __call__(self, step: Step) -> jax.Array:
        rise, progress = _rise_and_progress(step, self.warmup_steps, self.total_steps)
        return rise * (self.end + (self.peak - self.end) * 0.5 * (1.0 + jnp.cos(jnp.pi * progress)))


@config_class
class Factors:
    """T5X's schedule language: words of ``FACTORS`` joined by ``*``; never below ``minimum``.

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
        unknown = [word for word in self._words() if word not in FACTORS]
        if unknown:
            raise ValueError(f"unknown schedule factors {unknown}; choose from {', '.join(FACTORS)}")

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

Schedule: TypeAlias = Constant | InverseSqrt | LinearWarmupLinearDecay | LinearWarmupCosine | Factors


def as_schedule(rate: Schedule | float) -> Schedule:
    """Returns a schedule as it is, and a number as the constant schedule of that rate."""
    return Constant(value=rate) if isinstance(rate, int | float) else rate


def _float(step: Step) -> jax.Array:
    return jnp.asarray(step).astype(jnp.float32)


def _check_warmup(warmup_steps: int, total_steps: int) -> None:
    if not 0 <= warmup_steps < total_steps:
        raise ValueError(
            f"warmup_steps={warmup_steps} must lie in 0 … total_steps-1; total_steps is {total_steps}"
        )


def _rise_and_progress(step: Step, warmup_steps: int, total_steps: int) -> tuple[jax.Array, jax.Array]:
    now = _float(step)
    rise = jnp.minimum(1.0, now / max(warmup_steps, 1)) if warmup_steps else jnp.float32(1.0)
    return rise, jnp.clip((now - warmup_steps) / (total_steps - warmup_steps), 0.0, 1.0)
