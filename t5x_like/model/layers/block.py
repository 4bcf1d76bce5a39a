"""One block of a Transformer, by configuration: self-attention, cross-attention if it has one, feed-forward."""

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.model.layers.attention import Attention, AttentionConfig
from t5x_like.model.layers.cache import LayerCache, write_at
from t5x_like.model.layers.dropout import fold
from t5x_like.model.layers.feed_forward import FeedForward, FeedForwardConfig
from t5x_like.model.layers.initialise import FanIn, Initialisation
from t5x_like.model.layers.local_attention import block_length, local_attention, places_in_blocks
from t5x_like.model.layers.masks import both, window_mask
from t5x_like.model.layers.mixture_of_experts import MixtureOfExperts, MixtureOfExpertsConfig
from t5x_like.model.layers.norm import NormConfig, RMSNormConfig
from t5x_like.model.layers.positions import RelativeBias, RelativeBuckets
from t5x_like.model.layers.residual import NormSlot, Residual
from t5x_like.model.layers.transient_global import Globals, TransientGlobal, TransientGlobalConfig

FeedForwardSlot: TypeAlias = FeedForwardConfig | MixtureOfExpertsConfig


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    """What a block is made of.

    ``attention_norms`` and ``feed_forward_norms`` say where norms stand around each layer. A ``parallel`` block's
    layers read the same stream and are added together (Wang and Komatsuzaki 2021, GPT-J). With ``transient_global``,
    local attention sees summaries too.
    """

    model_dim: int
    attention: AttentionConfig
    feed_forward: FeedForwardSlot
    cross_attention: AttentionConfig | None = None
    norm: NormConfig = RMSNormConfig()
    attention_norms: tuple[NormSlot, ...] = ("before",)
    feed_forward_norms: tuple[NormSlot, ...] = ("before",)
    parallel: bool = False
    transient_global: TransientGlobalConfig | None = None
    dropout_rate: float = 0.0
    init: Initialisation = FanIn()

    def __post_init__(self) -> None:
        window = self.attention.window
        if self.transient_global is not None and (window is None or window.before != window.after):
            raise ValueError(
                f"transient_global with window={window}; give one that reaches equally far both ways"
            )


class Surroundings(NamedTuple):
    """What every block of a stack sees alike."""

    mask: Bool[Array, "..."] | None = None  # broadcasts to [B, H, L, M]
    bias: Float[Array, "..."] | None = None  # likewise
    real: Bool[Array, "B L"] | None = None  # the tokens of the stream that are not padding
    segment_ids: Int[Array, "B L"] | None = None  # where given, they say all that mask says
    global_blocks: Globals | None = None
    positions: Int[Array, "B L"] | None = None  # of the tokens in the stream
    key_positions: Int[Array, "B M"] | None = None  # of what may be looked at
    bidirectional: bool = False  # whether relative positions tell before from after
    encoded: Float[Array, "B M D"] | None = None
    encoded_mask: Bool[Array, "..."] | None = None
    index: Int[Array, ""] | None = None  # with a cache, the place of the stream's first token


class BlockOutput(NamedTuple):
    """The stream after a block, its changed cache, and what its router is charged with, if it has one."""

    x: Float[Array, "B L D"]
    cache: LayerCache | None
    balance_loss: Float[Array, ""]


def local_length(config: BlockConfig, length: int, around: Surroundings) -> int | None:
    """How long the blocks of local attention are, ``None`` where attention is not cut into blocks.

    Raises:
      ValueError: summaries of blocks, but more than segments says who sees whom.
    """
    if config.transient_global is None:
        return block_length(config.attention.window, length, around.segment_ids)
    if around.segment_ids is None:
        raise ValueError("transient-global attention can't obey an attention_mask; give segment ids alone")
    assert config.attention.window is not None
    return config.attention.window.before + 1


