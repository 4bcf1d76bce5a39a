"""Sinusoidal position embeddings (Vaswani et al. 2017, §3.5)."""

from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from t5x_like.config_class import config_class


@config_class
class SinusoidalPositions:
    """Position embeddings without weights, or with one: sines and cosines of geometrically growing wavelengths.

    Attributes:
      offset: Number of position 0: 2 in M2M-100.
      wavelengths: ``"paper"`` divides exponents by the number of features (Vaswani et al. 2017, §3.5).
        ``"tensor2tensor"`` divides them by 2 less, so that the last wavelength is 10,000 · 2π, as in fairseq.
      interleaved: Sines and cosines alternate, as in the paper. Otherwise all cosines follow all sines, as in the
        authors' code and in Marian.
      scaled: Multiplies all by one learned number, at first 1 (Li et al. 2019, https://arxiv.org/abs/1809.08895, §3.2).
      padding_id: Id whose tokens have no position and are not counted (SpeechT5); ``None`` counts all.
    """

    offset: int = 0
    wavelengths: Literal["paper", "tensor2tensor"] = "paper"
    interleaved: bool = False
    scaled: bool = False
    padding_id: int | None = None


def sinusoids(
    positions: Int[Array, "B L"], num_features: int, config: SinusoidalPositions
) -> Float[Array, "B L D"]:
    """Return sines and cosines of positions, in float32.

    Args:
      positions: Positions of tokens.
      num_features: Width; wavelengths grow from 2π to 10,000 · 2π.
      config: Wavelengths, their order, and the number of position 0.
    """
    num_sines = -(-num_features // 2)
    divisor = num_features if config.wavelengths == "paper" else max(num_features - 2, 1)
    rates = 10000.0 ** (-2.0 * jnp.arange(num_sines) / divisor)
    angles = (positions + config.offset)[..., None] * rates[None, None]
    sines, cosines = jnp.sin(angles), jnp.cos(angles[..., : num_features // 2])
    if not config.interleaved:
        return jnp.concatenate([sines, cosines], axis=-1)
    padded = jnp.pad(cosines, ((0, 0), (0, 0), (0, num_features % 2)))
    return jnp.stack([sines, padded], axis=-1).reshape(*angles.shape[:2], -1)[..., :num_features]


def sinusoids_of(
    tokens: Int[Array, "B L"],
    positions: Int[Array, "B L"] | None,
    num_features: int,
    config: SinusoidalPositions,
) -> Float[Array, "#B L D"]:
    """Return the sinusoids of tokens, of one row for all where they are the same.

    Args:
      tokens: Token ids, of which padding may have no position.
      positions: Positions of the tokens; ``None`` counts from 0 in each row.
      num_features: Width.
      config: Wavelengths, and what is counted.
    """
    if config.padding_id is None:
        counted = jnp.arange(tokens.shape[1])[None] if positions is None else positions
        return sinusoids(counted, num_features, config)
    has_position = tokens != config.padding_id
    counted = jnp.cumsum(has_position, axis=1) - 1 if positions is None else positions
    return jnp.where(has_position[..., None], sinusoids(counted, num_features, config), 0.0)
