"""The configuration that GPT and the decoders with layer norms and biases after it share."""

from t5x_like.config_class import config_class
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig, LearnedPositions
from t5x_like.model.layers.feed_forward import Activation, FeedForwardConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.zoo.common_config import head_dim_of
from t5x_like.model.zoo.decoder_like import DecoderLikeConfig


@config_class
class GPTLikeConfig(DecoderLikeConfig):
    """A decoder with learned positions, layer norms and biases everywhere: ``DecoderLikeConfig`` and these fields.

    Heads share ``model_dim``.

    A member of the family adds fields, and overrides the part that they change: ``attention``, ``block`` and so on.

    Attributes:
      max_position_embeddings: Longest input in tokens.
      activation: Nonlinearity of the feed-forward layers.
      norm_epsilon: Added to the variance in all norms.
    """

    max_position_embeddings: int = 2048
    activation: Activation = "gelu_tanh"
    norm_epsilon: float = 1e-5
    tie_word_embeddings: bool = True

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words and positions."""
        return self.embeddings_of(
            positions=LearnedPositions(max_position_embeddings=self.max_position_embeddings)
        )

    @property
    def norm(self) -> LayerNormConfig:
        """Type of all norms."""
        return LayerNormConfig(epsilon=self.norm_epsilon)

    @property
    def init(self) -> Normal:
        """Fresh weights. Projections into the residual stream start smaller (Radford et al. 2019, §2.3)."""
        return Normal(0.02, residual_scale=(2 * self.num_layers) ** -0.5)

    @property
    def head_width(self) -> int:
        """Width of a head."""
        return head_dim_of(self.model_dim, self.num_heads)

    def attention(self, layer: int) -> AttentionConfig:  # noqa: ARG002 - members' attention depends on the layer
        """Return the self-attention of ``layer``, counted from 0."""
        return AttentionConfig(
            num_heads=self.num_heads, head_dim=self.head_width, in_bias=True, out_bias=True
        )

    def block(self, layer: int) -> BlockConfig:
        """Return the block of ``layer``, with a norm before attention and before the feed-forward layer."""
        return BlockConfig(
            model_dim=self.model_dim,
            attention=self.attention(layer),
            feed_forward=FeedForwardConfig(mlp_dim=self.mlp_dim, activation=self.activation, bias=True),
            norm=self.norm,
            dropout_rate=self.dropout_rate,
            init=self.init,
        )
