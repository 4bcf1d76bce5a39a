"""ELECTRA's discriminator and generator (Clark et al. 2020, https://arxiv.org/abs/2003.10555)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from t5x_like.model.heads import HeadsConfig, PoolerConfig, ScoresConfig, TransformConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.linear import Normal
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
    take_rate,
    words_head_rows,
)
from t5x_like.model.zoo.weights import Weight, dense, per_layer

# What reads the pooled sequence, under which name files keep the dense layer before it.
_POOLERS: dict[ModelTask, str] = {
    "sequence_classification": "classifier.dense",
    "multiple_choice": "sequence_summary.summary",
}


@dataclass(frozen=True, kw_only=True)
class ElectraConfig(BertLikeConfig):
    """An ELECTRA of any size, for any task: ``replaced_tokens`` is the discriminator, ``masked_lm`` the generator.

    Attributes:
      embed_dim: the width of the tables, projected where the stream's differs. A generator shares them with a wider
        discriminator (§3.2).
      init_stddev: of all fresh weights.
    """

    embed_dim: int
    task: ModelTask = "replaced_tokens"
    init_stddev: float = 0.02

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words, positions and sentence types, normed, then brought to the width of the stream."""
        return replace(
            super().embeddings,
            embed_dim=self.embed_dim,
            projected=self.embed_dim != self.model_dim,
            stddev=self.init_stddev,
        )

    @property
    def block(self) -> BlockConfig:
        """Each layer."""
        return replace(super().block, init=Normal(self.init_stddev))

    @property
    def words_transform(self) -> TransformConfig:
        """The layer before the scores of words, with GELU whatever the stack has."""
        return replace(super().words_transform, activation="gelu")

    @property
    def pooler(self) -> PoolerConfig | None:
        """The layer on the first token, for tasks that read it."""
        rate = classifier_dropout_of(self) if self.task == "sequence_classification" else 0.0
        transform = TransformConfig(dim=self.model_dim, activation="gelu")
        return PoolerConfig(transform=transform, dropout_rate=rate) if self.task in _POOLERS else None

    @property
    def heads(self) -> HeadsConfig:
        """The heads for ``task``."""
        if self.task != "replaced_tokens":
            return super().heads
        transform = TransformConfig(dim=self.model_dim, activation=self.activation)
        scores = ScoresConfig(name="replaced_tokens", input="tokens", num_outputs=1, transform=transform)
        return HeadsConfig(scores=(scores,))


_CLASSES: dict[str, ModelTask] = {
    "ElectraForPreTraining": "replaced_tokens",
    "ElectraForMaskedLM": "masked_lm",
    "ElectraForSequenceClassification": "sequence_classification",
    "ElectraForMultipleChoice": "multiple_choice",
    "ElectraForTokenClassification": "token_classification",
    "ElectraForQuestionAnswering": "question_answering",
    "ElectraModel": "base",
}

# What multiple choice reads: transformers lets it vary, ELECTRA doesn't.
_SUMMARY = {"summary_activation": "gelu", "summary_type": "first", "summary_use_proj": True}


def from_hugging_face(config: Mapping[str, Any]) -> ElectraConfig:
    """The configuration that a ``config.json`` of ``model_type`` electra describes.

    Raises:
      ValueError: a field is missing, unknown, or has a value that this model can't express; it is named.
    """
    fields = ConfigFields(config)
    for name, value in _SUMMARY.items():
        fields.must_be(name, value)
    common = take_common(config, fields, _CLASSES)
    of_choices = take_rate(config, fields, "summary_last_dropout")
    if common["task"] == "multiple_choice":
        common["classifier_dropout_rate"] = 0.1 if of_choices is None else of_choices
    ours = ElectraConfig(
        embed_dim=fields.take("embedding_size", 128),
        max_position_embeddings=fields.take("max_position_embeddings", 512),
        init_stddev=float(config.get("initializer_range") or 0.02),
        **common,
    )
    fields.finish()
    return ours


def to_hugging_face(config: ElectraConfig) -> dict[str, Any]:
    """The fields of a ``config.json``."""
    return common_fields(config, _CLASSES, "electra") | {
        "embedding_size": config.embed_dim,
        "initializer_range": config.init_stddev,
        "max_position_embeddings": config.max_position_embeddings,
        "pad_token_id": 0,
        "summary_last_dropout": classifier_dropout_of(config),
        **_SUMMARY,
    }


def hugging_face_weights(config: ElectraConfig) -> tuple[Weight, ...]:
    """Our weights by Hugging Face's names."""
    encoder, heads = config.encoder, config.encoder.heads
    table = [
        *embedding_rows(encoder.embeddings, "electra.embeddings", copies=("generator_lm_head.weight",)),
        *per_layer("encoder/layers/0", tuple(range(config.num_layers)), layer_rows("electra.encoder.layer")),
    ]
    if encoder.embeddings.projected:
        table += dense("embedding/projection", "electra.embeddings_project")
    if heads.words is not None:
        table += words_head_rows(
            encoder.embeddings,
            transform="generator_predictions.dense",
            norm_name="generator_predictions.LayerNorm",
            bias="generator_lm_head.bias",
        )
    if heads.pooler is not None:
        table += dense("heads/pooler/transform/dense", _POOLERS[config.task])
    if config.task == "replaced_tokens":
        table += dense("heads/scores/replaced_tokens/transform/dense", "discriminator_predictions.dense")
    names = {
        "sequence_classification": "classifier.out_proj",
        "replaced_tokens": "discriminator_predictions.dense_prediction",
        "question_answering": "qa_outputs",
    }
    return (*table, *score_rows(encoder, names))


ELECTRA = Architecture(
    name="electra",
    config_class=ElectraConfig,
    model_types=("electra",),
    classes=_CLASSES,
    from_hugging_face=from_hugging_face,
    to_hugging_face=to_hugging_face,
    hugging_face_weights=hugging_face_weights,
    prefix="electra.",
    unused_weights=("*.position_ids",),
)
