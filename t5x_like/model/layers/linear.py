"""Linear layers, and the distributions of fresh weights."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
from flax import nnx
from jax.ad_checkpoint import checkpoint_name
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Key, PyTree

from t5x_like.model.automatic_choices import platform
from t5x_like.model.layers.modules import modules_of
from t5x_like.model.layers.quantized_matmul import Quantization, quantized_matmul
from t5x_like.model.layers.remat import OUTPUT_NAMES

_ADAPTER_SITES = 100  # dropout sites of a layer from here on are those of adapters


@dataclass(frozen=True)
class FanIn:
    """Initializes with variance ``scale**2 / num_inputs``, as T5 does (Raffel et al. 2020).

    Attributes:
      scale: Standard deviation of outputs relative to inputs.
      distribution: Shape of the distribution.
    """

    scale: float = 1.0
    distribution: Literal["normal", "truncated_normal"] = "truncated_normal"

    def draw(self, key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
        """Draw a matrix [in, out], or a stack of them.

        Args:
          key: Random key.
          shape: Shape of the matrix; the last two dimensions are inputs and outputs.
        """
        return jax.nn.initializers.variance_scaling(self.scale**2, "fan_in", self.distribution)(key, shape)

    def of_residual(self) -> "FanIn":
        """Return the initializer of a projection whose outputs are added to the residual stream."""
        return self

    def of_attention(self, head_dim: int, attention_scale: float) -> "tuple[FanIn, FanIn]":
        """Return the initializers of an attention layer, and of its queries.

        As in T5X: normally distributed, with queries so small that unscaled scores start as scaled ones do.

        Args:
          head_dim: Width of a head.
          attention_scale: Factor of the scores.
        """
        init = replace(self, distribution="normal")
        return init, replace(init, scale=init.scale * head_dim**-0.5 / attention_scale)


@dataclass(frozen=True)
class Normal:
    """Initializes with one standard deviation for all weights, as BERT and GPT do.

    Attributes:
      stddev: Standard deviation.
      residual_scale: Factor of it for projections whose outputs are added to the residual stream. GPT-2's is
        ``(2 * num_layers) ** -0.5`` (Radford et al. 2019, §2.3).
    """

    stddev: float = 0.02
    residual_scale: float = 1.0

    def draw(self, key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
        """Draw a matrix [in, out], or a stack of them.

        Args:
          key: Random key.
          shape: Shape of the matrix; the last two dimensions are inputs and outputs.
        """
        return self.stddev * jax.random.normal(key, shape)

    def of_residual(self) -> "Normal":
        """Return the initializer of a projection whose outputs are added to the residual stream."""
        return replace(self, stddev=self.stddev * self.residual_scale)

    def of_attention(self, *_: Any) -> "tuple[Normal, Normal]":
        """Return the initializers of an attention layer, and of its queries: both are this one."""
        return self, self


Initializer: TypeAlias = FanIn | Normal


class Linear(nnx.Module):
    """Multiplies the last dimension by ``kernel`` [in, out], stored in float32 and used in the activations' type.

    ``adapter`` is ``None``, or the name of the attribute with a module that changes the layer (see ``adapt``).
    ``quantization`` is ``None``, or the type in which products are computed (see ``quantize_projections``).
    ``has_float32_gradient`` is ``False``, or the gradient of the kernel is summed in float32 (see
    ``sum_gradients_in_float32``). ``carrier`` is ``None``, or takes the gradient out of a loop (see
    ``narrow_gradients``).

    Args:
      num_inputs: Width of inputs.
      num_outputs: Width of outputs.
      axes: Names of both dimensions for the partitioning rules.
      key: Random key of the fresh kernel.
      init: Distribution of the fresh kernel.
      bias: Adds a bias, initially 0.
    """

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
        self.kernel = nnx.Param(init.draw(key, (num_inputs, num_outputs)), axes=axes)
        self.bias = nnx.Param(jnp.zeros((num_outputs,), jnp.float32), axes=axes[1:]) if bias else None
        self.output_name = OUTPUT_NAMES.get(axes)
        self.adapter: str | None = None
        self.quantization: Quantization | None = None
        self.has_float32_gradient = False
        self.carrier: nnx.Param | None = None

    def __call__(
        self, x: Float[Array, "*rows D"], *, output_dtype: jnp.dtype | None = None
    ) -> Float[Array, "*rows F"]:
        """Return ``x @ kernel + bias``, summed and returned in ``output_dtype`` if that is given."""
        if self.adapter is None:
            return self.project(x, output_dtype)
        return getattr(self, self.adapter)(self, x, output_dtype)

    def adapt(self, name: str, module: nnx.Module) -> None:
        """Let ``module`` change the layer; its weights are at ``name`` below those of the layer.

        Args:
          name: Attribute for the module.
          module: Called as ``module(linear, x, output_dtype)``; ``module.merged(linear)`` returns a kernel and a bias
            to the same effect.
        """
        setattr(self, name, module)
        self.adapter = name

    def merged(self) -> tuple[Float[Array, "*stack D F"], Float[Array, "*stack F"] | None]:
        """Return kernel and bias that contain the adapter's change."""
        if self.adapter is None:
            return self.kernel[...], None if self.bias is None else self.bias[...]
        return getattr(self, self.adapter).merged(self)

    def project(
        self, x: Float[Array, "*rows D"], output_dtype: jnp.dtype | None = None
    ) -> Float[Array, "*rows F"]:
        """Return the layer's output without its adapter.

        Args:
          x: Inputs.
          output_dtype: Type of sums and outputs; None for that of the inputs.
        """
        kernel = self.kernel[...]
        kernel = kernel if self.carrier is None else _carried(kernel, self.carrier[...])
        kernel = kernel if self.has_float32_gradient else kernel.astype(x.dtype)
        if self.quantization is not None and output_dtype is None:
            y = quantized_matmul(x, kernel.astype(x.dtype), self.quantization)
        else:
            y = matmul(x, kernel, output_dtype)
        if self.bias is not None:
            y = y + self.bias[...].astype(y.dtype).reshape((1,) * (y.ndim - 1) + (-1,))
        return y if self.output_name is None else checkpoint_name(y, self.output_name)


