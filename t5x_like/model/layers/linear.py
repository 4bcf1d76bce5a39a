"""A matrix product without a bias."""

from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key


class Linear(nnx.Module):
    """Multiplies the last dimension by ``kernel`` [in, out], stored in float32, used in the activations' dtype.

    Weights start with variance ``1 / in``, times ``scale`` squared.
    """

    def __init__(
        self,
        num_inputs: int,
        num_outputs: int,
        *,
        axes: tuple[str, str],
        key: Key[Array, ""],
        scale: float = 1.0,
        distribution: Literal["normal", "truncated_normal"] = "truncated_normal",
    ):
        initialise = jax.nn.initializers.variance_scaling(scale**2, "fan_in", distribution)
        self.kernel = nnx.Param(initialise(key, (num_inputs, num_outputs)), axes=axes)

    def __call__(
        self, x: Float[Array, "*rows D"], *, output_dtype: jnp.dtype | None = None
    ) -> Float[Array, "*rows F"]:
        """``output_dtype``, if given, is what the products are summed and returned in."""
        return jnp.matmul(x, self.kernel[...].astype(x.dtype), preferred_element_type=output_dtype)
