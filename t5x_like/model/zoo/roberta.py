"""RoBERTa (Liu et al. 2019, https://arxiv.org/abs/1907.11692) and XLM-R (Conneau et al. 2020, arXiv:1911.02116)."""

from dataclasses import replace
from typing import Any

from t5x_like.config_class import config_class
from t5x_like.model.layers.embedding import EmbeddingsConfig, LearnedPositions
from t5x_like.model.layers.pooler import PoolerConfig
from t5x_like.model.layers.transform import TransformConfig
from t5x_like.model.zoo.architecture import FieldTable
from t5x_like.model.zoo.bert_like import BertLikeConfig, bert_like, bert_like_weights
from t5x_like.model.zoo.config_fields import ConfigFields, Field
from t5x_like.model.zoo.model_tasks import ModelTask, classifier_dropout_of
from t5x_like.model.zoo.weights import Weight


@config_class
class RobertaConfig(BertLikeConfig):
    """A RoBERTa of any size, for any task: ``BertLikeConfig`` and one field.

    As in fairseq, the position table has a row for each id up to that of padding before position 0. Padding uses the
    last of them. Batches must give positions that count real tokens only.

    Attributes:
      pad_token_id: Id of padding, which determines the offset of the position table.
    """

    num_token_types: int = 1
    norm_epsilon: float = 1e-5
    task: ModelTask = "masked_lm"
    pad_token_id: int = 1

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words, positions and a single token type, normalized."""
        offset = self.pad_token_id + 1
        positions = LearnedPositions(max_position_embeddings=self.max_position_embeddings, offset=offset)
        return replace(super().embeddings, positions=positions)

    @property
    def words_transform(self) -> TransformConfig:
        """Layer before the scores of words, with GELU even if the stack has another activation."""
        return replace(super().words_transform, activation="gelu")

    @property
    def pooler(self) -> PoolerConfig:
        """Layer on the first token. fairseq's classifier drops out before its dense layer and after it."""
        rate = classifier_dropout_of(self) if self.task == "sequence_classification" else 0.0
        transform = TransformConfig(dim=self.model_dim, activation="tanh")
        return PoolerConfig(transform=transform, dropout_rate=rate)


ROBERTA_TASKS: dict[str, ModelTask] = {
    "ForMaskedLM": "masked_lm",
    "ForSequenceClassification": "sequence_classification",
    "ForMultipleChoice": "multiple_choice",
    "ForTokenClassification": "token_classification",
    "ForQuestionAnswering": "question_answering",
    "Model": "base",
}


def _read(_: ConfigFields, values: dict[str, Any]) -> dict[str, Any]:
    return {
        "max_position_embeddings": values["max_position_embeddings"] - values["pad_token_id"] - 1,
    }


def _write(config: RobertaConfig) -> dict[str, object]:
    return {"max_position_embeddings": config.max_position_embeddings + config.pad_token_id + 1}


def _weights(config: RobertaConfig) -> tuple[Weight, ...]:
    is_classifier = config.task == "sequence_classification"
    return bert_like_weights(
        config.encoder,
        embeddings="roberta.embeddings",
        layers="roberta.encoder.layer",
        modules={
            "heads/lm_head/transform/dense": "lm_head.dense",
            "heads/lm_head/transform/norm": "lm_head.layer_norm",
            "heads/pooler/transform/dense": "classifier.dense" if is_classifier else "roberta.pooler.dense",
        },
        words_copies=("lm_head.decoder.weight",),
        words_bias="lm_head.bias",
        words_bias_copies=("lm_head.decoder.bias",),
        scores={"sequence_classification": "classifier.out_proj", "question_answering": "qa_outputs"},
    )


ROBERTA = bert_like(
    "roberta",
    RobertaConfig,
    # XLM-R is a RoBERTa with another vocabulary; names of its weights begin with "roberta." too.
    {
        f"{model}{ending}": task
        for model in ("Roberta", "XLMRoberta")
        for ending, task in ROBERTA_TASKS.items()
    },
    FieldTable(
        fields={"pad_token_id": Field("pad_token_id", 1)},
        written={"bos_token_id": 0, "eos_token_id": 2},
        read=_read,
        write=_write,
    ),
    weights=_weights,
    model_types=("roberta", "xlm-roberta"),
    special_ids={"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
)
