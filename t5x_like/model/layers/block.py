"""One block of a Transformer, by configuration: self-attention, cross-attention if it has one, feed-forward."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.model.layers.attention import Attention, AttentionConfig
from t5x_like.model.layers.cache import LayerCache, write_at
from t5x_like.model.layers.dropout import fold
from t5x_like.model.layers.feed_forward import FeedForward, FeedForwardConfig
from t5x_like.model.layers.residual import NormSlot, Residual


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    """What a block is made of. ``cross_attention`` has the shape of ``attention``, as in T5."""

    model_dim: int
    attention: AttentionConfig
    feed_forward: FeedForwardConfig
    cross_attention: bool = False
    norm_slots: tuple[NormSlot, ...] = ("before",)
    norm_epsilon: float = 1e-6
    dropout_rate: float = 0.0


class Surroundings(NamedTuple):
    """What every block of a stack sees alike."""

    mask: Bool[Array, "..."] | None = None
    bias: Float[Array, "..."] | None = None
    encoded: Float[Array, "B M D"] | None = None
    encoded_mask: Bool[Array, "..."] | None = None
    position: Int[Array, ""] | None = None  # of the one token being decoded, with a cache


class Block(nnx.Module):
    """Reads and changes the stream ``x``; what varies between models is in ``config``."""

    def __init__(self, config: BlockConfig, *, key: Key[Array, ""]):
        self_key, cross_key, feed_key = jax.random.split(key, 3)
        self.config = config
        self.self_attention = Attention(config.attention, config.model_dim, key=self_key)
        self.around_self_attention = self._residual()
        cross = config.cross_attention
        self.cross_attention = Attention(config.attention, config.model_dim, key=cross_key) if cross else None
        self.around_cross_attention = self._residual() if cross else None
        self.feed_forward = FeedForward(config.feed_forward, config.model_dim, key=feed_key)
        self.around_feed_forward = self._residual()

    def __call__(
        self,
        x: Float[Array, "B L D"],
        around: Surroundings,
        *,
        cache: LayerCache | None = None,
        dropout_key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B L D"], LayerCache | None]:
        """With a cache, ``x`` is one token (L = 1) and the changed cache comes back."""
        rate = self.config.dropout_rate

        def attend(x: Array) -> Array:
            nonlocal cache
            seen = self.self_attention.keys_values(x)
            if cache is not None and around.position is not None:
                cache = cache._replace(own=write_at(cache.own, seen, around.position))
                seen = cache.own
            return self.self_attention(
                x,
                seen,
                mask=around.mask,
                bias=around.bias,
                dropout_rate=rate,
                dropout_key=fold(dropout_key, 0),
            )

        def attend_to_encoded(x: Array) -> Array:
            cross, encoded = self.cross_attention, around.encoded
            assert cross is not None
            seen = cross.keys_values(encoded) if cache is None else cache.encoded  # pyright: ignore
            assert seen is not None
            # With beams there are more rows than inputs: the beams of an input ask as so many queries.
            found = cross(
                x.reshape(seen.keys.shape[0], -1, x.shape[-1]),
                seen,
                mask=around.encoded_mask,
                dropout_rate=rate,
                dropout_key=fold(dropout_key, 2),
            )
            return found.reshape(x.shape)

        def feed(x: Array) -> Array:
            return self.feed_forward(x, dropout_rate=rate, dropout_key=fold(dropout_key, 4))

        x = self.around_self_attention(x, attend, dropout_rate=rate, dropout_key=fold(dropout_key, 1))
        if self.around_cross_attention is not None:
            x = self.around_cross_attention(
                x, attend_to_encoded, dropout_rate=rate, dropout_key=fold(dropout_key, 3)
            )
        x = self.around_feed_forward(x, feed, dropout_rate=rate, dropout_key=fold(dropout_key, 5))
        return x, cache

    def _residual(self) -> Residual:
        return Residual(
            self.config.model_dim, norm_slots=self.config.norm_slots, epsilon=self.config.norm_epsilon
        )
