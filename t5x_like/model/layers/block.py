"""Transformer block: self-attention, optional cross-attention, and a feed-forward layer."""

from typing import NamedTuple, TypeAlias

import jax
from flax import nnx
from jaxtyping import Array, Float, Key

from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.layers.attention import Attention, AttentionConfig
from t5x_like.model.layers.dropout import check_rate, fold
from t5x_like.model.layers.feed_forward import FeedForward, FeedForwardConfig
from t5x_like.model.layers.kv_cache import LayerCache
from t5x_like.model.layers.latent_attention import AttentionSlot, LatentAttention, LatentAttentionConfig
from t5x_like.model.layers.linear import FanIn, Initializer
from t5x_like.model.layers.mixture_of_experts import MixtureOfExperts, MixtureOfExpertsConfig
from t5x_like.model.layers.norm import NormConfig, RMSNormConfig
from t5x_like.model.layers.positions import RelativeBias, RelativeBuckets
from t5x_like.model.layers.residual import NormSlot, Residual
from t5x_like.model.layers.routing_sums import RoutingSums
from t5x_like.model.layers.self_attention import AttentionContext, SelfAttention, segments_of
from t5x_like.model.layers.token_convolution import TokenConvolution, TokenConvolutionConfig
from t5x_like.model.layers.transient_global import TransientGlobal, TransientGlobalConfig

FeedForwardSlot: TypeAlias = FeedForwardConfig | MixtureOfExpertsConfig


@config_class
class BlockConfig:
    """Configuration of a block.

    Attributes:
      model_dim: Width of the residual stream.
      attention: Self-attention; of a latent vector for each token, where that is configured.
      feed_forward: Feed-forward layer, or a mixture of experts in its place.
      cross_attention: Attention to an encoder's output; ``None`` for a block without.
      encoded_dim: Width of the encoder's output; ``None`` is ``model_dim``.
      norm: Type of all norms.
      attention_norms: Positions of norms around self-attention and cross-attention (see ``Residual``).
      feed_forward_norms: Positions of norms around the feed-forward layer.
      parallel: Attention and feed-forward layer read the same input, and both outputs are added to it (Wang and
        Komatsuzaki 2021, GPT-J). Otherwise the feed-forward layer reads the output of attention.
      convolution: A convolution of the block's inputs is added to its outputs (DeBERTa v2); ``None`` for none.
      transient_global: Local attention also attends to summaries of blocks (LongT5); needs a symmetric window.
      dropout_rate: Dropout of layer outputs, attention weights and inner feed-forward activations.
      init: Distribution of fresh kernels.
    """

    model_dim: int
    attention: AttentionSlot
    feed_forward: FeedForwardSlot
    cross_attention: AttentionConfig | None = None
    encoded_dim: int | None = None
    norm: NormConfig = RMSNormConfig()
    attention_norms: tuple[NormSlot, ...] = ("before",)
    feed_forward_norms: tuple[NormSlot, ...] = ("before",)
    parallel: bool = False
    convolution: TokenConvolutionConfig | None = None
    transient_global: TransientGlobalConfig | None = None
    dropout_rate: float = 0.0
    init: Initializer = FanIn()

    def __post_init__(self) -> None:
        if self.model_dim < 1:
            raise ValueError(f"model_dim is {self.model_dim}; give a positive number")
        check_rate("dropout_rate", self.dropout_rate)
        window = self.attention.window
        if self.transient_global is not None and (window is None or window.left != window.right):
            raise ValueError(
                f"transient_global with window={window}; give one that reaches equally far both ways"
            )


class BlockOutput(NamedTuple):
    """Hidden states, updated KV cache, and sums of a mixture of experts' router; ``None`` without experts."""

    x: Float[Array, "B L D"]
    cache: LayerCache | None
    routing: RoutingSums | None


