"""The configuration that GPT and the decoders with learned positions after it share."""

from dataclasses import dataclass
from typing import Literal

import jax

from t5x_like.model.families.decoder import Decoder, DecoderConfig
from t5x_like.model.heads import WordsConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig, LearnedPositions
from t5x_like.model.layers.feed_forward import FeedForwardConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.stack import Remat, StackConfig
from t5x_like.model.zoo.decoder_parts import heads_of_decoder
from t5x_like.model.zoo.model_tasks import ModelTask, ProblemType


@dataclass(frozen=True, kw_only=True)
class GPTLikeConfig:
    """A decoder with learned positions, layer norms and biases everywhere, of any size.

    A member of the family adds fields, and overrides the part that they change: ``attention``, ``block`` and so on.

    Attributes:
      vocab_size: the number of token ids.
      model_dim: the width of the residual stream.
      mlp_dim: the width inside the feed-forward layer.
      num_heads: heads of each layer.
      num_layers: blocks, one after another.
      max_position_embeddings: the longest input.
      norm_epsilon: added to the variance in all norms.
      task: selects the heads.
      num_labels: classes of the head, where the task has some.
      problem_type: the type of labels for ``sequence_classification``; ``None`` infers it from them.
      dropout_rate: of embeddings, of the output of each layer and of attention's weights.
      compute_dtype: the type of activations. Weights are float32.
      remat: activations that the backward pass computes again, to save memory.
      pad_vocab_to_multiple_of: the table of words is padded to a multiple of this many rows.
    """

    vocab_size: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    num_layers: int
    max_position_embeddings: int = 2048
    norm_epsilon: float = 1e-5
    task: ModelTask = "causal_lm"
    num_labels: int = 2
    problem_type: ProblemType | None = None
    dropout_rate: float = 0.0
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    remat: Remat = "none"
    pad_vocab_to_multiple_of: int = 128

    def build(self, key: jax.Array) -> Decoder:
        """Builds the model with fresh weights drawn from ``key``."""
        return Decoder(self.decoder, key=key)

    @property
    def decoder(self) -> DecoderConfig:
        """The model's parts."""
        return DecoderConfig(
            embeddings=self.embeddings,
            stack=StackConfig(
                blocks=tuple(map(self.block, range(self.num_layers))),
                final_norm=self.final_norm,
                remat=self.remat,
            ),
            heads=heads_of_decoder(self.task, self.num_labels, self.words),
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
    def words(self) -> WordsConfig:
        """The output layer over the vocabulary, with the table of words."""
        return WordsConfig(tie_word_embeddings=True)

    @property
    def final_norm(self) -> LayerNormConfig | None:
        """The norm after the last block."""
        return LayerNormConfig(epsilon=self.norm_epsilon)

    @property
    def init(self) -> Normal:
        """Fresh weights. Projections into the stream start smaller (Radford et al. 2019, §2.3)."""
        return Normal(0.02, residual_scale=(2 * self.num_layers) ** -0.5)

    @property
    def feed_forward(self) -> FeedForwardConfig:
        """A plain layer."""
        return FeedForwardConfig(mlp_dim=self.mlp_dim, activation="gelu_tanh", bias=True)

    def attention(self, layer: int) -> AttentionConfig:  # noqa: ARG002 - members' attention depends on the layer
        """Self-attention of ``layer``, counted from 0."""
        head_dim = self.model_dim // self.num_heads
        return AttentionConfig(num_heads=self.num_heads, head_dim=head_dim, in_bias=True, out_bias=True)

    def block(self, layer: int) -> BlockConfig:
        """The block of ``layer``, with a norm before attention and before the feed-forward layer."""
        return BlockConfig(
            model_dim=self.model_dim,
            attention=self.attention(layer),
            feed_forward=self.feed_forward,
            norm=LayerNormConfig(epsilon=self.norm_epsilon),
            dropout_rate=self.dropout_rate,
            init=self.init,
        )
