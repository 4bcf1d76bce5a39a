"""Rotary positions of queries and keys (Su et al. 2021, https://arxiv.org/abs/2104.09864)."""

import math
from typing import ClassVar, TypeAlias

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from t5x_like.config_class import config_class


@config_class
class LinearScaling:
    """Position interpolation: positions are divided by a factor (Chen et al. 2023, https://arxiv.org/abs/2306.15595).

    Attributes:
      factor: The divisor; 2 doubles the usable length.
    """

    growth: ClassVar[float] = 1.0

    factor: float

    def __post_init__(self) -> None:
        _check_factor(self.factor)


@config_class
class Llama3Scaling:
    """Llama 3.1's scaling: divides low frequencies by a factor, keeps high ones and interpolates between.

    Dubey et al. 2024, https://arxiv.org/abs/2407.21783, and its published weights.

    Attributes:
      factor: Divisor of low frequencies.
      low_freq_factor: Wavelengths above ``original_max_position_embeddings / low_freq_factor`` tokens count as low.
      high_freq_factor: Wavelengths below ``original_max_position_embeddings / high_freq_factor`` tokens count as high.
      original_max_position_embeddings: Length in tokens that the model was pretrained with.
    """

    growth: ClassVar[float] = 1.0

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int

    def __post_init__(self) -> None:
        _check_factor(self.factor)
        if not self.low_freq_factor < self.high_freq_factor:
            raise ValueError(
                f"low_freq_factor={self.low_freq_factor} must be below high_freq_factor={self.high_freq_factor}"
            )


@config_class
class YarnScaling:
    """YaRN: divides low frequencies by a factor, keeps high ones, and enlarges queries and keys.

    Peng et al. 2023, https://arxiv.org/abs/2309.00071, §3.2 and §3.4.

    Attributes:
      factor: Divisor of low frequencies.
      original_max_position_embeddings: Length in tokens that the model was pretrained with.
      beta_fast: Frequencies with more rotations than this over the original length are kept.
      beta_slow: Frequencies with fewer rotations than this over the original length are divided by ``factor``.
      attention_factor: Multiplies rotated queries and keys; ``None`` is ``0.1 * ln(factor) + 1`` (§3.4).
      mscale: Numerator of another default, ``(0.1 * mscale * ln(factor) + 1) / (0.1 * mscale_all_dim * ln(factor) +
        1)`` (DeepSeek's code); 0 for none.
      mscale_all_dim: Its denominator; 0 for none. DeepSeek-V3 multiplies scores by the denominator's square, too.
    """

    factor: float
    original_max_position_embeddings: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    mscale: float = 0.0
    mscale_all_dim: float = 0.0

    def __post_init__(self) -> None:
        _check_factor(self.factor)
        if not 0 < self.beta_slow < self.beta_fast:
            raise ValueError(
                f"beta_slow={self.beta_slow} must be positive and below beta_fast={self.beta_fast}"
            )

    @property
    def growth(self) -> float:
        """``attention_factor``, or its default."""
        if self.attention_factor is not None:
            return self.attention_factor
        if self.mscale and self.mscale_all_dim:
            return self.growth_of(self.mscale) / self.growth_of(self.mscale_all_dim)
        return self.growth_of(1.0)

    def growth_of(self, mscale: float) -> float:
        """Return ``0.1 * mscale * ln(factor) + 1``, and 1 where texts don't get longer."""
        return 0.1 * mscale * math.log(self.factor) + 1.0 if self.factor > 1 else 1.0


RotaryScaling: TypeAlias = LinearScaling | Llama3Scaling | YarnScaling


