"""XLNet (Yang et al. 2019, https://arxiv.org/abs/1906.08237)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax

from t5x_like.model.families.two_stream import Direction, TwoStream, TwoStreamConfig
from t5x_like.model.heads import HeadsConfig, PoolerConfig, TransformConfig, WordsConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import Activation, FeedForwardConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.relative_attention import RelativeAttentionConfig
from t5x_like.model.layers.relative_stack import RelativeStackConfig
from t5x_like.model.layers.stack import Remat
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, ConfigFields
from t5x_like.model.zoo.model_tasks import (
    SEQUENCE_TASKS,
    ModelTask,
    ProblemType,
    class_of,
    classifier_dropout_of,
    num_labels_of,
    problem_type_of,
    scoring_heads,
    task_of,
)
from t5x_like.model.zoo.weights import (
    TRANSPOSED,
    Weight,
    WeightTransform,
    dense,
    norm,
    padded_rows,
    per_layer,
)

Summary = Literal["first", "last", "mean"]


@dataclass(frozen=True, kw_only=True)
class XLNetConfig:
    """An XLNet of any size. Classifiers read a ``summary_type`` of the sequence: XLNet puts its class token last.

    ``memory_length`` and ``reuse_length`` are of ``TwoStreamConfig``; distances beyond ``max_distance`` count as it.
    """

    vocab_size: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    head_dim: int
    num_layers: int
    activation: Activation = "gelu"
    direction: Direction = "bidirectional"
    max_distance: int | None = None
    memory_length: int | None = None
    reuse_length: int | None = None
    task: ModelTask = "causal_lm"
    num_labels: int = 2
    problem_type: ProblemType | None = None
    summary_type: Summary = "last"
    dropout_rate: float = 0.0
    classifier_dropout_rate: float | None = None
    norm_epsilon: float = 1e-12
    init_stddev: float = 0.02
    pad_vocab_to_multiple_of: int = 128
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    remat: Remat = "none"

    def __post_init__(self) -> None:
        for name in (
            "vocab_size",
            "model_dim",
            "mlp_dim",
            "num_heads",
            "head_dim",
            "num_layers",
            "num_labels",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a positive number")
        if not 0 <= self.dropout_rate < 1:
            raise ValueError(f"dropout_rate is {self.dropout_rate}; give a probability below 1")
        for name in ("max_distance", "memory_length", "reuse_length"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(
                    f"{name} is {getattr(self, name)}; give a positive number, or None for no limit"
                )

    def build(self, key: jax.Array) -> TwoStream:
        """The model with fresh weights."""
        return TwoStream(
            TwoStreamConfig(
                embeddings=self.embeddings,
                stack=RelativeStackConfig(
                    model_dim=self.model_dim,
                    num_layers=self.num_layers,
                    attention=RelativeAttentionConfig(
                        num_heads=self.num_heads, head_dim=self.head_dim, segments=True
                    ),
                    feed_forward=FeedForwardConfig(
                        mlp_dim=self.mlp_dim, activation=self.activation, bias=True
                    ),
                    norm=LayerNormConfig(epsilon=self.norm_epsilon),
                    max_distance=self.max_distance,
                    dropout_rate=self.dropout_rate,
                    attention_dropout_rate=self.dropout_rate,
                    init=Normal(self.init_stddev),
                    remat=self.remat,
                ),
                heads=self.heads,
                direction=self.direction,
                memory_length=self.memory_length,
                reuse_length=self.reuse_length,
                compute_dtype=self.compute_dtype,
            ),
            key=key,
        )

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words alone: positions and segments are matters of attention."""
        return EmbeddingsConfig(
            vocab_size=self.vocab_size,
            embed_dim=self.model_dim,
            stddev=self.init_stddev,
            pad_vocab_to_multiple_of=self.pad_vocab_to_multiple_of,
        )

    @property
    def heads(self) -> HeadsConfig:
        """Words, or what a class of transformers adds."""
        if self.task == "base":
            return HeadsConfig()
        if self.task == "causal_lm":
            return HeadsConfig(words=WordsConfig(tie_word_embeddings=True, bias=True))
        summary = TransformConfig(dim=self.model_dim, activation="tanh")
        pooler = PoolerConfig(pooling=self.summary_type, transform=summary)
        # Only what sums up a sequence is dropped from.
        rate = classifier_dropout_of(self) if self.task in SEQUENCE_TASKS else 0.0
        heads = scoring_heads(self.task, num_labels=self.num_labels, pooler=pooler, dropout_rate=rate)
        if heads is None:
            raise ValueError(f"XLNet has no head for the task {self.task!r} here")
        return heads


