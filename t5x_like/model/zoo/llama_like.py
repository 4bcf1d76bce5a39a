"""The configuration that Llama and its descendants share."""

from typing import ClassVar, Literal

from t5x_like.config_class import config_class
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.feed_forward import Activation, FeedForwardConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.norm import RMSNormConfig
from t5x_like.model.layers.rotary import Rotary, RotaryScaling
from t5x_like.model.zoo.common_config import head_dim_of
from t5x_like.model.zoo.decoder_like import DecoderLikeConfig


@config_class
class LlamaLikeConfig(DecoderLikeConfig):
    """A decoder with RMS norms, rotary positions and gated feed-forward layers: ``DecoderLikeConfig`` and these fields.

    A member of the family adds fields, and overrides the part that they change: ``norm``, ``words``, ``attention`` and
    so on. Defaults are those of transformers for a field that a ``config.json`` leaves out.

    Attributes:
      num_kv_heads: Key and value heads; ``None`` is ``num_heads``.
      head_dim: Width of a head; ``None`` is ``model_dim / num_heads``.
      activation: Nonlinearity of the feed-forward layers' gates.
      rope_theta: Base of the rotary frequencies.
      rope_scaling: Changes the frequencies for longer texts; ``None`` leaves them.
      max_position_embeddings: Length in tokens that the model was trained with. Exported, and no limit here.
      norm_epsilon: Added to the mean square in all norms.
    """

    num_kv_heads: int | None = None
    head_dim: int | None = None
    activation: Activation = "silu"
    rope_theta: float = 10_000.0
    rope_scaling: RotaryScaling | None = None
    max_position_embeddings: int = 2048
    norm_epsilon: float = 1e-6
    tie_word_embeddings: bool = False

    stack_name: ClassVar[Literal["encoder", "decoder"]] = "decoder"

    @property
    def norm(self) -> RMSNormConfig:
        """Type of all norms."""
        return RMSNormConfig(epsilon=self.norm_epsilon)

    @property
    def rotary(self) -> Rotary:
        """Rotary positions."""
        return Rotary(
            rotated_dim=self.resolved_head_dim, rope_theta=self.rope_theta, rope_scaling=self.rope_scaling
        )

    @property
    def resolved_head_dim(self) -> int:
        """``head_dim``, or its default."""
        return self.head_dim or head_dim_of(self.model_dim, self.num_heads)

    @property
    def feed_forward(self) -> FeedForwardConfig:
        """Gated feed-forward layer without biases."""
        return FeedForwardConfig(mlp_dim=self.mlp_dim, activation=self.activation, gated=True)

    def sliding_window_of(self, layer: int) -> int | None:  # noqa: ARG002 - members' windows depend on the layer
        """Return the number of tokens that a token of ``layer`` attends to, itself included; ``None`` for no limit."""
        return None

    def attention(self, layer: int) -> AttentionConfig:
        """Return the self-attention of ``layer``, counted from 0, without biases."""
        window = self.sliding_window_of(layer)
        return AttentionConfig(
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            head_dim=self.resolved_head_dim,
            positions=self.rotary,
            window=None if window is None else SlidingWindow(left=window - 1),
        )

    def block(self, layer: int) -> BlockConfig:
        """Return the block of ``layer``, with a norm before attention and before the feed-forward layer."""
        return BlockConfig(
            model_dim=self.model_dim,
            attention=self.attention(layer),
            feed_forward=self.feed_forward,
            norm=self.norm,
            dropout_rate=self.dropout_rate,
            init=Normal(0.02),
        )
