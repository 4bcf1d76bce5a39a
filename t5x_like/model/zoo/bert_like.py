"""The configuration that BERT and its descendants share."""

from dataclasses import dataclass
from typing import Literal

import jax

from t5x_like.model.families.encoder import Encoder, EncoderConfig
from t5x_like.model.heads import HeadsConfig, PoolerConfig, TransformConfig, WordsConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig, LearnedPositions
from t5x_like.model.layers.feed_forward import Activation
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.stack import Remat, StackConfig
from t5x_like.model.zoo.model_tasks import ModelTask, ProblemType, classifier_dropout_of, heads_for
from t5x_like.model.zoo.post_norm_encoders import post_norm_block


@dataclass(frozen=True, kw_only=True)
class BertLikeConfig:
    """An encoder with learned positions, a norm after each residual and biases everywhere, of any size.

    A member of the family adds fields, and overrides the part that they change: ``embeddings``, ``stack`` and so on.

    Attributes:
      vocab_size: the number of token ids.
      model_dim: the width of the residual stream.
      mlp_dim: the width inside the feed-forward layer.
      num_heads: heads of each layer.
      num_layers: blocks, one after another.
      max_position_embeddings: the longest input.
      num_token_types: types of tokens, such as first and second sentence.
      activation: of the feed-forward layer.
      norm_epsilon: added to the variance in all norms.
      task: selects the heads.
      num_labels: classes of the head, where the task has some.
      problem_type: the type of labels for ``sequence_classification``; ``None`` infers it from them.
      dropout_rate: of embeddings, of the output of each layer and of attention's weights.
      classifier_dropout_rate: of a classifier's input; ``dropout_rate`` where ``None``.
      compute_dtype: the type of activations. Weights are float32.
      remat: activations that the backward pass computes again, to save memory.
      pad_vocab_to_multiple_of: the table of words is padded to a multiple of this many rows.
    """

    vocab_size: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    num_layers: int
    max_position_embeddings: int = 512
    num_token_types: int = 2
    activation: Activation = "gelu"
    norm_epsilon: float = 1e-12
    task: ModelTask = "pretraining"
    num_labels: int = 2
    problem_type: ProblemType | None = None
    dropout_rate: float = 0.0
    classifier_dropout_rate: float | None = None
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    remat: Remat = "none"
    pad_vocab_to_multiple_of: int = 128

    def build(self, key: jax.Array) -> Encoder:
        """Builds the model with fresh weights drawn from ``key``."""
        return Encoder(self.encoder, key=key)

    @property
    def encoder(self) -> EncoderConfig:
        """The model's parts."""
        return EncoderConfig(
            embeddings=self.embeddings,
            stack=self.stack,
            heads=self.heads,
            compute_dtype=self.compute_dtype,
        )

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words, positions and sentence types, normed."""
        return EmbeddingsConfig(
            vocab_size=self.vocab_size,
            embed_dim=self.model_dim,
            positions=LearnedPositions(max_position_embeddings=self.max_position_embeddings),
            num_token_types=self.num_token_types,
            norm=LayerNormConfig(epsilon=self.norm_epsilon),
            stddev=0.02,
            pad_vocab_to_multiple_of=self.pad_vocab_to_multiple_of,
        )

    @property
    def block(self) -> BlockConfig:
        """Each layer."""
        return post_norm_block(
            model_dim=self.model_dim,
            mlp_dim=self.mlp_dim,
            num_heads=self.num_heads,
            activation=self.activation,
            norm_epsilon=self.norm_epsilon,
            dropout_rate=self.dropout_rate,
        )

    @property
    def stack(self) -> StackConfig:
        """All layers."""
        return StackConfig(blocks=(self.block,) * self.num_layers, remat=self.remat)

    @property
    def words_transform(self) -> TransformConfig:
        """The layer before the scores of words."""
        return TransformConfig(
            dim=self.embeddings.embed_dim,
            activation=self.activation,
            norm=LayerNormConfig(epsilon=self.norm_epsilon),
        )

    @property
    def pooler(self) -> PoolerConfig | None:
        """The layer on the first token, for heads of whole sequences."""
        return PoolerConfig(transform=TransformConfig(dim=self.model_dim, activation="tanh"))

    @property
    def pair(self) -> Literal["next_sentence", "sentence_order"]:
        """The pretraining task on pairs of sentences."""
        return "next_sentence"

    @property
    def heads(self) -> HeadsConfig:
        """The heads for ``task``."""
        return heads_for(
            self.task,
            num_labels=self.num_labels,
            words=WordsConfig(tie_word_embeddings=True, bias=True, transform=self.words_transform),
            pooler=self.pooler,
            pair=self.pair,
            dropout_rate=classifier_dropout_of(self),
        )