_CLASSES: dict[str, ModelTask] = {
    "XLNetLMHeadModel": "causal_lm",
    "XLNetForSequenceClassification": "sequence_classification",
    "XLNetForMultipleChoice": "multiple_choice",
    "XLNetForTokenClassification": "token_classification",
    "XLNetForQuestionAnsweringSimple": "question_answering",
    "XLNetModel": "base",
}


def from_hugging_face(config: Mapping[str, Any]) -> XLNetConfig:
    """The configuration that a ``config.json`` of ``model_type`` xlnet describes.

    Raises:
      ValueError: a field is missing, unknown, or has a value that this model can't express; it is named.
    """
    fields = ConfigFields(config)
    fields.must_be("is_encoder_decoder", False)
    fields.must_be("bi_data", False)
    fields.must_be("tie_word_embeddings", True)
    # Files have a bias for each layer whatever untie_r says. The head whose ends depend on starts isn't here.
    fields.ignore("untie_r", "start_n_top", "end_n_top", "use_mems_eval", "use_mems_train")
    fields.ignore("n_token", "max_position_embeddings", "initializer_range")
    task = task_of(config, _CLASSES, "causal_lm")
    ours = XLNetConfig(
        vocab_size=fields.take("vocab_size"),
        model_dim=fields.take("d_model"),
        mlp_dim=fields.take("d_inner"),
        num_heads=fields.take("n_head"),
        head_dim=_head_dim(fields),
        num_layers=fields.take("n_layer"),
        activation=fields.take_name("ff_activation", ACTIVATION_NAMES, "gelu"),
        direction=_direction(fields),
        max_distance=_limit(fields, "clamp_len"),
        memory_length=_limit(fields, "mem_len"),
        reuse_length=_limit(fields, "reuse_len"),
        task=task,
        num_labels=num_labels_of(config),
        problem_type=problem_type_of(config),
        summary_type=_summary(fields, task),
        dropout_rate=fields.take("dropout", 0.1),
        classifier_dropout_rate=fields.take("summary_last_dropout", 0.1),
        norm_epsilon=fields.take("layer_norm_eps", 1e-12),
        init_stddev=float(config.get("initializer_range") or 0.02),
    )
    fields.finish()
    return ours


