"""Residual connection with normalization before, after or outside the layer."""

from collections.abc import Callable
from typing import Literal

from flax import nnx
from jaxtyping import Array, Float, Key

from t5x_like.model.layers.dropout import dropout
from t5x_like.model.layers.norm import Norm, NormConfig
from t5x_like.partitioning.activations import constrain_tokens, gather_tokens

NormSlot = Literal["before", "after", "final"]


class Residual(nnx.Module):
    """Computes ``final(x + after(layer(before(x))))``. T5 has ``before``, BERT ``final``, Gemma 2 the first two.

    Args:
      norm: Type of the norms.
      model_dim: Width of the residual stream.
      norm_slots: Norms that are there.

    Attributes:
      adapter: Follows the layer, before the norm ``after`` (Houlsby et al. 2019); ``None`` for none.
    """

    def __init__(self, norm: NormConfig, model_dim: int, *, norm_slots: tuple[NormSlot, ...]):
        def norm_at(slot: NormSlot) -> Norm | None:
            return norm.build(model_dim) if slot in norm_slots else None

        self.before, self.after, self.final = norm_at("before"), norm_at("after"), norm_at("final")
        self.adapter: nnx.Module | None = None

    def __call__(
        self,
        x: Float[Array, "B L D"],
        layer: Callable[[Float[Array, "B L D"]], Float[Array, "B L D"]],
        *,
        dropout_rate: float = 0.0,
        dropout_key: Key[Array, ""] | None = None,
    ) -> Float[Array, "B L D"]:
        """Apply ``layer`` with the residual connection; dropout acts on the layer's output."""
        change = self.change(x, layer, dropout_rate=dropout_rate, dropout_key=dropout_key)
        x = constrain_tokens(x + change)
        return x if self.final is None else self.final(x)

    def change(
        self,
        x: Float[Array, "B L D"],
        layer: Callable[[Float[Array, "B L D"]], Float[Array, "B L D"]],
        *,
        dropout_rate: float = 0.0,
        dropout_key: Key[Array, ""] | None = None,
    ) -> Float[Array, "B L D"]:
        """Return the layer's contribution to the residual stream.

        Args:
          x: Residual stream.
          layer: Layer between the norms.
          dropout_rate: Share of the layer's output set to zero.
          dropout_key: None for no dropout.
        """
        change = constrain_tokens(layer(gather_tokens(x if self.before is None else self.before(x))))
        change = change if self.adapter is None else self.adapter(change)  # pyright: ignore[reportCallIssue]
        change = change if self.after is None else self.after(change)
        return dropout(change, dropout_rate, dropout_key, shared_dim=1)
