"""The configuration that Llama and its descendants share."""

from dataclasses import dataclass
from typing import Literal

import jax

from t5x_like.model.families.decoder import Decoder, DecoderConfig
from t5x_like.model.heads import WordsConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import Activation, FeedForwardConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.norm import RMSNormConfig
from t5x_like.model.layers.rotary import Rotary, RotaryScaling
from t5x_like.model.layers.stack import Remat, StackConfig
from t5x_like.model.zoo.decoder_parts import (
    heads_of_decoder,
)
from t5x_like.model.zoo.model_tasks import ModelTask, ProblemType


@dataclass(frozen=True, kw_only=True)
class LlamaLikeConfig:
    """A decoder with RMS norms, rotary positions and a gated feed-forward layer, of any size.

    A member of the family adds fields, and overrides the part that they change: ``norm``, ``words``, ``attention`` and
    so on. Defaults are those of transformers for a field that a ``config.json`` leaves out.

    Attributes:
      vocab_size: the number of token ids.
      model_dim: the width of the residual stream.
      mlp_dim: the width inside the feed-forward layer.
      num_heads: query heads of each layer.
      num_layers: blocks, one after another.
      num_kv_heads: heads of keys and values; as many as ``num_heads`` where ``None``.
      head_dim: the width of a head; ``model_dim / num_heads`` where ``None``.
      activation: of the feed-forward layer's gate.
      rope_theta: the base of the rotations' wavelengths.
      rope_scaling: stretches the rotations to longer texts; ``None`` leaves them.
      max_position_embeddings: the length that the model was trained for. Exported, and no limit here.
      norm_epsilon: added to the mean square in all norms.
      tie_word_embeddings: the output layer uses the table of words.
      task: selects the heads.
      num_labels: classes of the head, where the task has some.
      problem_type: the type of labels for ``sequence_classification``; ``None`` infers it from them.
      dropout_rate: of the output of each layer and of attention's weights.
      compute_dtype: the type of activations. Weights are float32.
      remat: activations that the backward pass computes again, to save memory.
      pad_vocab_to_multiple_of: the table of words is padded to a multiple of this many rows.
    """

    vocab_size: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    num_layers: int
    num_kv_heads: int | None = None
    head_dim: int | None = None
    activation: Activation = "silu"
    rope_theta: float = 10_000.0
    rope_scaling: RotaryScaling | None = None
    max_position_embeddings: int = 2048
    norm_epsilon: float = 1e-6
    tie_word_embeddings: bool = False
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
                final_norm=self.norm,
                remat=self.remat,
            ),
            heads=heads_of_decoder(self.task, self.num_labels, self.words),
            compute_dtype=self.compute_dtype,
        )

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words alone: positions act in attention."""
        return EmbeddingsConfig(
            vocab_size=self.vocab_size,
            embed_dim=self.model_dim,
            stddev=0.02,
            pad_vocab_to_multiple_of=self.pad_vocab_to_multiple_of,
        )

    @property
    def words(self) -> WordsConfig:
        """The output layer over the vocabulary."""
        return WordsConfig(tie_word_embeddings=self.tie_word_embeddings)

    @property
    def norm(self) -> RMSNormConfig:
        """All norms, the one after the last block among them."""
        return RMSNormConfig(epsilon=self.norm_epsilon)

    @property
    def rotary(self) -> Rotary:
        """Rotations of queries and keys."""
        return Rotary(
            rotated_dim=self.resolved_head_dim, rope_theta=self.rope_theta, rope_scaling=self.rope_scaling
        )

    @property
    def resolved_head_dim(self) -> int:
        """``head_dim``, or its default."""
        return self.head_dim or self.model_dim // self.num_heads

    @property
    def feed_forward(self) -> FeedForwardConfig:
        """The gated layer, without biases."""
        return FeedForwardConfig(mlp_dim=self.mlp_dim, activation=self.activation, gated=True)

    def sliding_window_of(self, layer: int) -> int | None:  # noqa: ARG002 - members' windows depend on the layer
        """The number of tokens that a token of ``layer`` sees, itself the last; ``None`` for all before it."""
        return None

    def attention(self, layer: int) -> AttentionConfig:
        """Self-attention of ``layer``, counted from 0, without biases."""
        window = self.sliding_window_of(layer)
        return AttentionConfig(
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            head_dim=self.resolved_head_dim,
            positions=self.rotary,
            window=None if window is None else SlidingWindow(left=window - 1),
        )

    def block(self, layer: int) -> BlockConfig:
        """The block of ``layer``, with a norm before attention and before the feed-forward layer."""
        return BlockConfig(
            model_dim=self.model_dim,
            attention=self.attention(layer),
            feed_forward=self.feed_forward,
            norm=self.norm,
            dropout_rate=self.dropout_rate,
            init=Normal(0.02),
        )