def matmul(
    x: Float[Array, "*rows D"], kernel: Float[Array, "D F"], output_dtype: DTypeLike | None = None
) -> Float[Array, "*rows F"]:
    """Return ``x @ kernel``. Its gradients don't transpose large arrays on CPUs, as JAX's own do.

    Products are computed in the type of ``x``: the gradient of the result is rounded to it. The gradient of a kernel of
    a wider type is summed in that type.

    Args:
      x: Left factor.
      kernel: Right factor.
      output_dtype: Type of sums and result; ``None`` for that of ``x``.
    """
    return _matmul(x, kernel, output_dtype)


def _multiply(x: Array, kernel: Array, output_dtype: DTypeLike | None) -> Array:
    return jnp.matmul(x, kernel.astype(x.dtype), preferred_element_type=output_dtype)


_matmul = jax.custom_vjp(_multiply, nondiff_argnums=(2,))


def _multiply_forward(
    x: Array, kernel: Array, output_dtype: DTypeLike | None
) -> tuple[Array, tuple[Array, Array]]:
    return _multiply(x, kernel, output_dtype), (x, kernel)


def _multiply_backward(
    output_dtype: DTypeLike | None, kept: tuple[Array, Array], gradient: Array
) -> tuple[Array, Array]:
    x, kernel = kept
    gradient = gradient.astype(x.dtype)
    last, rows = (x.ndim - 1,), tuple(range(x.ndim - 1))
    of_x = jax.lax.dot_general(
        gradient, kernel.astype(x.dtype), ((last, (1,)), ((), ())), preferred_element_type=output_dtype
    )
    sums_dtype = output_dtype if kernel.dtype == x.dtype else kernel.dtype
    product = partial(jax.lax.dot_general, preferred_element_type=sums_dtype)
    # The first factor is transposed: the narrower one.
    if x.shape[-1] <= gradient.shape[-1]:
        of_kernel = product(x, gradient, ((rows, rows), ((), ())))
    else:
        of_kernel = product(gradient, x, ((rows, rows), ((), ()))).T
    if output_dtype is not None and platform() == "tpu":
        # Otherwise XLA keeps the gradients of logits until the optimizer needs the kernel's.
        of_x, of_kernel = jax.lax.optimization_barrier((of_x, of_kernel))
    return of_x.astype(x.dtype), of_kernel.astype(kernel.dtype)