class Block(nnx.Module):
    """Reads and changes the stream ``x``; what varies between models is in ``config``."""

    def __init__(self, config: BlockConfig, *, key: Key[Array, ""]):
        self_key, cross_key, feed_key, bias_key = jax.random.split(key, 4)
        model_dim, init, positions = config.model_dim, config.init, config.attention.positions
        self.self_attention = Attention(config.attention, model_dim, key=self_key, init=init)
        self.relative_bias = (
            RelativeBias(positions, num_heads=config.attention.num_heads, key=bias_key)
            if isinstance(positions, RelativeBuckets)
            else None
        )
        self.transient_global = config.transient_global and TransientGlobal(config.norm, model_dim)
        self.around_self_attention = self._residual(config, config.attention_norms)
        cross = config.cross_attention
        self.cross_attention = cross and Attention(cross, model_dim, key=cross_key, init=init)
        self.around_cross_attention = cross and self._residual(config, config.attention_norms)
        slot = config.feed_forward
        feed_forward = MixtureOfExperts if isinstance(slot, MixtureOfExpertsConfig) else FeedForward
        self.feed_forward = feed_forward(slot, model_dim, key=feed_key, init=init)  # pyright: ignore[reportArgumentType]
        self.around_feed_forward = self._residual(config, config.feed_forward_norms)
        self.config = config

    def __call__(
        self,
        x: Float[Array, "B L D"],
        around: Surroundings,
        *,
        cache: LayerCache | None = None,
        dropout_key: Key[Array, ""] | None = None,
    ) -> BlockOutput:
        """With a cache, ``x`` are its next tokens and the changed cache comes back."""
        rate = self.config.dropout_rate
        changed, balance_loss = cache, jnp.zeros(())

        def attend(x: Array) -> Array:
            nonlocal changed
            found, changed = self._attend(x, around, cache, fold(dropout_key, 0))
            return found

        def attend_to_encoded(x: Array) -> Array:
            return self._attend_to_encoded(x, around, cache, fold(dropout_key, 2))

        def feed(x: Array) -> Array:
            nonlocal balance_loss
            dropping = {"dropout_rate": rate, "dropout_key": fold(dropout_key, 4)}
            if not isinstance(self.feed_forward, MixtureOfExperts):
                return self.feed_forward(x, **dropping)
            found, balance_loss = self.feed_forward(x, mask=around.real, **dropping)
            return found

        drop = {site: {"dropout_rate": rate, "dropout_key": fold(dropout_key, site)} for site in (1, 3, 5)}
        if self.config.parallel:
            heard = self.around_self_attention.change(x, attend, **drop[1])
            thought = self.around_feed_forward.change(x, feed, **drop[5])
            return BlockOutput(x + heard + thought, changed, balance_loss)
        x = self.around_self_attention(x, attend, **drop[1])
        if self.around_cross_attention is not None and (around.encoded is not None or cache is not None):
            x = self.around_cross_attention(x, attend_to_encoded, **drop[3])
        x = self.around_feed_forward(x, feed, **drop[5])
        return BlockOutput(x, changed, balance_loss)

    def _attend(
        self, x: Array, around: Surroundings, cache: LayerCache | None, dropout_key: Array | None
    ) -> tuple[Array, LayerCache | None]:
        dropping = {"dropout_rate": self.config.dropout_rate, "dropout_key": dropout_key}
        length = local_length(self.config, x.shape[1], around)
        if length is not None:
            return self._attend_locally(x, around, length, dropping), cache
        seen = self.self_attention.keys_values(x, around.positions)
        if cache is not None:
            assert around.index is not None
            cache = cache._replace(own=write_at(cache.own, seen, around.index))
            seen = cache.own
        mask, window = around.mask, self.config.attention.window
        if window is not None:
            assert around.positions is not None
            assert around.key_positions is not None
            mask = both(mask, window_mask(around.positions, around.key_positions, window))
        start = 0 if around.index is None else around.index
        found = self.self_attention(
            x,
            seen,
            positions=around.positions,
            mask=mask,
            bias=self._bias(around, jnp.arange(x.shape[1]) + start, jnp.arange(seen.keys.shape[1])),
            **dropping,
        )
        return found, cache

    def _attend_locally(
        self, x: Array, around: Surroundings, length: int, dropping: dict[str, Any]
    ) -> Float[Array, "B L D"]:
        assert around.segment_ids is not None
        aside = None
        if self.transient_global is not None:
            assert around.global_blocks is not None
            aside = self.transient_global(x, self.self_attention, around.global_blocks)
        return local_attention(
            self.self_attention,
            x,
            around.segment_ids,
            block_length=length,
            positions=around.positions,
            bias=self._bias(around, *places_in_blocks(length)),
            aside=aside,
            **dropping,
        )

    def _bias(self, around: Surroundings, queries: Array, keys: Array) -> Array | None:
        if self.relative_bias is None:
            return around.bias
        return self.relative_bias(queries, keys, len(keys), bidirectional=around.bidirectional)

    def _attend_to_encoded(
        self, x: Array, around: Surroundings, cache: LayerCache | None, dropout_key: Array | None
    ) -> Array:
        cross, encoded = self.cross_attention, around.encoded
        assert cross is not None
        seen = cache.encoded if cache is not None else cross.keys_values(encoded)  # pyright: ignore[reportArgumentType]
        assert seen is not None
        # With beams there are more rows than inputs: the beams of an input ask as so many queries.
        found = cross(
            x.reshape(seen.keys.shape[0], -1, x.shape[-1]),
            seen,
            mask=around.encoded_mask,
            dropout_rate=self.config.dropout_rate,
            dropout_key=dropout_key,
        )
        return found.reshape(x.shape)

    @staticmethod
    def _residual(config: BlockConfig, norm_slots: tuple[NormSlot, ...]) -> Residual:
        return Residual(config.norm, config.model_dim, norm_slots=norm_slots)
