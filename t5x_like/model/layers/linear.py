"""A matrix product, with or without a bias."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from t5x_like.model.layers.initializers import FanIn, Initializer, initial_kernel


class Linear(nnx.Module):
    """Multiplies the last dimension by ``kernel`` [in, out], stored in float32, used in the activations' dtype."""

    def __init__(
        self,
        num_inputs: int,
        num_outputs: int,
        *,
        axes: tuple[str, str],
        key: Key[Array, ""],
        init: Initializer = FanIn(),
        bias: bool = False,
    ):
        self.kernel = nnx.Param(initial_kernel(init, key, (num_inputs, num_outputs)), axes=axes)
        self.bias = nnx.Param(jnp.zeros((num_outputs,), jnp.float32), axes=axes[1:]) if bias else None

    def __call__(
        self, x: Float[Array, "*rows D"], *, output_dtype: jnp.dtype | None = None
    ) -> Float[Array, "*rows F"]:
        """``output_dtype``, if given, is what the products are summed and returned in."""
        y = jnp.matmul(x, self.kernel[...].astype(x.dtype), preferred_element_type=output_dtype)
        if self.bias is None:
            return y
        return y + self.bias[...].astype(y.dtype).reshape((1,) * (y.ndim - 1) + (-1,))