_matmul.defvjp(_multiply_forward, _multiply_backward)


def quantize_projections(model: nnx.Module, quantization: Quantization) -> None:
    """Let a model's projections of attention and feed-forward layers compute their products in 8 bits.

    Embeddings, heads, routers and experts stay as they are.

    Args:
      model: Model, which is changed in place.
      quantization: Format of the products.
    """
    for linear in _projections(model):
        linear.quantization = quantization


def sum_gradients_in_float32(model: nnx.Module) -> None:
    """Let gradients of the kernels of attention's and feed-forward projections be summed in float32.

    That is over the tokens of a device, and over devices, which then send twice the bytes of bfloat16.
    """
    for linear in _projections(model):
        linear.has_float32_gradient = True


def narrow_gradients(tree: PyTree, dtype: DTypeLike) -> PyTree:
    """Let gradients of projections' kernels leave a loop over layers in the type of activations.

    They are computed in that type. Otherwise they are widened in each pass, and the loop stacks those of all layers:
    twice the memory. Here they are widened after the loop.

    Args:
      tree: Modules with stacked layers, before the loop.
      dtype: Type of activations.

    Returns:
      Other modules around the same kernels. ``Linear.carrier`` has their gradients.
    """
    tree = jax.tree.map(lambda leaf: leaf, tree)  # other modules around the same arrays
    for module in jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, nnx.Module)):
        for linear in _projections(module) if isinstance(module, nnx.Module) else ():
            is_wider = jnp.promote_types(linear.kernel.dtype, dtype) != dtype
            if is_wider and linear.adapter is None and not linear.has_float32_gradient:
                kernel, metadata = linear.kernel[...], linear.kernel.get_metadata()
                linear.carrier = nnx.data(nnx.Param(_carrier(kernel, jnp.dtype(dtype)), **metadata))
                linear.kernel = nnx.Param(jax.lax.stop_gradient(kernel), **metadata)
    return tree


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _carrier(kernel: Array, dtype: jnp.dtype) -> Array:
    """Return zeros whose gradient is that of the kernel."""
    return jnp.zeros(kernel.shape, dtype)


_carrier.defvjp(
    lambda kernel, dtype: (_carrier(kernel, dtype), None),
    lambda _dtype, _, gradient: (gradient.astype(jnp.float32),),
)


@jax.custom_vjp
def _carried(kernel: Array, carrier: Array) -> Array:
    """Return the kernel in the type of the carrier, which has its gradient.

    XLA for TPUs moves a conversion alone out of the loop, and keeps the kernels of all layers in both types.
    """
    info = jnp.finfo(carrier.dtype)
    return jax.lax.reduce_precision(kernel, info.nexp, info.nmant).astype(carrier.dtype)


_carried.defvjp(
    lambda kernel, carrier: (_carried(kernel, carrier), None),
    lambda _, gradient: (None, gradient),
)


def _projections(model: nnx.Module) -> Iterator[Linear]:
    """Yield the projections of attention and feed-forward layers."""
    return (linear for _, linear in modules_of(model, Linear) if linear.output_name is not None)


def set_adapter_keys(block: nnx.Module, key: Key[Array, ""] | None) -> None:
    """Give the adapters of a block's linear layers keys for their dropout, each its own.

    Args:
      block: One layer's block, in a copy that is used for one call.
      key: Dropout key of the layer; ``None`` for no dropout.
    """
    if key is None:
        return
    for index, (_, linear) in enumerate(modules_of(block, Linear)):
        if linear.adapter is not None:
            getattr(linear, linear.adapter).set_dropout_key(jax.random.fold_in(key, _ADAPTER_SITES + index))
