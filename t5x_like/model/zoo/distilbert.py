"""DistilBERT (Sanh et al. 2019, https://arxiv.org/abs/1910.01108): half of BERT's layers, no types, no pooler."""

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
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, ConfigFields
from t5x_like.model.zoo.model_tasks import (
    ModelTask,
    ProblemType,
    class_of,
    classifier_dropout_of,
    heads_for,
    label_fields,
)
from t5x_like.model.zoo.post_norm_encoders import (
    embedding_rows,
    post_norm_block,
    score_rows,
    take_task,
    words_head_rows,
)
from t5x_like.model.zoo.weights import Weight, dense, norm, per_layer

_NORM = LayerNormConfig(epsilon=1e-12)  # config.json has no field for it

# Tasks whose head reads the first token, through a dense layer with a ReLU.
_POOLED: tuple[ModelTask, ...] = ("sequence_classification", "multiple_choice")


@dataclass(frozen=True, kw_only=True)
class DistilBertConfig:
    """A DistilBERT of any size, for any task. Heads drop out as the stack does where they have no rate of their own."""

    vocab_size: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    num_layers: int
    max_position_embeddings: int = 512
    activation: Activation = "gelu"
    task: ModelTask = "masked_lm"
    num_labels: int = 2
    problem_type: ProblemType | None = None
    dropout_rate: float = 0.0
    classifier_dropout_rate: float | None = None
    qa_dropout_rate: float | None = None
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
        """Words and positions, normed."""
        return EmbeddingsConfig(
            vocab_size=self.vocab_size,
            embed_dim=self.model_dim,
            positions=LearnedPositions(max_position_embeddings=self.max_position_embeddings),
            norm=_NORM,
            stddev=0.02,
            pad_vocab_to_multiple_of=self.pad_vocab_to_multiple_of,
        )

    def _stack(self) -> StackConfig:
        block = post_norm_block(
            model_dim=self.model_dim,
            mlp_dim=self.mlp_dim,
            num_heads=self.num_heads,
            activation=self.activation,
            norm_epsilon=_NORM.epsilon,
            dropout_rate=self.dropout_rate,
        )
        return StackConfig(blocks=(block,) * self.num_layers, remat=self.remat)

    def _heads(self) -> HeadsConfig:
        transform = TransformConfig(dim=self.model_dim, activation=self.activation, norm=_NORM)
        pooler = PoolerConfig(transform=TransformConfig(dim=self.model_dim, activation="relu"))
        return heads_for(
            self.task,
            num_labels=self.num_labels,
            words=WordsConfig(tie_word_embeddings=True, bias=True, transform=transform),
            pooler=pooler if self.task in _POOLED else None,
            dropout_rate=classifier_dropout_of(self) if self.task in _POOLED else self.dropout_rate,
            qa_dropout_rate=self._answers_dropout_rate,
        )

    @property
    def _answers_dropout_rate(self) -> float:
        return self.dropout_rate if self.qa_dropout_rate is None else self.qa_dropout_rate


_CLASSES: dict[str, ModelTask] = {
    "DistilBertForMaskedLM": "masked_lm",
    "DistilBertForSequenceClassification": "sequence_classification",
    "DistilBertForMultipleChoice": "multiple_choice",
    "DistilBertForTokenClassification": "token_classification",
    "DistilBertForQuestionAnswering": "question_answering",
    "DistilBertModel": "base",
}


def from_hugging_face(config: Mapping[str, Any]) -> DistilBertConfig:
    """The configuration that a ``config.json`` of ``model_type`` distilbert describes.

    Sinusoidal positions are stored as learned ones are, so ``sinusoidal_pos_embds`` changes nothing.

    Raises:
      ValueError: a field is missing, unknown, or has a value that this model can't express; it is named.
    """
    fields = ConfigFields(config)
    fields.must_be("tie_word_embeddings", True)
    fields.must_be("tie_weights_", True)
    fields.ignore("attention_dropout", "sinusoidal_pos_embds")
    ours = DistilBertConfig(
        vocab_size=fields.take("vocab_size"),
        model_dim=fields.take("dim"),
        mlp_dim=fields.take("hidden_dim"),
        num_heads=fields.take("n_heads"),
        num_layers=fields.take("n_layers"),
        max_position_embeddings=fields.take("max_position_embeddings", 512),
        activation=fields.take_name("activation", ACTIVATION_NAMES, "gelu"),
        dropout_rate=fields.take("dropout", 0.1),
        classifier_dropout_rate=fields.take("seq_classif_dropout", 0.2),
        qa_dropout_rate=fields.take("qa_dropout", 0.1),
        **take_task(config, _CLASSES),
    )
    fields.finish()
    return ours


def to_hugging_face(config: DistilBertConfig) -> dict[str, Any]:
    """The fields of a ``config.json``."""
    return {
        "activation": ACTIVATION_NAMES.theirs(config.activation),
        "architectures": [class_of(config.task, _CLASSES)],
        "attention_dropout": config.dropout_rate,
        "dim": config.model_dim,
        "dropout": config.dropout_rate,
        "hidden_dim": config.mlp_dim,
        "max_position_embeddings": config.max_position_embeddings,
        "model_type": "distilbert",
        "n_heads": config.num_heads,
        "n_layers": config.num_layers,
        **label_fields(config.num_labels, config.problem_type),
        "pad_token_id": 0,
        "qa_dropout": config.dropout_rate if config.qa_dropout_rate is None else config.qa_dropout_rate,
        "seq_classif_dropout": classifier_dropout_of(config),
        "sinusoidal_pos_embds": False,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "vocab_size": config.vocab_size,
    }


def hugging_face_weights(config: DistilBertConfig) -> tuple[Weight, ...]:
    """Our weights by Hugging Face's names."""
    encoder, heads = config.encoder, config.encoder.heads
    table = [
        *embedding_rows(encoder.embeddings, "distilbert.embeddings", copies=("vocab_projector.weight",)),
        *per_layer("encoder/layers/0", tuple(range(config.num_layers)), _layer_rows()),
    ]
    if heads.words is not None:
        table += words_head_rows(
            encoder.embeddings,
            transform="vocab_transform",
            norm_name="vocab_layer_norm",
            bias="vocab_projector.bias",
        )
    if heads.pooler is not None:
        table += dense("heads/pooler/transform/dense", "pre_classifier")
    return (*table, *score_rows(encoder, {"question_answering": "qa_outputs"}))


def _layer_rows() -> list[Weight]:
    theirs = "distilbert.transformer.layer.{layer}"
    names = {"query": "q_lin", "key": "k_lin", "value": "v_lin", "out": "out_lin"}
    rows = [
        row
        for ours, name in names.items()
        for row in dense(f"self_attention/{ours}", f"{theirs}.attention.{name}")
    ]
    return [
        *rows,
        *norm("around_self_attention/final", f"{theirs}.sa_layer_norm"),
        *dense("feed_forward/up", f"{theirs}.ffn.lin1"),
        *dense("feed_forward/down", f"{theirs}.ffn.lin2"),
        *norm("around_feed_forward/final", f"{theirs}.output_layer_norm"),
    ]


DISTILBERT = Architecture(
    name="distilbert",
    config_class=DistilBertConfig,
    model_types=("distilbert",),
    classes=_CLASSES,
    from_hugging_face=from_hugging_face,
    to_hugging_face=to_hugging_face,
    hugging_face_weights=hugging_face_weights,
    prefix="distilbert.",
    unused_weights=("*.position_ids",),
)
