"""The configuration that GPT and the decoders with layer norms and biases after it share."""

from dataclasses import dataclass

from t5x_like.model.families.decoder import DecoderConfig
from t5x_like.model.heads import WordsConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig, LearnedPositions
from t5x_like.model.layers.feed_forward import Activation, FeedForwardConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.zoo.common_config import CommonConfig, head_dim_of
from t5x_like.model.zoo.decoder_parts import decoder_heads
from t5x_like.model.zoo.model_tasks import ModelTask


@dataclass(frozen=True, kw_only=True)
class GPTLikeConfig(CommonConfig):
    """A decoder with learned positions, layer norms and biases everywhere, of any size.

    A member of the family adds fields, and overrides the part that they change: ``attention``, ``block`` and so on.

    Attributes:
      mlp_dim: Inner width of the feed-forward layers.
      num_heads: Attention heads of each layer; they share ``model_dim``.
      num_layers: Number of blocks.
      max_position_embeddings: Longest input in tokens.
      activation: Nonlinearity of the feed-forward layers.
      norm_epsilon: Added to the variance in all norms.
      tie_word_embeddings: The output layer uses the word embeddings.
    """

    mlp_dim: int
    num_heads: int
    num_layers: int
    max_position_embeddings: int = 2048
    activation: Activation = "gelu_tanh"
    norm_epsilon: float = 1e-5
    tie_word_embeddings: bool = True
    task: ModelTask = "causal_lm"

    @property
    def parts(self) -> DecoderConfig:
        """Configuration of the family's model."""
        return self.decoder

    @property
    def decoder(self) -> DecoderConfig:
        """Configuration of the family's model."""
        return DecoderConfig(
            embeddings=self.embeddings,
            stack=StackConfig(
                blocks=tuple(map(self.block, range(self.num_layers))),
                final_norm=self.final_norm,
                remat=self.remat,
            ),
            heads=decoder_heads(
                self.task, self.num_labels, WordsConfig(tie_word_embeddings=self.tie_word_embeddings)
            ),
            compute_dtype=self.compute_dtype,
        )

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words and positions."""
        return EmbeddingsConfig(
            vocab_size=self.vocab_size,
            embed_dim=self.model_dim,
            positions=LearnedPositions(max_position_embeddings=self.max_position_embeddings),
            stddev=0.02,
            pad_vocab_to_multiple_of=self.pad_vocab_to_multiple_of,
        )

    @property
    def norm(self) -> LayerNormConfig:
        """Type of all norms."""
        return LayerNormConfig(epsilon=self.norm_epsilon)

    @property
    def final_norm(self) -> LayerNormConfig | None:
        """Norm after the last block."""
        return self.norm

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
