"""Transformer-XL (Dai et al. 2019, https://arxiv.org/abs/1901.02860)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax

from t5x_like.model.families.recurrent import Recurrent, RecurrentConfig
from t5x_like.model.heads import HeadsConfig, WordsConfig
from t5x_like.model.layers.adaptive_softmax import AdaptiveConfig
from t5x_like.model.layers.feed_forward import FeedForwardConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.relative_attention import RelativeAttentionConfig
from t5x_like.model.layers.relative_stack import RelativeStackConfig
from t5x_like.model.layers.stack import Remat
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.decoder_parts import heads_of_decoder
from t5x_like.model.zoo.model_tasks import (
    ModelTask,
    ProblemType,
    class_of,
    num_labels_of,
    problem_type_of,
    task_of,
)
from t5x_like.model.zoo.transfo_xl_weights import transfo_xl_weights
from t5x_like.model.zoo.weights import Weight


@dataclass(frozen=True, kw_only=True)
class TransfoXLConfig:
    """A Transformer-XL of any size. ``cutoffs`` and what follows them are of ``AdaptiveConfig``.

    ``memory_length`` and ``same_length`` are of ``RecurrentConfig``; distances beyond ``max_distance`` count as it.
    """

    vocab_size: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    head_dim: int
    num_layers: int
    memory_length: int
    embed_dim: int
    cutoffs: tuple[int, ...] = ()
    div_val: int = 1
    tie_word_embeddings: bool = True
    tie_projections: tuple[bool, ...] = ()
    norm_first: bool = False
    same_length: bool = False
    max_distance: int | None = None
    task: ModelTask = "causal_lm"
    num_labels: int = 2
    problem_type: ProblemType | None = None
    dropout_rate: float = 0.0
    attention_dropout_rate: float = 0.0
    norm_epsilon: float = 1e-5
    init_stddev: float = 0.02
    projection_stddev: float = 0.01
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
            "embed_dim",
            "num_labels",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a positive number")
        for name in ("dropout_rate", "attention_dropout_rate"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a probability below 1")
        if self.memory_length < self.same_length:
            raise ValueError(
                f"memory_length is {self.memory_length}; give 0 or more, and with same_length at least 1"
            )

    def build(self, key: jax.Array) -> Recurrent:
        """The model with fresh weights."""
        return Recurrent(self.recurrent, key=key)

    @property
    def recurrent(self) -> RecurrentConfig:
        """The parts that it is made of."""
        return RecurrentConfig(
            words=self.words,
            stack=RelativeStackConfig(
                model_dim=self.model_dim,
                num_layers=self.num_layers,
                attention=RelativeAttentionConfig(num_heads=self.num_heads, head_dim=self.head_dim),
                feed_forward=FeedForwardConfig(mlp_dim=self.mlp_dim, activation="relu", bias=True),
                norm=LayerNormConfig(epsilon=self.norm_epsilon),
                norm_slots=("before",) if self.norm_first else ("final",),
                max_distance=self.max_distance,
                dropout_rate=self.dropout_rate,
                attention_dropout_rate=self.attention_dropout_rate,
                init=Normal(self.init_stddev),
                remat=self.remat,
            ),
            memory_length=self.memory_length,
            same_length=self.same_length,
            scores_words=self.task == "causal_lm",
            heads=self.heads,
            compute_dtype=self.compute_dtype,
        )

    @property
    def heads(self) -> HeadsConfig:
        """Those that score no words: the vocabulary in clusters does that."""
        words = WordsConfig(tie_word_embeddings=self.tie_word_embeddings)
        return replace(heads_of_decoder(self.task, self.num_labels, words), words=None)

    @property
    def words(self) -> AdaptiveConfig:
        """The vocabulary in clusters."""
        return AdaptiveConfig(
            vocab_size=self.vocab_size,
            embed_dim=self.embed_dim,
            cutoffs=self.cutoffs,
            div_val=self.div_val,
            tie_word_embeddings=self.tie_word_embeddings,
            tie_projections=self.tie_projections,
            stddev=self.init_stddev,
            projection_stddev=self.projection_stddev,
            pad_vocab_to_multiple_of=self.pad_vocab_to_multiple_of,
        )


_CLASSES: dict[str, ModelTask] = {
    "TransfoXLLMHeadModel": "causal_lm",
    "TransfoXLForSequenceClassification": "sequence_classification",
    "TransfoXLModel": "base",
}


def from_hugging_face(config: Mapping[str, Any]) -> TransfoXLConfig:
    """The configuration that a ``config.json`` of ``model_type`` transfo-xl describes.

    Raises:
      ValueError: a field is missing, unknown, or has a value that this model can't express; it is named.
    """
    fields = ConfigFields(config)
    fields.must_be("is_encoder_decoder", False)
    fields.must_be("attn_type", 0)
    fields.must_be("untie_r", True)
    if fields.take("sample_softmax", -1) > 0:
        raise ValueError(f"config.json: sample_softmax is {config['sample_softmax']}; only -1 is supported")
    # Nothing reads these: the softmax is adaptive where there are cutoffs, and tied as tie_word_embeddings says.
    fields.ignore("adaptive", "tie_weight", "init", "init_range", "trainer_compatible", "n_token")
    fields.ignore("init_std", "proj_init_std", "max_position_embeddings")
    cutoffs = _tuple_of(fields, "cutoffs", int, [20_000, 40_000, 200_000])
    ours = TransfoXLConfig(
        vocab_size=fields.take("vocab_size", 267_735),
        model_dim=fields.take("d_model", 1024),
        mlp_dim=fields.take("d_inner", 4096),
        num_heads=fields.take("n_head", 16),
        head_dim=fields.take("d_head", 64),
        num_layers=fields.take("n_layer", 18),
        memory_length=fields.take("mem_len", 1600),
        embed_dim=fields.take("d_embed", 1024),
        cutoffs=cutoffs,
        div_val=fields.take("div_val", 4),
        tie_word_embeddings=fields.take("tie_word_embeddings", True),
        tie_projections=_tied_projections(fields, len(cutoffs)),
        norm_first=fields.take("pre_lnorm", False),
        same_length=fields.take("same_length", True),
        max_distance=_limit(fields.take("clamp_len", 1000)),
        task=task_of(config, _CLASSES, "causal_lm"),
        num_labels=num_labels_of(config),
        problem_type=problem_type_of(config),
        dropout_rate=fields.take("dropout", 0.1),
        attention_dropout_rate=fields.take("dropatt", 0.0),
        norm_epsilon=fields.take("layer_norm_epsilon", 1e-5),
        init_stddev=fields.take("init_std", 0.02),
        projection_stddev=fields.take("proj_init_std", 0.01),
    )
    fields.finish()
    return ours


def _tied_projections(fields: ConfigFields, num_cutoffs: int) -> tuple[bool, ...]:
    shared = fields.take("proj_share_all_but_first", True)
    return _tuple_of(fields, "tie_projs", bool, [False, *[shared] * num_cutoffs])


def _tuple_of(fields: ConfigFields, name: str, kind: type, default: list[Any]) -> tuple[Any, ...]:
    values = fields.take(name, default)
    if any(type(value) is not kind for value in values):
        raise ValueError(f"config.json: {name} is {values!r}; its values must be of type {kind.__name__}")
    return tuple(values)


def _limit(length: int) -> int | None:
    """Their -1 means that there is none."""
    return length if length > 0 else None


def to_hugging_face(config: TransfoXLConfig) -> dict[str, Any]:
    """The fields of a ``config.json``."""
    return {
        "adaptive": True,
        "architectures": [class_of(config.task, _CLASSES)],
        "attn_type": 0,
        "clamp_len": config.max_distance or -1,
        "cutoffs": list(config.cutoffs),
        "d_embed": config.embed_dim,
        "d_head": config.head_dim,
        "d_inner": config.mlp_dim,
        "d_model": config.model_dim,
        "div_val": config.div_val,
        "dropatt": config.attention_dropout_rate,
        "dropout": config.dropout_rate,
        "init_std": config.init_stddev,
        "layer_norm_epsilon": config.norm_epsilon,
        "mem_len": config.memory_length,
        "model_type": "transfo-xl",
        "n_head": config.num_heads,
        "n_layer": config.num_layers,
        "num_labels": config.num_labels,
        "pre_lnorm": config.norm_first,
        "proj_init_std": config.projection_stddev,
        "same_length": config.same_length,
        "sample_softmax": -1,
        "tie_projs": list(config.tie_projections),
        "tie_word_embeddings": config.tie_word_embeddings,
        "torch_dtype": "float32",
        "untie_r": True,
        "vocab_size": config.vocab_size,
    }


def hugging_face_weights(config: TransfoXLConfig) -> tuple[Weight, ...]:
    """Our weights by Hugging Face's names."""
    return transfo_xl_weights(config.recurrent)


TRANSFO_XL = Architecture(
    name="transfo_xl",
    config_class=TransfoXLConfig,
    model_types=("transfo-xl",),
    classes=_CLASSES,
    from_hugging_face=from_hugging_face,
    to_hugging_face=to_hugging_face,
    hugging_face_weights=hugging_face_weights,
    prefix="transformer.",
)
