"""(IA)3: learned scales of keys, values and inner feed-forward activations (Liu et al. 2022).

https://arxiv.org/abs/2205.05638, §3.3.
"""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from t5x_like.config_class import config_class
from t5x_like.model.adapters.targets import merge_linears, targeted_linears
from t5x_like.model.layers.linear import Linear


@config_class
class IA3:
    """Multiplies activations with learned vectors, which are initially 1.

    Weights of a layer at ``<path>`` are ``<path>/ia3/scale`` [out], or [in] where inputs are scaled, in float32, with
    the leading dimensions of its kernel: those of stacked layers, then of experts.

    Attributes:
      targets: Patterns of paths of linear layers whose outputs are scaled, by default keys and values.
      input_targets: Patterns of those whose inputs are scaled, by default the second layer of feed-forward layers.
    """

    targets: tuple[str, ...] = ("*/key", "*/value")
    input_targets: tuple[str, ...] = ("*/down",)

    def __post_init__(self) -> None:
        if not self.targets and not self.input_targets:
            raise ValueError(
                "targets and input_targets are empty; give patterns of linear layers, such as '*/key'"
            )

    @property
    def trainable(self) -> tuple[str, ...]:
        """Patterns of the weights that train."""
        return ("*/ia3/*",)

    def attach(self, model: nnx.Module, key: Key[Array, ""]) -> nnx.Module:  # noqa: ARG002 - nothing is random
        """Give the targeted layers scales of 1; returns the model.

        Raises:
          ValueError: A pattern matches no layer, or a layer is targeted twice.
        """
        outputs = targeted_linears(model, self.targets, what="targets")
        inputs = targeted_linears(model, self.input_targets, what="input_targets")
        both = sorted(outputs.keys() & inputs.keys())
        if both:
            raise ValueError(f"targets and input_targets both match {both[0]}; scale either side of a layer")
        for linear in outputs.values():
            linear.adapt("ia3", Scale(linear, of_inputs=False))
        for linear in inputs.values():
            linear.adapt("ia3", Scale(linear, of_inputs=True))
        return model

    def merge(self, model: nnx.Module) -> nnx.Module:
        """Multiply kernels and biases by the scales and remove them; returns the model."""
        return merge_linears(model)


class Scale(nnx.Module):
    """Scales of one linear layer's inputs or outputs, or of a stack of layers."""

    def __init__(self, linear: Linear, *, of_inputs: bool):
        *stack, num_inputs, num_outputs = linear.kernel.shape
        axes = linear.kernel.get_metadata()["axes"]
        width, axis = (num_inputs, axes[-2]) if of_inputs else (num_outputs, axes[-1])
        self.scale = nnx.Param(jnp.ones((*stack, width), jnp.float32), axes=(*axes[:-2], axis))
        self.of_inputs = of_inputs

    def __call__(
        self, linear: Linear, x: Float[Array, "*rows D"], output_dtype: jnp.dtype | None
    ) -> Float[Array, "*rows F"]:
        """Return the layer's output with scaled inputs, or scaled."""
        if self.of_inputs:
            return linear.project(self._scaled(x), output_dtype)
        return self._scaled(linear.project(x, output_dtype))

    def merged(self, linear: Linear) -> tuple[Float[Array, "*stack D F"], Float[Array, "*stack F"] | None]:
        """Return kernel and bias that contain the scales."""
        kernel, scale = linear.kernel[...], self.scale[...]
        bias = None if linear.bias is None else linear.bias[...]
        if self.of_inputs:
            return kernel * scale[..., None], bias
        return kernel * scale[..., None, :], None if bias is None else bias * scale

    def set_dropout_key(self, key: Key[Array, ""]) -> None:
        """Do nothing: scales have no dropout."""

    def _scaled(self, x: Float[Array, "*rows D"]) -> Float[Array, "*rows D"]:
        return x * self.scale[...].astype(x.dtype).reshape((1,) * (x.ndim - 1) + (-1,))
