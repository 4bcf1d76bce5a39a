"""BERT (Devlin et al. 2019, https://arxiv.org/abs/1810.04805)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax

from t5x_like.model.families.encoder import Encoder, EncoderConfig
from t5x_like.model.heads import HeadsConfig, PoolerConfig, TransformConfig, WordsConfig
from t5x_like.model.layers.activations import Activation
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig, LearnedPositions
from t5x_like.model.layers.feed_forward import FeedForwardConfig
from t5x_like.model.layers.initialise import Normal
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.stack import Rematerialisation, StackConfig
from t5x_like.model.zoo.hugging_face import ACTIVATION_NAMES, HuggingFaceFields
from t5x_like.model.zoo.tasks import (
    Problem,
    Task,
    class_of,
    heads_for,
    label_fields,
    num_labels_of,
    problem_of,
    task_of,
)
from t5x_like.model.zoo.weights import Weight, dense, norm, padded_rows, per_layer


@dataclass(frozen=True, kw_only=True)
class BertConfig:
    """A BERT of any size, for any task."""

    vocab_size: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    num_layers: int
    num_positions: int = 512
    num_token_types: int = 2
    activation: Activation = "gelu"
    norm_epsilon: float = 1e-12
    task: Task = "pretraining"
    num_labels: int = 2
    problem: Problem | None = None
    dropout_rate: float = 0.0
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    rematerialisation: Rematerialisation = "none"
    vocab_multiple: int = 128

    def build(self, key: jax.Array) -> Encoder:
        """The model with fresh weights."""
        config = EncoderConfig(
            embeddings=self.embeddings,
            stack=self._stack(),
            heads=self._heads(),
            compute_dtype=self.compute_dtype,
        )
        return Encoder(config, key=key)

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words, positions and sentence types, normed."""
        return EmbeddingsConfig(
            vocab_size=self.vocab_size,
            embed_dim=self.model_dim,
            positions=LearnedPositions(num_positions=self.num_positions),
            num_token_types=self.num_token_types,
            norm=LayerNormConfig(epsilon=self.norm_epsilon),
            stddev=0.02,
            vocab_multiple=self.vocab_multiple,
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
        return StackConfig(blocks=(block,) * self.num_layers, rematerialisation=self.rematerialisation)

    def _heads(self) -> HeadsConfig:
        transform = TransformConfig(
            dim=self.model_dim,
            activation=self.activation,
            norm=LayerNormConfig(epsilon=self.norm_epsilon),
        )
        return heads_for(
            self.task,
            num_labels=self.num_labels,
            words=WordsConfig(tied=True, bias=True, transform=transform),
            pooler=PoolerConfig(transform=TransformConfig(dim=self.model_dim, activation="tanh")),
        )


def post_norm_block(
    *,
    model_dim: int,
    mlp_dim: int,
    num_heads: int,
    activation: Activation,
    norm_epsilon: float,
    dropout_rate: float,
) -> BlockConfig:
    """The block of the original Transformer: a norm after each residual, biases everywhere."""
    return BlockConfig(
        model_dim=model_dim,
        attention=AttentionConfig(
            num_heads=num_heads, head_dim=model_dim // num_heads, in_bias=True, out_bias=True
        ),
        feed_forward=FeedForwardConfig(mlp_dim=mlp_dim, activation=activation, bias=True),
        norm=LayerNormConfig(epsilon=norm_epsilon),
        attention_norms=("final",),
        feed_forward_norms=("final",),
        dropout_rate=dropout_rate,
        init=Normal(0.02),
    )


HUGGING_FACE_CLASSES: dict[str, Task] = {
    "BertForPreTraining": "pretraining",
    "BertForMaskedLM": "masked_lm",
    "BertForNextSentencePrediction": "next_sentence",
    "BertForSequenceClassification": "sequence_classification",
    "BertForMultipleChoice": "multiple_choice",
    "BertForTokenClassification": "token_classification",
    "BertForQuestionAnswering": "question_answering",
    "BertModel": "base",
}

# What names in files begin with, unless they are those of a model without a head.
HUGGING_FACE_PREFIX = "bert."

HUGGING_FACE_UNUSED = ("*.position_ids",)

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
    fields = HuggingFaceFields(config)
    fields.must_be("position_embedding_type", "absolute")
    fields.must_be("tie_word_embeddings", True)
    fields.ignore("classifier_dropout", "attention_probs_dropout_prob", *_OF_THE_FIRST_RELEASE)
    ours = BertConfig(
        vocab_size=fields.take("vocab_size"),
        model_dim=fields.take("hidden_size"),
        mlp_dim=fields.take("intermediate_size"),
        num_heads=fields.take("num_attention_heads"),
        num_layers=fields.take("num_hidden_layers"),
        num_positions=fields.take("max_position_embeddings"),
        num_token_types=fields.take("type_vocab_size", 2),
        activation=fields.take_name("hidden_act", ACTIVATION_NAMES, "gelu"),
        norm_epsilon=fields.take("layer_norm_eps", 1e-12),
        task=task_of(config, HUGGING_FACE_CLASSES, "base"),
        num_labels=num_labels_of(config),
        problem=problem_of(config),
        dropout_rate=fields.take("hidden_dropout_prob", 0.1),
    )
    fields.finish()
    return ours


def to_hugging_face(config: BertConfig) -> dict[str, Any]:
    """The fields of a ``config.json``."""
    return {
        "architectures": [class_of(config.task, HUGGING_FACE_CLASSES)],
        "attention_probs_dropout_prob": config.dropout_rate,
        "hidden_act": ACTIVATION_NAMES.theirs(config.activation),
        "hidden_dropout_prob": config.dropout_rate,
        "hidden_size": config.model_dim,
        "intermediate_size": config.mlp_dim,
        "layer_norm_eps": config.norm_epsilon,
        "max_position_embeddings": config.num_positions,
        "model_type": "bert",
        "num_attention_heads": config.num_heads,
        "num_hidden_layers": config.num_layers,
        **label_fields(config.num_labels, config.problem),
        "pad_token_id": 0,
        "position_embedding_type": "absolute",
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "type_vocab_size": config.num_token_types,
        "vocab_size": config.vocab_size,
    }


def hugging_face_weights(config: BertConfig) -> tuple[Weight, ...]:
    """Our weights by Hugging Face's names."""
    words = padded_rows(config.vocab_size, config.embeddings.padded_vocab_size)
    embeddings = "bert.embeddings"
    table = [
        Weight(
            "embedding/tokens/table",
            f"{embeddings}.word_embeddings.weight",
            words,
            copies=("cls.predictions.decoder.weight",),
        ),
        Weight("embedding/positions/table", f"{embeddings}.position_embeddings.weight"),
        Weight("embedding/token_types/table", f"{embeddings}.token_type_embeddings.weight"),
        *norm("embedding/norm", f"{embeddings}.LayerNorm"),
        *per_layer("encoder/layers/0", tuple(range(config.num_layers)), layer_rows("bert.encoder.layer")),
    ]
    heads = config._heads()
    if heads.words is not None:
        table += [
            *dense("heads/words/transform/dense", "cls.predictions.transform.dense"),
            *norm("heads/words/transform/norm", "cls.predictions.transform.LayerNorm"),
            Weight(
                "heads/words/bias", "cls.predictions.bias", words, copies=("cls.predictions.decoder.bias",)
            ),
        ]
    if heads.pooler is not None:
        table += dense("heads/pooler/transform/dense", "bert.pooler.dense")
    theirs = {"next_sentence": "cls.seq_relationship", "span": "qa_outputs"}
    for head in heads.scores:
        table += dense(f"heads/scores/{head.name}/projection", theirs.get(head.name, "classifier"))
    return tuple(table)


def layer_rows(prefix: str) -> list[Weight]:
    """One layer of BERT and of those that kept its names."""
    theirs = f"{prefix}.{{layer}}"
    rows = [
        row
        for ours, name in (("query", "query"), ("key", "key"), ("value", "value"))
        for row in dense(f"self_attention/{ours}", f"{theirs}.attention.self.{name}")
    ]
    return [
        *rows,
        *dense("self_attention/out", f"{theirs}.attention.output.dense"),
        *norm("around_self_attention/final", f"{theirs}.attention.output.LayerNorm"),
        *dense("feed_forward/up", f"{theirs}.intermediate.dense"),
        *dense("feed_forward/down", f"{theirs}.output.dense"),
        *norm("around_feed_forward/final", f"{theirs}.output.LayerNorm"),
    ]