def _head_dim(fields: ConfigFields) -> int:
    model_dim, num_heads = fields.take("d_model"), fields.take("n_head")
    head_dim = fields.take("d_head", model_dim // num_heads)
    if head_dim * num_heads != model_dim:
        # transformers refuses it too, but nothing else here depends on it.
        raise ValueError(
            f"config.json: d_head is {head_dim}, but d_model / n_head is {model_dim / num_heads:g}"
        )
    return head_dim


def _limit(fields: ConfigFields, name: str) -> int | None:
    """Their -1, 0 and null all mean that there is none."""
    limit = fields.take(name, -1)
    return limit if limit > 0 else None


def _direction(fields: ConfigFields) -> Direction:
    names: dict[str, Direction] = {"bi": "bidirectional", "uni": "unidirectional"}
    direction = fields.take_name("attn_type", names, "bi")
    equally = fields.take("same_length", False)  # says nothing where both ways are seen
    return "unidirectional_same_length" if equally and direction == "unidirectional" else direction


def _summary(fields: ConfigFields, task: ModelTask) -> Summary:
    if task not in SEQUENCE_TASKS:
        fields.ignore("summary_type", "summary_use_proj", "summary_activation")
        return "last"
    fields.must_be("summary_use_proj", True)
    fields.must_be("summary_activation", "tanh")
    return fields.take_name("summary_type", {"first": "first", "last": "last", "mean": "mean"}, "last")


def to_hugging_face(config: XLNetConfig) -> dict[str, Any]:
    """The fields of a ``config.json``."""
    return {
        "architectures": [class_of(config.task, _CLASSES)],
        "attn_type": "bi" if config.direction == "bidirectional" else "uni",
        "bi_data": False,
        "clamp_len": config.max_distance or -1,
        "d_head": config.head_dim,
        "d_inner": config.mlp_dim,
        "d_model": config.model_dim,
        "dropout": config.dropout_rate,
        "ff_activation": ACTIVATION_NAMES.theirs(config.activation),
        "initializer_range": config.init_stddev,
        "layer_norm_eps": config.norm_epsilon,
        "mem_len": config.memory_length,
        "model_type": "xlnet",
        "n_head": config.num_heads,
        "n_layer": config.num_layers,
        "num_labels": config.num_labels,
        "reuse_len": config.reuse_length,
        "same_length": config.direction == "unidirectional_same_length",
        "summary_activation": "tanh",
        "summary_last_dropout": classifier_dropout_of(config),
        "summary_type": config.summary_type,
        "summary_use_proj": True,
        "torch_dtype": "float32",
        "untie_r": True,
        "vocab_size": config.vocab_size,
    }


def hugging_face_weights(config: XLNetConfig) -> tuple[Weight, ...]:
    """Our weights by Hugging Face's names."""
    words = padded_rows(config.vocab_size, config.embeddings.padded_vocab_size)
    table = [
        Weight("embedding/table", "transformer.word_embedding.weight", words, copies=("lm_loss.weight",)),
        Weight("query_embedding", "transformer.mask_emb", _reshaped((1, 1, -1), (-1,))),
        *per_layer("stack/layers", tuple(range(config.num_layers)), _layer_rows(config)),
    ]
    if config.task == "causal_lm":
        table.append(Weight("heads/words/bias", "lm_loss.bias", words))
    if config.task in SEQUENCE_TASKS:
        table += dense("heads/pooler/transform/dense", "sequence_summary.summary")
    names = {"token_classification": "classifier", "question_answering": "qa_outputs"}
    for scores in config.heads.scores:
        table += dense(f"heads/scores/{scores.name}/projection", names.get(scores.name, "logits_proj"))
    return tuple(table)


def _layer_rows(config: XLNetConfig) -> list[Weight]:
    """Theirs keep heads apart: projections are [model, heads, head], the one back into the stream too."""
    theirs, heads = "transformer.layer.{layer}", (config.num_heads, config.head_dim)
    project = _reshaped((config.model_dim, *heads), (config.model_dim, -1))
    bias = _reshaped(heads, (-1,))
    return [
        *(
            Weight(f"attention/{ours}/kernel", f"{theirs}.rel_attn.{name}", project)
            for ours, name in (("query", "q"), ("key", "k"), ("value", "v"), ("distance", "r"))
        ),
        Weight("attention/out/kernel", f"{theirs}.rel_attn.o", project.then(TRANSPOSED)),
        *(
            Weight(f"attention/{ours}_bias", f"{theirs}.rel_attn.{name}", bias)
            for ours, name in (("content", "r_w_bias"), ("distance", "r_r_bias"), ("segment", "r_s_bias"))
        ),
        Weight("attention/segment_keys", f"{theirs}.rel_attn.seg_embed", _reshaped((2, *heads), (2, -1))),
        *norm("around_attention/final", f"{theirs}.rel_attn.layer_norm"),
        *dense("feed_forward/up", f"{theirs}.ff.layer_1"),
        *dense("feed_forward/down", f"{theirs}.ff.layer_2"),
        *norm("around_feed_forward/final", f"{theirs}.ff.layer_norm"),
    ]


def _reshaped(theirs: tuple[int, ...], ours: tuple[int, ...]) -> WeightTransform:
    return WeightTransform(lambda array: array.reshape(ours), lambda array: array.reshape(theirs))


XLNET = Architecture(
    name="xlnet",
    config_class=XLNetConfig,
    model_types=("xlnet",),
    classes=_CLASSES,
    from_hugging_face=from_hugging_face,
    to_hugging_face=to_hugging_face,
    hugging_face_weights=hugging_face_weights,
    prefix="transformer.",
)
