"""ELECTRA's discriminator and generator (Clark et al. 2020, https://arxiv.org/abs/2003.10555)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax

from t5x_like.model.families.encoder import Encoder, EncoderConfig
from t5x_like.model.heads import HeadsConfig, PoolerConfig, ScoresConfig, TransformConfig, WordsConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig, LearnedPositions
from t5x_like.model.layers.feed_forward import Activation
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.stack import Remat, StackConfig
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.model_tasks import ModelTask, ProblemType, classifier_dropout_of, heads_for
from t5x_like.model.zoo.post_norm_encoders import (
    common_fields,
    embedding_rows,
    layer_rows,
    post_norm_block,
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
class ElectraConfig:
    """An ELECTRA of any size, for any task: ``replaced_tokens`` is the discriminator, ``masked_lm`` the generator.

    Tables are ``embed_dim`` wide and projected where the stream is not: a generator shares them with a wider
    discriminator (§3.2).
    """

    vocab_size: int
    embed_dim: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    num_layers: int
    max_position_embeddings: int = 512
    num_token_types: int = 2
    activation: Activation = "gelu"
    norm_epsilon: float = 1e-12
    task: ModelTask = "replaced_tokens"
    num_labels: int = 2
    problem_type: ProblemType | None = None
    dropout_rate: float = 0.0
    classifier_dropout_rate: float | None = None
    init_stddev: float = 0.02
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
        """Words, positions and sentence types, normed, then brought to the width of the stream."""
        return EmbeddingsConfig(
            vocab_size=self.vocab_size,
            embed_dim=self.embed_dim,
            positions=LearnedPositions(max_position_embeddings=self.max_position_embeddings),
            num_token_types=self.num_token_types,
            norm=LayerNormConfig(epsilon=self.norm_epsilon),
            projected=self.embed_dim != self.model_dim,
            stddev=self.init_stddev,
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
            init_stddev=self.init_stddev,
        )
        return StackConfig(blocks=(block,) * self.num_layers, remat=self.remat)

    def _heads(self) -> HeadsConfig:
        if self.task == "replaced_tokens":
            transform = TransformConfig(dim=self.model_dim, activation=self.activation)
            scores = ScoresConfig(name="replaced_tokens", reads="tokens", num_outputs=1, transform=transform)
            return HeadsConfig(scores=(scores,))
        transform = TransformConfig(
            dim=self.embed_dim, activation="gelu", norm=LayerNormConfig(epsilon=self.norm_epsilon)
        )
        rate = classifier_dropout_of(self)
        pooler = PoolerConfig(
            transform=TransformConfig(dim=self.model_dim, activation="gelu"),
            dropout_rate=rate if self.task == "sequence_classification" else 0.0,
        )
        return heads_for(
            self.task,
            num_labels=self.num_labels,
            words=WordsConfig(tie_word_embeddings=True, bias=True, transform=transform),
            pooler=pooler if self.task in _POOLERS else None,
            dropout_rate=rate,
        )


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
