"""ERNIE 1.0 (Sun et al. 2019, https://arxiv.org/abs/1904.09223) and 2.0 (Sun et al. 2020, arXiv:1907.12412).

Both are BERTs that were trained to do more: 1.0 by masking entities and phrases, 2.0 by several tasks, of which the
model sees the types.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.bert import bert_weights
from t5x_like.model.zoo.bert_like import BertLikeConfig
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.model_tasks import ModelTask
from t5x_like.model.zoo.post_norm_encoders import common_fields, take_common
from t5x_like.model.zoo.weights import Weight


@dataclass(frozen=True, kw_only=True)
class ErnieConfig(BertLikeConfig):
    """An ERNIE of any size, for any task.

    Attributes:
      num_task_types: types of pretraining tasks; 1.0 has none.
    """

    num_task_types: int = 0

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words, positions, sentence types and task types, normed."""
        return replace(super().embeddings, num_task_types=self.num_task_types)


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