class Block(nnx.Module):
    """One block; everything that varies between models is in ``config``."""

    def __init__(self, config: BlockConfig, *, key: Key[Array, ""]):
        self_key, cross_key, feed_key, bias_key = jax.random.split(key, 4)
        model_dim, init, positions = config.model_dim, config.init, config.attention.positions
        attention = LatentAttention if isinstance(config.attention, LatentAttentionConfig) else Attention
        self.self_attention = attention(config.attention, model_dim, key=self_key, init=init)  # pyright: ignore[reportArgumentType]
        self.relative_bias = (
            RelativeBias(positions, num_heads=config.attention.num_heads, key=bias_key)
            if isinstance(positions, RelativeBuckets)
            else None
        )
        self.transient_global = config.transient_global and TransientGlobal(config.norm, model_dim)
        self.self_attention_residual = self._residual(config, config.attention_norms)
        cross = config.cross_attention
        self.cross_attention = cross and Attention(
            cross, model_dim, key=cross_key, init=init, attended_dim=config.encoded_dim
        )
        self.cross_attention_residual = cross and self._residual(config, config.attention_norms)
        slot = config.feed_forward
        feed_forward = MixtureOfExperts if isinstance(slot, MixtureOfExpertsConfig) else FeedForward
        self.feed_forward = feed_forward(slot, model_dim, key=feed_key, init=init)  # pyright: ignore[reportArgumentType]
        self.feed_forward_residual = self._residual(config, config.feed_forward_norms)
        convolution, key = config.convolution, jax.random.fold_in(key, 1)
        self.convolution = convolution and TokenConvolution(
            convolution, model_dim, config.norm, key=key, init=init
        )
        self.config = config

    def __call__(
        self,
        x: Float[Array, "B L D"],
        context: AttentionContext,
        *,
        cache: LayerCache | None = None,
        dropout_key: Key[Array, ""] | None = None,
    ) -> BlockOutput:
        """Run the block.

        Args:
          x: Residual stream. With a cache: that of the tokens after the cached ones.
          context: Masks, biases and encoder output that all blocks share.
          cache: Keys and values of earlier tokens, while decoding.
          dropout_key: ``None`` for no dropout.

        Raises:
          ValueError: A block with a convolution is to read tokens one at a time.
        """
        rate, inputs = self.config.dropout_rate, x
        new_cache, routing = cache, None

        def attend(x: Array) -> Array:
            nonlocal new_cache
            attention = SelfAttention(self.self_attention, self.relative_bias, self.transient_global, rate)
            output, new_cache = attention(x, context, cache, fold(dropout_key, 0))
            return output

        def attend_to_encoded(x: Array) -> Array:
            return self._attend_to_encoded(x, context, cache, fold(dropout_key, 2))

        def feed(x: Array) -> Array:
            nonlocal routing
            dropping = {"dropout_rate": rate, "dropout_key": fold(dropout_key, 4)}
            with named_activations.scope("feed_forward"):
                if not isinstance(self.feed_forward, MixtureOfExperts):
                    return self.feed_forward(x, **dropping)
                output, routing = self.feed_forward(x, mask=context.real, **dropping)
                return output

        drop = {site: {"dropout_rate": rate, "dropout_key": fold(dropout_key, site)} for site in (1, 3, 5)}
        if self.config.parallel:
            attention_output = self.self_attention_residual.change(x, attend, **drop[1])
            mlp_output = self.feed_forward_residual.change(x, feed, **drop[5])
            return BlockOutput(x + attention_output + mlp_output, new_cache, routing)
        x = self.self_attention_residual(x, attend, **drop[1])
        if self.cross_attention_residual is not None and (context.encoded is not None or cache is not None):
            x = self.cross_attention_residual(x, attend_to_encoded, **drop[3])
        x = self.feed_forward_residual(x, feed, **drop[5])
        if self.convolution is not None:
            if cache is not None:
                raise ValueError(
                    "a convolution over tokens (conv_kernel_size) needs whole texts; this model can't write them token "
                    "by token"
                )
            dropping = {"dropout_rate": rate, "dropout_key": fold(dropout_key, 6)}
            x = self.convolution(inputs, x, segments_of(context, (x.shape[0], x.shape[1])), **dropping)
        return BlockOutput(x, new_cache, routing)

    def _attend_to_encoded(
        self, x: Array, context: AttentionContext, cache: LayerCache | None, dropout_key: Array | None
    ) -> Array:
        cross, encoded = self.cross_attention, context.encoded
        assert cross is not None
        if cache is None:
            assert encoded is not None
            keys_values = cross.project_keys_values(encoded)
        else:
            assert cache.encoded is not None
            keys_values = cache.encoded.keys_values
        # With beams there are more rows than inputs: all beams of an input are queries of one row.
        with named_activations.scope("cross_attention"):
            output = cross(
                x.reshape(keys_values.keys.shape[0], -1, x.shape[-1]),
                keys_values,
                mask=context.encoded_mask,
                implementation=context.implementation,
                dropout_rate=self.config.dropout_rate,
                dropout_key=dropout_key,
            )
        return output.reshape(x.shape)

    @staticmethod
    def _residual(config: BlockConfig, norm_slots: tuple[NormSlot, ...]) -> Residual:
        return Residual(config.norm, config.model_dim, norm_slots=norm_slots)
