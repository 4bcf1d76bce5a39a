"""RoBERTa (Liu et al. 2019, https://arxiv.org/abs/1907.11692) and XLM-R (Conneau et al. 2020, arXiv:1911.02116)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from t5x_like.model.heads import PoolerConfig, TransformConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig, LearnedPositions
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.bert_like import BertLikeConfig
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.model_tasks import ModelTask, classifier_dropout_of
from t5x_like.model.zoo.post_norm_encoders import (
    common_fields,
    embedding_rows,
    layer_rows,
    score_rows,
    take_common,
    words_head_rows,
)
from t5x_like.model.zoo.weights import Weight, dense, per_layer


@dataclass(frozen=True, kw_only=True)
class RobertaConfig(BertLikeConfig):
    """A RoBERTa of any size, for any task.

    Before position 0 the table has a row for each id up to that of padding, as in fairseq: padding has the last of
    them, and other rows are never used. Whoever makes batches gives positions, which count real tokens only.

    Attributes:
      pad_token_id: the id of padding, on which the positions' table depends.
    """

    num_token_types: int = 1
    norm_epsilon: float = 1e-5
    task: ModelTask = "masked_lm"
    pad_token_id: int = 1

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words, positions and a single type, normed."""
        offset = self.pad_token_id + 1
        positions = LearnedPositions(max_position_embeddings=self.max_position_embeddings, offset=offset)
        return replace(super().embeddings, positions=positions)

    @property
    def words_transform(self) -> TransformConfig:
        """The layer before the scores of words, with GELU whatever the stack has."""
        return replace(super().words_transform, activation="gelu")

    @property
    def pooler(self) -> PoolerConfig:
        """The layer on the first token. fairseq's classifier drops before its dense layer and after it."""
        rate = classifier_dropout_of(self) if self.task == "sequence_classification" else 0.0
        transform = TransformConfig(dim=self.model_dim, activation="tanh")
        return PoolerConfig(transform=transform, dropout_rate=rate)


_TASKS: dict[str, ModelTask] = {
    "ForMaskedLM": "masked_lm",
    "ForSequenceClassification": "sequence_classification",
    "ForMultipleChoice": "multiple_choice",
    "ForTokenClassification": "token_classification",
    "ForQuestionAnswering": "question_answering",
    "Model": "base",
}

# XLM-R is a RoBERTa with another vocabulary; its files, too, have names that begin with "roberta.".
_CLASSES: dict[str, ModelTask] = {
    f"{model}{ending}": task for model in ("Roberta", "XLMRoberta") for ending, task in _TASKS.items()
}


def from_hugging_face(config: Mapping[str, Any]) -> RobertaConfig:
    """The configuration that a ``config.json`` of ``model_type`` roberta or xlm-roberta describes.

    Raises:
      ValueError: a field is missing, unknown, or has a value that this model can't express; it is named.
    """
    fields = ConfigFields(config)
    pad_token_id = fields.take("pad_token_id", 1)
    ours = RobertaConfig(
        max_position_embeddings=fields.take("max_position_embeddings", 512) - pad_token_id - 1,
        pad_token_id=pad_token_id,
        **take_common(config, fields, _CLASSES),
    )
    fields.finish()
    return ours


def to_hugging_face(config: RobertaConfig) -> dict[str, Any]:
    """The fields of a ``config.json``."""
    fields = {
        "bos_token_id": 0,
        "eos_token_id": 2,
        "max_position_embeddings": config.max_position_embeddings + config.pad_token_id + 1,
        "pad_token_id": config.pad_token_id,
    }
    return common_fields(config, _CLASSES, "roberta") | fields


def hugging_face_weights(config: RobertaConfig) -> tuple[Weight, ...]:
    """Our weights by Hugging Face's names."""
    encoder, heads = config.encoder, config.encoder.heads
    table = [
        *embedding_rows(encoder.embeddings, "roberta.embeddings", copies=("lm_head.decoder.weight",)),
        *per_layer("encoder/layers/0", tuple(range(config.num_layers)), layer_rows("roberta.encoder.layer")),
    ]
    if heads.words is not None:
        table += words_head_rows(
            encoder.embeddings,
            transform="lm_head.dense",
            norm_name="lm_head.layer_norm",
            bias="lm_head.bias",
            bias_copies=("lm_head.decoder.bias",),
        )
    if heads.pooler is not None:
        is_classifier = config.task == "sequence_classification"
        pooler = "classifier.dense" if is_classifier else "roberta.pooler.dense"
        table += dense("heads/pooler/transform/dense", pooler)
    return (
        *table,
        *score_rows(
            encoder, {"sequence_classification": "classifier.out_proj", "question_answering": "qa_outputs"}
        ),
    )


ROBERTA = Architecture(
    name="roberta",
    config_class=RobertaConfig,
    model_types=(
        "roberta",
        "xlm-roberta",
    ),
    classes=_CLASSES,
    from_hugging_face=from_hugging_face,
    to_hugging_face=to_hugging_face,
    hugging_face_weights=hugging_face_weights,
    prefix="roberta.",
    unused_weights=("*.position_ids",),
)
