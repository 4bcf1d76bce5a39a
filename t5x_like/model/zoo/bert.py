"""BERT (Devlin et al. 2019, https://arxiv.org/abs/1810.04805)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from t5x_like.model.families.encoder import EncoderConfig
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.bert_like import BertLikeConfig
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.model_tasks import ModelTask
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
class BertConfig(BertLikeConfig):
    """A BERT of any size, for any task."""


_CLASSES: dict[str, ModelTask] = {
    "BertForPreTraining": "pretraining",
    "BertForMaskedLM": "masked_lm",
    "BertForNextSentencePrediction": "next_sentence",
    "BertForSequenceClassification": "sequence_classification",
    "BertForMultipleChoice": "multiple_choice",
    "BertForTokenClassification": "token_classification",
    "BertForQuestionAnswering": "question_answering",
    "BertModel": "base",
}

# What Google's own files said of the pooler and the direction; no code reads it.
_OF_THE_FIRST_RELEASE = (
    "directionality",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
)


def from_hugging_face(config: Mapping[str, Any]) -> BertConfig:
    """The configuration that a ``config.json`` of ``model_type`` bert describes.

    Raises:
      ValueError: a field is missing, unknown, or has a value that this model can't express; it is named.
    """
    fields = ConfigFields(config)
    fields.ignore(*_OF_THE_FIRST_RELEASE)
    ours = BertConfig(
        max_position_embeddings=fields.take("max_position_embeddings", 512),
        **take_common(config, fields, _CLASSES),
    )
    fields.finish()
    return ours


def to_hugging_face(config: BertConfig) -> dict[str, Any]:
    """The fields of a ``config.json``."""
    fields = {"max_position_embeddings": config.max_position_embeddings, "pad_token_id": 0}
    return common_fields(config, _CLASSES, "bert") | fields


def hugging_face_weights(config: BertConfig) -> tuple[Weight, ...]:
    """Our weights by Hugging Face's names."""
    return bert_weights(config.encoder, "bert")


def bert_weights(encoder: EncoderConfig, prefix: str) -> tuple[Weight, ...]:
    """The table of BERT, and of models that only changed the first word of its names."""
    embeddings, heads, predictions = encoder.embeddings, encoder.heads, "cls.predictions"
    layers = tuple(range(len(encoder.stack.blocks)))
    table = [
        *embedding_rows(embeddings, f"{prefix}.embeddings", copies=(f"{predictions}.decoder.weight",)),
        *per_layer("encoder/layers/0", layers, layer_rows(f"{prefix}.encoder.layer")),
    ]
    if heads.words is not None:
        table += words_head_rows(
            embeddings,
            transform=f"{predictions}.transform.dense",
            norm_name=f"{predictions}.transform.LayerNorm",
            bias=f"{predictions}.bias",
            bias_copies=(f"{predictions}.decoder.bias",),
        )
    if heads.pooler is not None:
        table += dense("heads/pooler/transform/dense", f"{prefix}.pooler.dense")
    names = {"next_sentence": "cls.seq_relationship", "question_answering": "qa_outputs"}
    return (*table, *score_rows(encoder, names))


BERT = Architecture(
    name="bert",
    config_class=BertConfig,
    model_types=("bert",),
    classes=_CLASSES,
    from_hugging_face=from_hugging_face,
    to_hugging_face=to_hugging_face,
    hugging_face_weights=hugging_face_weights,
    prefix="bert.",
    unused_weights=("*.position_ids",),
)
