"""The road around a layer, with three places where a norm can stand."""

from collections.abc import Callable
from typing import Literal

from flax import nnx
from jaxtyping import Array, Float, Key

from t5x_like.model.layers.dropout import dropout
from t5x_like.model.layers.norm import RMSNorm

NormSlot = Literal["before", "after", "final"]


class Residual(nnx.Module):
    """``final(x + after(layer(before(x))))``: T5 fills ``before``, BERT ``final``, Gemma 2 the first two."""

    def __init__(self, model_dim: int, *, norm_slots: tuple[NormSlot, ...], epsilon: float):
        def norm(slot: NormSlot) -> RMSNorm | None:
            return RMSNorm(model_dim, epsilon=epsilon) if slot in norm_slots else None

        self.before, self.after, self.final = norm("before"), norm("after"), norm("final")

    def __call__(
        self,
        x: Float[Array, "B L D"],
        layer: Callable[[Float[Array, "B L D"]], Float[Array, "B L D"]],
        *,
        dropout_rate: float = 0.0,
        dropout_key: Key[Array, ""] | None = None,
    ) -> Float[Array, "B L D"]:
        change = layer(x if self.before is None else self.before(x))
        change = change if self.after is None else self.after(change)
        x = x + dropout(change, dropout_rate, dropout_key, shared_dim=1)
        return x if self.final is None else self.final(x)
