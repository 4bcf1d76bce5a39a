"""Positions that speak at queries and keys: rotations (Su et al. 2021, https://arxiv.org/abs/2104.09864)."""

import math
from dataclasses import dataclass
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


@dataclass(frozen=True, kw_only=True)
class LinearScaling:
    """Positions count ``factor`` times slower (Chen et al. 2023, https://arxiv.org/abs/2306.15595)."""

    factor: float


@dataclass(frozen=True, kw_only=True)
class Llama3Scaling:
    """Slow rotations count ``factor`` times slower, fast ones as before, those between are interpolated.

    Slow and fast are wavelengths above ``original_length / low_frequency_factor`` and below ``original_length /
    high_frequency_factor`` (Dubey et al. 2024, https://arxiv.org/abs/2407.21783, and its published weights).
    """

    factor: float
    low_frequency_factor: float
    high_frequency_factor: float
    original_length: int

    def __post_init__(self) -> None:
        if not self.low_frequency_factor < self.high_frequency_factor:
            raise ValueError(
                f"low_frequency_factor={self.low_frequency_factor} must be below "
                f"high_frequency_factor={self.high_frequency_factor}"
            )


@dataclass(frozen=True, kw_only=True)
class YarnScaling:
    """Slow rotations count ``factor`` times slower, fast ones as before; queries and keys grow.

    Slow and fast are fewer than ``slow_turns`` and more than ``fast_turns`` whole turns over ``original_length``
    (Peng et al. 2023, YaRN, §3.2, https://arxiv.org/abs/2309.00071). ``attention_factor`` multiplies
    queries and keys, by default as in §3.4.
    """

    factor: float
    original_length: int
    fast_turns: float = 32.0
    slow_turns: float = 1.0
    attention_factor: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.slow_turns < self.fast_turns:
            raise ValueError(
                f"slow_turns={self.slow_turns} must be positive and below fast_turns={self.fast_turns}"
            )

    @property
    def growth(self) -> float:
        """The factor of rotated queries and keys."""
        if self.attention_factor is not None:
            return self.attention_factor
        return 0.1 * math.log(self.factor) + 1.0 if self.factor > 1 else 1.0


RotaryScaling: TypeAlias = LinearScaling | Llama3Scaling | YarnScaling


@dataclass(frozen=True, kw_only=True)
class Rotary:
    """Rotates the first ``rotated_dim`` of every head's dimensions by angles that grow with the position.

    Pairs are the two halves of the rotated dimensions, or neighbors where ``interleaved``. The exponents of
    frequencies are parts of ``frequency_dim``, by default ``rotated_dim``.
    """

    rotated_dim: int
    frequency_dim: int | None = None
    theta: float = 10_000.0
    interleaved: bool = False
    scaling: RotaryScaling | None = None

    def __post_init__(self) -> None:
        if self.rotated_dim < 2 or self.rotated_dim % 2:
            raise ValueError(f"rotated_dim is {self.rotated_dim}; rotations need a positive even number")

    @property
    def whole(self) -> int:
        """The dimension that exponents are fractions of."""
        return self.frequency_dim or self.rotated_dim


def frequencies(config: Rotary) -> np.ndarray:
    """Radians per position of each pair, float32 [rotated_dim / 2], as the reference implementations round them."""
    exponents = np.arange(0, config.rotated_dim, 2, dtype=np.float32) / np.float32(config.whole)
    plain = (1.0 / np.float32(config.theta) ** exponents).astype(np.float32)
    match config.scaling:
        case None:
            return plain
        case LinearScaling(factor=factor):
            return plain / np.float32(factor)
        case Llama3Scaling() as scaling:
            low, high = scaling.low_frequency_factor, scaling.high_frequency_factor
            turns = scaling.original_length * plain / np.float32(2 * np.pi)
            keeps = np.clip((turns - low) / (high - low), 0.0, 1.0)
            return ((1.0 - keeps) * plain / scaling.factor + keeps * plain).astype(np.float32)
        case YarnScaling() as scaling:
            keeps = _yarn_keeps(scaling, config)
            return ((1.0 - keeps) * plain / scaling.factor + keeps * plain).astype(np.float32)


def _yarn_keeps(scaling: YarnScaling, config: Rotary) -> np.ndarray:
    """The part of its own frequency that each pair keeps, [rotated_dim / 2]: 1 for the fast ones down to 0."""

    def pair_of(turns: float) -> float:
        slowness = math.log(scaling.original_length / (turns * 2 * math.pi))
        return config.whole * slowness / (2 * math.log(config.theta))

    # Whole pairs, as in the paper's code; published models were trained so.
    first = max(math.floor(pair_of(scaling.fast_turns)), 0)
    last = min(math.ceil(pair_of(scaling.slow_turns)), config.whole - 1)
    pairs = np.arange(config.rotated_dim // 2, dtype=np.float32)
    # Very short original lengths cross the two; then all keep what they have, as in transformers.
    return 1.0 - np.clip((pairs - first) / ((last - first) or 0.001), 0.0, 1.0)


def rotate(
    heads: Float[Array, "B L H K"], positions: Int[Array, "B L"], config: Rotary
) -> Float[Array, "B L H K"]:
    """Queries or keys at their positions; angles are float32, whatever the activations are."""
    angles_BLR = positions[..., None].astype(jnp.float32) * frequencies(config)[None, None]
    cos, sin = jnp.cos(angles_BLR)[:, :, None], jnp.sin(angles_BLR)[:, :, None]
    if isinstance(config.scaling, YarnScaling):
        cos, sin = cos * config.scaling.growth, sin * config.scaling.growth
    turned, still = heads[..., : config.rotated_dim], heads[..., config.rotated_dim :]
    wide = turned.astype(jnp.float32)
    if config.interleaved:
        first, second = wide[..., 0::2], wide[..., 1::2]
    else:
        first, second = jnp.split(wide, 2, axis=-1)
    pair = (first * cos - second * sin, second * cos + first * sin)
    rotated = jnp.stack(pair, axis=-1) if config.interleaved else jnp.concatenate(pair, axis=-1)
    rotated = rotated.reshape(turned.shape)
    return jnp.concatenate([rotated.astype(heads.dtype), still], axis=-1)
