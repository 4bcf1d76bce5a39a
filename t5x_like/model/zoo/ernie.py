"""ERNIE 1.0 (Sun et al. 2019, https://arxiv.org/abs/1904.09223) and 2.0 (Sun et al. 2020, arXiv:1907.12412).

Both are BERTs that were trained to do more: 1.0 by masking entities and phrases, 2.0 by several tasks, of which the
model is told by task types.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax

from t5x_like.model.families.encoder import Encoder, EncoderConfig
from t5x_like.model.heads import HeadsConfig, PoolerConfig, TransformConfig, WordsConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig, LearnedPositions
from t5x_like.model.layers.feed_forward import Activation
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.stack import Remat, StackConfig
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.bert import bert_weights
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.model_tasks import ModelTask, ProblemType, classifier_dropout_of, heads_for
from t5x_like.model.zoo.post_norm_encoders import common_fields, post_norm_block, take_common
from t5x_like.model.zoo.weights import Weight


@dataclass(frozen=True, kw_only=True)
class ErnieConfig:
    """An ERNIE of any size, for any task. 1.0 has no task types."""

    vocab_size: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    num_layers: int
    max_position_embeddings: int = 512
    num_token_types: int = 2
    num_task_types: int = 0
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
        """The model with fresh weights."""
        return Encoder(self.encoder, key=key)

    @property
    def encoder(self) -> EncoderConfig:
        """The parts that it is made of."""
        return EncoderConfig(
            embeddings=self.embeddings,
            stack=self._stack(),
            heads=self._heads(),
            compute_dtype=self.compute_dtype,
        )

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words, positions, sentence types and task types, normed."""
        return EmbeddingsConfig(
            vocab_size=self.vocab_size,
            embed_dim=self.model_dim,
            positions=LearnedPositions(max_position_embeddings=self.max_position_embeddings),
            num_token_types=self.num_token_types,
            num_task_types=self.num_task_types,
            norm=LayerNormConfig(epsilon=self.norm_epsilon),
            stddev=0.02,
            pad_vocab_to_multiple_of=self.pad_vocab_to_multiple_of,
        )

    def _stack(self) -> StackConfig:
        block = post_norm_block(
            model_dim=self.model_dim,
            mlp_dim=self.mlp_dim,
            num_heads=self.num_heads,
            activation=self.activation,
            norm_epsilon=self.norm_epsilon,
            dropout_rate=self.dropout_rate,
        )
        return StackConfig(blocks=(block,) * self.num_layers, remat=self.remat)

    def _heads(self) -> HeadsConfig:
        transform = TransformConfig(
            dim=self.model_dim,
            activation=self.activation,
            norm=LayerNormConfig(epsilon=self.norm_epsilon),
        )
        return heads_for(
            self.task,
            num_labels=self.num_labels,
            words=WordsConfig(tie_word_embeddings=True, bias=True, transform=transform),
            pooler=PoolerConfig(transform=TransformConfig(dim=self.model_dim, activation="tanh")),
            dropout_rate=classifier_dropout_of(self),
        )


_CLASSES: dict[str, ModelTask] = {
    "ErnieForPreTraining": "pretraining",
    "ErnieForMaskedLM": "masked_lm",
    "ErnieForNextSentencePrediction": "next_sentence",
    "ErnieForSequenceClassification": "sequence_classification",
    "ErnieForMultipleChoice": "multiple_choice",
    "ErnieForTokenClassification": "token_classification",
    "ErnieForQuestionAnswering": "question_answering",
    "ErnieModel": "base",
}


def from_hugging_face(config: Mapping[str, Any]) -> ErnieConfig:
    """The configuration that a ``config.json`` of ``model_type`` ernie describes.

    Raises:
      ValueError: a field is missing, unknown, or has a value that this model can't express; it is named.
    """
    fields = ConfigFields(config)
    num_task_types = fields.take("task_type_vocab_size", 3)
    ours = ErnieConfig(
        max_position_embeddings=fields.take("max_position_embeddings", 512),
        num_task_types=num_task_types if fields.take("use_task_id", False) else 0,
        **take_common(config, fields, _CLASSES),
    )
    fields.finish()
    return ours


def to_hugging_face(config: ErnieConfig) -> dict[str, Any]:
    """The fields of a ``config.json``."""
    return common_fields(config, _CLASSES, "ernie") | {
        "max_position_embeddings": config.max_position_embeddings,
        "pad_token_id": 0,
        "task_type_vocab_size": config.num_task_types or 3,
        "use_task_id": config.num_task_types > 0,
    }


def hugging_face_weights(config: ErnieConfig) -> tuple[Weight, ...]:
    """Our weights by Hugging Face's names."""
    return bert_weights(config.encoder, "ernie")


ERNIE = Architecture(
    name="ernie",
    config_class=ErnieConfig,
    model_types=("ernie",),
    classes=_CLASSES,
    from_hugging_face=from_hugging_face,
    to_hugging_face=to_hugging_face,
    hugging_face_weights=hugging_face_weights,
    prefix="ernie.",
    unused_weights=("*.position_ids",),
)
