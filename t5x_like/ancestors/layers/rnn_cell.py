"""Gates of recurrent networks: LSTM (Hochreiter and Schmidhuber 1997) and GRU (Cho et al. 2014)."""

import math
from typing import ClassVar, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from t5x_like.config_class import config_class


class RNNState(NamedTuple):
    """State of one layer in one direction, in float32.

    Attributes:
      hidden: Its last output.
      cell: Memory cells of an LSTM; ``None`` for a GRU.
    """

    hidden: Float[Array, "B P"]
    cell: Float[Array, "B H"] | None = None


@config_class
class LSTMConfig:
    """Long short-term memory with a forget gate and without peepholes, as ``torch.nn.LSTM``.

    Input, forget and output gates ``i, f, o`` and candidates ``g`` are sums of an input and a hidden product:
    ``c' = f * c + i * tanh(g)`` and ``h' = o * tanh(c')``, where the gates have a sigmoid. Weights have the order
    ``i, f, g, o``.

    Attributes:
      projection_dim: Width of outputs, to which a matrix without bias projects ``h'`` (Sak et al. 2014, §2.2); ``None``
        for ``h'`` itself.
      forget_bias: Initial bias of the forget gates (Jozefowicz et al. 2015, §4); other biases begin at 0.
      cell_clip: Largest absolute value of ``c'``, also where it enters ``h'``; ``None`` for no limit.
      projection_clip: Largest absolute value of projected outputs; ``None`` for no limit.
    """

    projection_dim: int | None = None
    forget_bias: float = 1.0
    cell_clip: float | None = None
    projection_clip: float | None = None

    num_gates: ClassVar[int] = 4
    has_cell: ClassVar[bool] = True
    has_hidden_bias: ClassVar[bool] = False  # would only be added to the inputs' bias

    def __post_init__(self) -> None:
        if self.projection_dim is not None and self.projection_dim < 1:
            raise ValueError(
                f"projection_dim is {self.projection_dim}; give a positive number, or None for no projection"
            )
        for name in ("cell_clip", "projection_clip"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} is {value}; give a positive number, or None for no limit")
        if self.projection_clip is not None and self.projection_dim is None:
            raise ValueError(
                f"projection_clip is {self.projection_clip}, and there is no projection; set projection_dim, or leave "
                "projection_clip None"
            )

    def initial_bias(self, hidden_dim: int) -> Float[Array, " G"]:
        """Return the fresh bias of all gates."""
        return jnp.zeros((4, hidden_dim), jnp.float32).at[1].set(self.forget_bias).ravel()

    def advance(
        self, input_sums: Float[Array, "B G"], hidden_sums: Float[Array, "B G"], state: RNNState
    ) -> RNNState:
        """Return the state after one token, before the projection.

        Args:
          input_sums: Product of the token with the input kernel, in float32.
          hidden_sums: Product of the last output with the hidden kernel, in float32.
          state: State before the token.
        """
        input_gate, forget_gate, candidate, output_gate = jnp.split(input_sums + hidden_sums, 4, axis=-1)
        assert state.cell is not None
        cell = jax.nn.sigmoid(forget_gate) * state.cell + jax.nn.sigmoid(input_gate) * jnp.tanh(candidate)
        cell = clip(cell, self.cell_clip)
        return RNNState(jax.nn.sigmoid(output_gate) * jnp.tanh(cell), cell)


@config_class
class GRUConfig:
    """Gated recurrent unit, as ``torch.nn.GRU``.

    The reset gate ``r`` multiplies the candidate's hidden product, its bias included: ``n = tanh(W x + b + r * (U h +
    c))``. Cho et al. 2014 (§2.3) multiply ``h`` before the product. With the update gate ``z``,
    ``h' = (1 - z) * n + z * h``. Weights have the order ``r, z, n``.
    """

    projection_dim: ClassVar[None] = None
    projection_clip: ClassVar[None] = None
    num_gates: ClassVar[int] = 3
    has_cell: ClassVar[bool] = False
    has_hidden_bias: ClassVar[bool] = True  # the candidate's is inside the reset gate

    def initial_bias(self, hidden_dim: int) -> Float[Array, " G"]:
        """Return the fresh bias of all gates."""
        return jnp.zeros((3 * hidden_dim,), jnp.float32)

    def advance(
        self, input_sums: Float[Array, "B G"], hidden_sums: Float[Array, "B G"], state: RNNState
    ) -> RNNState:
        """Return the state after one token; arguments are those of ``LSTMConfig.advance``."""
        input_reset, input_update, input_candidate = jnp.split(input_sums, 3, axis=-1)
        hidden_reset, hidden_update, hidden_candidate = jnp.split(hidden_sums, 3, axis=-1)
        reset = jax.nn.sigmoid(input_reset + hidden_reset)
        update = jax.nn.sigmoid(input_update + hidden_update)
        candidate = jnp.tanh(input_candidate + reset * hidden_candidate)
        return RNNState((1.0 - update) * candidate + update * state.hidden)


def clip(x: Float[Array, "B H"], limit: float | None) -> Float[Array, "B H"]:
    """Return ``x`` limited to absolute values of ``limit``; ``None`` for no limit.

    Args:
      x: Values.
      limit: Highest absolute value.
    """
    return x if limit is None else jnp.clip(x, -limit, limit)


RNNCellConfig: TypeAlias = LSTMConfig | GRUConfig