@config_class
class Rotary:
    """Rotates pairs of each head's first dimensions by angles proportional to the position.

    Pair ``i`` turns by ``position * rope_theta ** (-2 i / frequency_dim)`` radians.

    Attributes:
      rotated_dim: Dimensions of each head that are rotated, the first ones; even.
      frequency_dim: Denominator of the frequencies' exponents; ``rotated_dim`` where ``None``.
      rope_theta: Base of the frequencies.
      interleaved: Pairs are neighboring dimensions (GLM); otherwise dimension ``i`` pairs with
        ``i + rotated_dim / 2`` (Llama, GPT-NeoX).
      rope_scaling: Changes the frequencies for longer texts than the model was pretrained with.
    """

    rotated_dim: int
    frequency_dim: int | None = None
    rope_theta: float = 10_000.0
    interleaved: bool = False
    rope_scaling: RotaryScaling | None = None

    def __post_init__(self) -> None:
        if self.rotated_dim < 2 or self.rotated_dim % 2:
            raise ValueError(f"rotated_dim is {self.rotated_dim}; rotations need a positive even number")
        if self.rope_theta <= 0:
            raise ValueError(f"rope_theta is {self.rope_theta}; give a positive number, 10000 for instance")

    @property
    def exponent_dim(self) -> int:
        """``frequency_dim``, or its default."""
        return self.frequency_dim or self.rotated_dim

    @property
    def growth(self) -> float:
        """Factor of rotated queries and keys."""
        return 1.0 if self.rope_scaling is None else self.rope_scaling.growth


def frequencies(config: Rotary) -> np.ndarray:
    """Return radians per position of each pair, float32 [rotated_dim / 2], rounded as reference implementations do."""
    exponents = np.arange(0, config.rotated_dim, 2, dtype=np.float32) / np.float32(config.exponent_dim)
    plain = (1.0 / np.float32(config.rope_theta) ** exponents).astype(np.float32)
    match config.rope_scaling:
        case None:
            return plain
        case LinearScaling(factor=factor):
            return plain / np.float32(factor)
        case Llama3Scaling() as scaling:
            low, high = scaling.low_freq_factor, scaling.high_freq_factor
            turns = scaling.original_max_position_embeddings * plain / np.float32(2 * np.pi)
            keeps = np.clip((turns - low) / (high - low), 0.0, 1.0)
            return ((1.0 - keeps) * plain / scaling.factor + keeps * plain).astype(np.float32)
        case YarnScaling() as scaling:
            keeps = _yarn_keeps(scaling, config)
            return ((1.0 - keeps) * plain / scaling.factor + keeps * plain).astype(np.float32)


def _yarn_keeps(scaling: YarnScaling, config: Rotary) -> np.ndarray:
    """Return the part of its own frequency that each pair keeps, [rotated_dim / 2]: 1 for high ones down to 0."""

    def pair_of(turns: float) -> float:
        slowness = math.log(scaling.original_max_position_embeddings / (turns * 2 * math.pi))
        return config.exponent_dim * slowness / (2 * math.log(config.rope_theta))

    # Whole pairs, as in the paper's code; published models were trained so.
    first = max(math.floor(pair_of(scaling.beta_fast)), 0)
    last = min(math.ceil(pair_of(scaling.beta_slow)), config.exponent_dim - 1)
    pairs = np.arange(config.rotated_dim // 2, dtype=np.float32)
    # Very short original lengths cross the two; then all keep what they have, as in transformers.
    return 1.0 - np.clip((pairs - first) / ((last - first) or 0.001), 0.0, 1.0)


def rotate(
    heads: Float[Array, "B L H K"], positions: Int[Array, "B L"], config: Rotary
) -> Float[Array, "B L H K"]:
    """Rotate queries or keys by the angles of their positions.

    Args:
      heads: Queries or keys of any float type.
      positions: Position of each token; they need not count from 0.
      config: Frequencies, and the dimensions to rotate.

    Returns:
      Rotated heads in the type of ``heads``. Angles and products are float32.
    """
    angles_BLR = positions[..., None].astype(jnp.float32) * frequencies(config)[None, None]
    cos, sin = jnp.cos(angles_BLR)[:, :, None], jnp.sin(angles_BLR)[:, :, None]
    if config.growth != 1.0:
        cos, sin = cos * config.growth, sin * config.growth
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


def _check_factor(factor: float) -> None:
    if factor <= 0:
        raise ValueError(f"factor of rope_scaling is {factor}; give a positive number")
