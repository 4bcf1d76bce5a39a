"""The parts of BERT and the encoders after it: post-norm blocks, their fields, and the names of their weights."""

from collections.abc import Mapping
from typing import Any

from t5x_like.model.families.encoder import EncoderConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import Activation, FeedForwardConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, ConfigFields
from t5x_like.model.zoo.model_tasks import (
    ModelTask,
    class_of,
    label_fields,
    num_labels_of,
    problem_type_of,
    task_of,
)
from t5x_like.model.zoo.weights import Weight, WeightTransform, dense, norm, padded_rows


def post_norm_block(
    *,
    model_dim: int,
    mlp_dim: int,
    num_heads: int,
    activation: Activation,
    norm_epsilon: float,
    dropout_rate: float,
    init_stddev: float = 0.02,
) -> BlockConfig:
    """The block of the original Transformer: a norm after each residual, biases everywhere.

    Raises:
      ValueError: the width doesn't divide among the heads.
    """
    if model_dim % num_heads:
        raise ValueError(f"model_dim={model_dim} doesn't divide among num_heads={num_heads}; give a multiple")
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
        init=Normal(init_stddev),
    )


def take_task(config: Mapping[str, Any], classes: Mapping[str, ModelTask]) -> dict[str, Any]:
    """Reads the fields ``task``, ``num_labels`` and ``problem_type`` of a configuration."""
    return {
        "task": task_of(config, classes, "base"),
        "num_labels": num_labels_of(config),
        "problem_type": problem_type_of(config),
    }


def take_common(
    config: Mapping[str, Any],
    fields: ConfigFields,
    classes: Mapping[str, ModelTask],
    *,
    activation: str = "gelu",
    dropout_rate: float = 0.1,
) -> dict[str, Any]:
    """Reads the fields that BERT and its relatives share, with transformers' defaults for this one.

    Positions are taken by the caller: they are not counted alike.
    """
    fields.must_be("position_embedding_type", "absolute")
    fields.must_be("tie_word_embeddings", True)
    fields.ignore("attention_probs_dropout_prob")
    return {
        "vocab_size": fields.take("vocab_size"),
        "model_dim": fields.take("hidden_size"),
        "mlp_dim": fields.take("intermediate_size"),
        "num_heads": fields.take("num_attention_heads"),
        "num_layers": fields.take("num_hidden_layers"),
        "num_token_types": fields.take("type_vocab_size", 2),
        "activation": fields.take_name("hidden_act", ACTIVATION_NAMES, activation),
        "norm_epsilon": fields.take("layer_norm_eps", 1e-12),
        "dropout_rate": fields.take("hidden_dropout_prob", dropout_rate),
        "classifier_dropout_rate": take_rate(config, fields, "classifier_dropout"),
        **take_task(config, classes),
    }


def take_rate(config: Mapping[str, Any], fields: ConfigFields, name: str) -> float | None:
    """A rate of dropout, where one is given."""
    rate = fields.take(name, 0.0)
    return None if config.get(name) is None else rate


def common_fields(config: Any, classes: Mapping[str, ModelTask], model_type: str) -> dict[str, Any]:
    """Writes the fields that ``take_common`` reads."""
    return {
        "architectures": [class_of(config.task, classes)],
        "attention_probs_dropout_prob": config.dropout_rate,
        "classifier_dropout": config.classifier_dropout_rate,
        "hidden_act": ACTIVATION_NAMES.theirs(config.activation),
        "hidden_dropout_prob": config.dropout_rate,
        "hidden_size": config.model_dim,
        "intermediate_size": config.mlp_dim,
        "layer_norm_eps": config.norm_epsilon,
        "model_type": model_type,
        "num_attention_heads": config.num_heads,
        "num_hidden_layers": config.num_layers,
        **label_fields(config.num_labels, config.problem_type),
        "position_embedding_type": "absolute",
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "type_vocab_size": config.num_token_types,
        "vocab_size": config.vocab_size,
    }


def words_of(embeddings: EmbeddingsConfig) -> WeightTransform:
    """From a table with a row for each word to ours, and back."""
    return padded_rows(embeddings.vocab_size, embeddings.padded_vocab_size)


def embedding_rows(embeddings: EmbeddingsConfig, theirs: str, *, copies: tuple[str, ...]) -> list[Weight]:
    """The tables of words, positions and types, and the norm. ``copies`` are other names of the table of words."""
    named = {
        "positions": embeddings.positions and "position_embeddings",
        "token_types": embeddings.num_token_types and "token_type_embeddings",
        "task_types": embeddings.num_task_types and "task_type_embeddings",
    }
    words = words_of(embeddings)
    return [
        Weight("embedding/tokens/table", f"{theirs}.word_embeddings.weight", words, copies=copies),
        *(
            Weight(f"embedding/{ours}/table", f"{theirs}.{name}.weight")
            for ours, name in named.items()
            if name
        ),
        *norm("embedding/norm", f"{theirs}.LayerNorm"),
    ]


def layer_rows(prefix: str) -> list[Weight]:
    """One layer of BERT and of those that kept its names."""
    theirs = f"{prefix}.{{layer}}"
    rows = [
        row
        for name in ("query", "key", "value")
        for row in dense(f"self_attention/{name}", f"{theirs}.attention.self.{name}")
    ]
    return [
        *rows,
        *dense("self_attention/out", f"{theirs}.attention.output.dense"),
        *norm("around_self_attention/final", f"{theirs}.attention.output.LayerNorm"),
        *dense("feed_forward/up", f"{theirs}.intermediate.dense"),
        *dense("feed_forward/down", f"{theirs}.output.dense"),
        *norm("around_feed_forward/final", f"{theirs}.output.LayerNorm"),
    ]


def words_head_rows(
    embeddings: EmbeddingsConfig,
    *,
    transform: str,
    norm_name: str,
    bias: str,
    bias_copies: tuple[str, ...] = (),
) -> list[Weight]:
    """The head over words: a dense layer, a norm, and a bias for each word."""
    return [
        *dense("heads/words/transform/dense", transform),
        *norm("heads/words/transform/norm", norm_name),
        Weight("heads/words/bias", bias, words_of(embeddings), copies=bias_copies),
    ]


def score_rows(encoder: EncoderConfig, names: Mapping[str, str], default: str = "classifier") -> list[Weight]:
    """The last layer of every other head, by what ``names`` calls it."""
    return [
        row
        for head in encoder.heads.scores
        for row in dense(f"heads/scores/{head.name}/projection", names.get(head.name, default))
    ]
