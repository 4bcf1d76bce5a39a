"""NoisyTune: a little noise on pretrained weights before they are fine-tuned."""

import zlib

import jax
import jax.numpy as jnp

from t5x_like.config_class import config_class
from t5x_like.model import parameters
from t5x_like.optimizers.adafactor import inner_dimensions


@config_class
class NoisyTune:
    """Uniform noise in proportion to the standard deviation of each weight (Wu et al. 2022, equation 2).

    A weight ``w`` becomes ``w + U(-intensity/2, intensity/2) * std(w)`` before the first step, each layer of a stacked
    weight with its own deviation. A weight of equal numbers, such as a fresh norm scale, keeps its value. Only trained
    weights get noise: frozen ones stay those of ``start_from``. Another seed draws other noise.

    Attributes:
      intensity: The paper's λ, 0.15 for BERT.
      seed: Seed of the noise.
    """

    intensity: float = 0.15
    seed: int = 0

    def __post_init__(self) -> None:
        if self.intensity <= 0:
            raise ValueError(
                f"noisy_tune: intensity is {self.intensity:g}; give a positive number such as 0.15, or leave it out"
            )

    def perturb(self, params: parameters.Parameters, axes: parameters.Axes) -> parameters.Parameters:
        """Return weights with noise.

        Args:
          params: Trained weights.
          axes: Their axis names.
        """
        key, names = jax.random.key(self.seed), parameters.flatten(axes)

        def noisy(path: str, weight: jax.Array) -> jax.Array:
            deviation = jnp.std(weight, axis=inner_dimensions(names[path]), keepdims=True)
            drawn = jax.random.uniform(
                jax.random.fold_in(key, zlib.crc32(path.encode())), weight.shape, weight.dtype, -0.5, 0.5
            )
            return weight + self.intensity * drawn * deviation

        flat = parameters.flatten(params)
        return parameters.unflatten({path: noisy(path, weight) for path, weight in flat.items()})
