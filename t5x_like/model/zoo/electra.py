"""ELECTRA's discriminator and generator (Clark et al. 2020, https://arxiv.org/abs/2003.10555)."""

from dataclasses import replace
from typing import Any

from t5x_like.config_class import config_class
from t5x_like.model.heads import HeadsConfig, ScoreHeadConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.pooler import PoolerConfig
from t5x_like.model.layers.transform import TransformConfig
from t5x_like.model.zoo.architecture import FieldTable
from t5x_like.model.zoo.bert_like import BertLikeConfig, bert_like, bert_like_weights
from t5x_like.model.zoo.config_fields import ConfigFields, Field
from t5x_like.model.zoo.model_tasks import ModelTask, classifier_dropout_of
from t5x_like.model.zoo.weights import Weight

# Tasks that read the pooled sequence, with the name of the dense layer before the scores.
_POOLERS: dict[ModelTask, str] = {
    "sequence_classification": "classifier.dense",
    "multiple_choice": "sequence_summary.summary",
}


@config_class
class ElectraConfig(BertLikeConfig):
    """An ELECTRA of any size, for any task: ``BertLikeConfig`` and these fields.

    The task ``replaced_tokens`` is the discriminator, ``masked_lm`` the generator.

    Attributes:
      embed_dim: Width of the tables, projected where ``model_dim`` differs. A generator shares them with a wider
        discriminator (§3.2).
      init_stddev: Standard deviation of all fresh weights.
    """

    embed_dim: int
    task: ModelTask = "replaced_tokens"
    init_stddev: float = 0.02

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words, positions and token types, normalized and projected to ``model_dim``."""
        return replace(
            super().embeddings,
            embed_dim=self.embed_dim,
            projected=self.embed_dim != self.model_dim,
            stddev=self.init_stddev,
        )

    @property
    def block(self) -> BlockConfig:
        """Block of each layer."""
        return replace(super().block, init=Normal(self.init_stddev))

    @property
    def words_transform(self) -> TransformConfig:
        """Layer before the scores of words, with GELU even if the stack has another activation."""
        return replace(super().words_transform, activation="gelu")

    @property
    def pooler(self) -> PoolerConfig | None:
        """Layer on the first token, for tasks that read it."""
        rate = classifier_dropout_of(self) if self.task == "sequence_classification" else 0.0
        transform = TransformConfig(dim=self.model_dim, activation="gelu")
        return PoolerConfig(transform=transform, dropout_rate=rate) if self.task in _POOLERS else None

    @property
    def heads(self) -> HeadsConfig:
        """Heads for ``task``."""
        if self.task != "replaced_tokens":
            return super().heads
        transform = TransformConfig(dim=self.model_dim, activation=self.activation)
        scores = ScoreHeadConfig(name="replaced_tokens", input="tokens", num_outputs=1, transform=transform)
        return HeadsConfig(scores=(scores,))


def _read(fields: ConfigFields, values: dict[str, object]) -> dict[str, object]:
    own: dict[str, Any] = {"init_stddev": float(fields.config.get("initializer_range") or 0.02)}
    choices_rate = fields.take("summary_last_dropout", 0.1)
    if values["task"] == "multiple_choice":
        own["classifier_dropout_rate"] = choices_rate
    return own


def _write(config: ElectraConfig) -> dict[str, object]:
    return {
        "initializer_range": config.init_stddev,
        "summary_last_dropout": classifier_dropout_of(config),
    }


def _weights(config: ElectraConfig) -> tuple[Weight, ...]:
    return bert_like_weights(
        config.encoder,
        embeddings="electra.embeddings",
        layers="electra.encoder.layer",
        modules={
            "embedding/projection": "electra.embeddings_project",
            "heads/lm_head/transform/dense": "generator_predictions.dense",
            "heads/lm_head/transform/norm": "generator_predictions.LayerNorm",
            "heads/pooler/transform/dense": _POOLERS.get(config.task, ""),
            "heads/scores/replaced_tokens/transform/dense": "discriminator_predictions.dense",
        },
        words_copies=("generator_lm_head.weight",),
        words_bias="generator_lm_head.bias",
        scores={
            "sequence_classification": "classifier.out_proj",
            "replaced_tokens": "discriminator_predictions.dense_prediction",
            "question_answering": "qa_outputs",
        },
    )


ELECTRA = bert_like(
    "electra",
    ElectraConfig,
    {
        "ElectraForPreTraining": "replaced_tokens",
        "ElectraForMaskedLM": "masked_lm",
        "ElectraForSequenceClassification": "sequence_classification",
        "ElectraForMultipleChoice": "multiple_choice",
        "ElectraForTokenClassification": "token_classification",
        "ElectraForQuestionAnswering": "question_answering",
        "ElectraModel": "base",
    },
    FieldTable(
        fields={"embed_dim": Field("embedding_size", 128)},
        # The input of multiple choice, which transformers lets vary and ELECTRA doesn't.
        fixed={"summary_activation": "gelu", "summary_type": "first", "summary_use_proj": True},
        written={"pad_token_id": 0},
        read=_read,
        write=_write,
    ),
    weights=_weights,
)
