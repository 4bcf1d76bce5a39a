"""Distributions of fresh weights."""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import jax
from jaxtyping import Array, Float, Key


@dataclass(frozen=True)
class FanIn:
    """Variance ``scale**2 / inputs``, so that outputs vary as inputs do: T5's way (Raffel et al. 2020)."""

    scale: float = 1.0
    distribution: Literal["normal", "truncated_normal"] = "truncated_normal"


@dataclass(frozen=True)
class Normal:
    """One standard deviation for all weights: BERT's and GPT's way.

    ``into_stream`` scales those of projections that are added to the stream: GPT-2 divides them by the root of the
    number of residuals (Radford et al. 2019, §2.3).
    """

    stddev: float = 0.02
    into_stream: float = 1.0


Initializer: TypeAlias = FanIn | Normal


def initial_kernel(how: Initializer, key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
    """A matrix [in, out], or a stack of them."""
    if isinstance(how, Normal):
        return how.stddev * jax.random.normal(key, shape)
    return jax.nn.initializers.variance_scaling(how.scale**2, "fan_in", how.distribution)(key, shape)


def into_stream(init: Initializer) -> Initializer:
    """The initializer of a projection whose outputs are added to the residual stream."""
    return replace(init, stddev=init.stddev * init.into_stream) if isinstance(init, Normal) else init
