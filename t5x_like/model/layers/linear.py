"""A matrix product, with or without a bias, and the distributions that fresh weights are drawn from."""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key


@dataclass(frozen=True)
class FanIn:
    """Variance ``scale**2 / inputs``, so that outputs vary as inputs do: T5's way (Raffel et al. 2020)."""

    scale: float = 1.0
    distribution: Literal["normal", "truncated_normal"] = "truncated_normal"


@dataclass(frozen=True)
class Normal:
    """One standard deviation for all weights: BERT's and GPT's way.

    ``residual_scale`` scales those of projections that are added to the stream: GPT-2 divides them by the root of the
    number of residuals (Radford et al. 2019, §2.3).
    """

    stddev: float = 0.02
    residual_scale: float = 1.0


Initializer: TypeAlias = FanIn | Normal


def initial_kernel(how: Initializer, key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
    """A matrix [in, out], or a stack of them."""
    if isinstance(how, Normal):
        return how.stddev * jax.random.normal(key, shape)
    return jax.nn.initializers.variance_scaling(how.scale**2, "fan_in", how.distribution)(key, shape)


def residual_init(init: Initializer) -> Initializer:
    """The initializer of a projection whose outputs are added to the residual stream."""
    return replace(init, stddev=init.stddev * init.residual_scale) if isinstance(init, Normal) else init


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
