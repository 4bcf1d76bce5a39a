"""Products of activations and weights in 8 bits."""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Quantization = Literal["int8", "float8"]


class _Types(NamedTuple):
    """Types of activations and weights, and of gradients, which need more range than precision."""

    values: Any
    gradients: Any


_TYPES: dict[Quantization, _Types] = {
    "int8": _Types(jnp.int8, jnp.int8),
    "float8": _Types(jnp.float8_e4m3fn, jnp.float8_e5m2),
}


def quantized_matmul(
    x: Float[Array, "*rows D"], kernel: Float[Array, "D F"], quantization: Quantization
) -> Float[Array, "*rows F"]:
    """Return ``x @ kernel``, computed in 8 bits with a scale for each row of ``x`` and each column of ``kernel``.

    The gradient of ``x`` is computed likewise. That of ``kernel``, a sum over many rows, has the type of ``x``: this is
    SwitchBack (Wortsman et al. 2023, https://arxiv.org/abs/2304.13013).

    Args:
      x: Activations.
      kernel: Weights, in the type of ``x``.
      quantization: Type of the products.

    Raises:
      ValueError: Qwix isn't installed.
    """
    return _switch_back(x, kernel, quantization)


def _multiply(x: Array, kernel: Array, quantization: Quantization) -> Array:
    values, rows = _TYPES[quantization].values, tuple(range(x.ndim - 1))
    return _product(x, values, rows, kernel, values, (1,), contracting=(x.ndim - 1, 0))


def _forward(x: Array, kernel: Array, quantization: Quantization) -> tuple[Array, tuple[Array, Array]]:
    return _multiply(x, kernel, quantization), (x, kernel)


def _backward(quantization: Quantization, kept: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    x, kernel = kept
    types, rows = _TYPES[quantization], tuple(range(x.ndim - 1))
    of_x = _product(
        gradient, types.gradients, rows, kernel, types.values, (0,), contracting=(gradient.ndim - 1, 1)
    )
    return of_x, jax.lax.dot_general(x, gradient, ((rows, rows), ((), ())))


_switch_back = jax.custom_vjp(_multiply, nondiff_argnums=(2,))
_switch_back.defvjp(_forward, _backward)


def _product(
    left: Array,
    left_type: Any,
    left_channels: tuple[int, ...],
    right: Array,
    right_type: Any,
    right_channels: tuple[int, ...],
    *,
    contracting: tuple[int, int],
) -> Array:
    qwix = _qwix()
    quantized_left = qwix.quantize(left, left_type, channelwise_axes=left_channels)
    quantized_right = qwix.quantize(right, right_type, channelwise_axes=right_channels)
    dimensions = (((contracting[0],), (contracting[1],)), ((), ()))
    return qwix.dot_general(quantized_left, quantized_right, dimensions).astype(left.dtype)


def _qwix() -> Any:
    try:
        import qwix  # an extra
    except ModuleNotFoundError as error:
        raise ValueError(
            "quantization needs Qwix, which isn't installed; pip install 't5x-like[quantization]'"
        ) from error
    return qwix
