"""ModernBERT (Warner et al. 2024, https://arxiv.org/abs/2412.13663): rotary, gated, mostly local, without biases."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax

from t5x_like.model.families.encoder import Encoder, EncoderConfig
from t5x_like.model.heads import HeadsConfig, PoolerConfig, TransformConfig, WordsConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import Activation, FeedForwardConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.rotary import Rotary
from t5x_like.model.layers.stack import Remat, StackConfig
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, ConfigFields
from t5x_like.model.zoo.model_tasks import (
    ModelTask,
    ProblemType,
    class_of,
    classifier_dropout_of,
    num_labels_of,
    problem_type_of,
    scoring_heads,
    task_of,
)
from t5x_like.model.zoo.rope import rope_of
from t5x_like.model.zoo.weights import (
    TRANSPOSED,
    Weight,
    dense,
    padded_rows,
    per_layer,
    split_columns,
)


@dataclass(frozen=True, kw_only=True)
class ModernBertConfig:
    """A ModernBERT of any size.

    Every ``global_attn_every_n_layers``-th layer, the first one too, sees all tokens and rotates by
    ``global_rope_theta``. The others see half of ``local_attention`` tokens to each side and rotate by
    ``local_rope_theta``. Classifiers read the first token, or the ``mean`` of all real ones. ``max_position_embeddings`` is the length it was trained for; it is no limit here.
    """

    vocab_size: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    num_layers: int
    global_attn_every_n_layers: int = 3
    local_attention: int = 128
    global_rope_theta: float = 160_000.0
    local_rope_theta: float = 10_000.0
    activation: Activation = "gelu"
    classifier_activation: Activation = "gelu"
    classifier_pooling: Literal["cls", "mean"] = "cls"
    max_position_embeddings: int = 8192
    norm_epsilon: float = 1e-5
    tie_word_embeddings: bool = True
    task: ModelTask = "masked_lm"
    num_labels: int = 2
    problem_type: ProblemType | None = None
    dropout_rate: float = 0.0
    classifier_dropout_rate: float | None = None
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    remat: Remat = "none"
    pad_vocab_to_multiple_of: int = 128

    def build(self, key: jax.Array) -> Encoder:
        """The model with fresh weights."""
        return Encoder(self.encoder, key=key)

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words alone, normed."""
        return EmbeddingsConfig(
            vocab_size=self.vocab_size,
            embed_dim=self.model_dim,
            norm=self._norm,
            stddev=0.02,
            pad_vocab_to_multiple_of=self.pad_vocab_to_multiple_of,
        )

    @property
    def encoder(self) -> EncoderConfig:
        """The model's parts."""
        return EncoderConfig(
            embeddings=self.embeddings,
            stack=StackConfig(
                blocks=tuple(map(self._block, range(self.num_layers))),
                final_norm=self._norm,
                remat=self.remat,
            ),
            heads=self._heads(),
            compute_dtype=self.compute_dtype,
        )

    @property
    def _norm(self) -> LayerNormConfig:
        return LayerNormConfig(epsilon=self.norm_epsilon, bias=False)

    def _block(self, layer: int) -> BlockConfig:
        is_global, head_dim = layer % self.global_attn_every_n_layers == 0, self.model_dim // self.num_heads
        side = self.local_attention // 2
        theta = self.global_rope_theta if is_global else self.local_rope_theta
        return BlockConfig(
            model_dim=self.model_dim,
            attention=AttentionConfig(
                num_heads=self.num_heads,
                head_dim=head_dim,
                positions=Rotary(rotated_dim=head_dim, rope_theta=theta),
                window=None if is_global else SlidingWindow(left=side, right=side),
            ),
            feed_forward=FeedForwardConfig(mlp_dim=self.mlp_dim, activation=self.activation, gated=True),
            norm=self._norm,
            attention_norms=("before",) if layer else (),  # the words have just been normed
            dropout_rate=self.dropout_rate,
            init=Normal(0.02, residual_scale=(2 * self.num_layers) ** -0.5),
        )

    def _heads(self) -> HeadsConfig:
        transform = TransformConfig(
            dim=self.model_dim, activation=self.classifier_activation, norm=self._norm, bias=False
        )
        if self.task == "base":
            return HeadsConfig()
        if self.task == "masked_lm":
            return HeadsConfig(
                words=WordsConfig(
                    tie_word_embeddings=self.tie_word_embeddings, bias=True, transform=transform
                )
            )
        # transformers passes over padding on the left for choices, and for classes it doesn't.
        first = "first_real" if self.task == "multiple_choice" else "first"
        pooling = first if self.classifier_pooling == "cls" else "mean"
        pooler = PoolerConfig(pooling=pooling, transform=transform)
        heads = scoring_heads(
            self.task,
            num_labels=self.num_labels,
            pooler=pooler,
            of_tokens=transform,
            dropout_rate=classifier_dropout_of(self),
        )
        if heads is None:
            raise ValueError(f"ModernBERT has no head for the task {self.task!r}")
        return heads


_CLASSES: dict[str, ModelTask] = {
    "ModernBertForMaskedLM": "masked_lm",
    "ModernBertForSequenceClassification": "sequence_classification",
    "ModernBertForTokenClassification": "token_classification",
    "ModernBertForQuestionAnswering": "question_answering",
    "ModernBertForMultipleChoice": "multiple_choice",
    "ModernBertModel": "base",
}

_POOLING: dict[str, Literal["cls", "mean"]] = {"cls": "cls", "mean": "mean"}


def from_hugging_face(config: Mapping[str, Any]) -> ModernBertConfig:
    """The configuration that a ``config.json`` of ``model_type`` modernbert describes.

    Raises:
      ValueError: a field is missing, unknown, or has a value that this model can't express; it is named.
    """
    fields = ConfigFields(config)
    for name in ("attention_bias", "mlp_bias", "norm_bias", "classifier_bias"):
        fields.must_be(name, False)
    fields.must_be("decoder_bias", True)
    fields.ignore(
        *("attention_dropout", "embedding_dropout", "initializer_cutoff_factor"),
        *("cls_token_id", "sparse_prediction", "sparse_pred_ignore_index"),
        *("deterministic_flash_attn", "reference_compile", "repad_logits_with_grad"),
        *("layer_norm_eps", "position_embedding_type"),  # left over in published files; nothing reads them
    )
    num_layers, every = fields.take("num_hidden_layers"), fields.take("global_attn_every_n_layers", 3)
    kinds = ["sliding_attention" if layer % every else "full_attention" for layer in range(num_layers)]
    fields.must_be("layer_types", kinds)
    ours = ModernBertConfig(
        vocab_size=fields.take("vocab_size"),
        model_dim=fields.take("hidden_size"),
        mlp_dim=fields.take("intermediate_size"),
        num_heads=fields.take("num_attention_heads"),
        num_layers=num_layers,
        global_attn_every_n_layers=every,
        local_attention=fields.take("local_attention", 128),
        **_take_thetas(config, fields),
        activation=fields.take_name("hidden_activation", ACTIVATION_NAMES, "gelu"),
        classifier_activation=fields.take_name("classifier_activation", ACTIVATION_NAMES, "gelu"),
        classifier_pooling=fields.take_name("classifier_pooling", _POOLING, "cls"),
        max_position_embeddings=fields.take("max_position_embeddings", 8192),
        norm_epsilon=fields.take("norm_eps", 1e-5),
        tie_word_embeddings=fields.take("tie_word_embeddings", True),
        task=task_of(config, _CLASSES, "base"),
        num_labels=num_labels_of(config),
        problem_type=problem_type_of(config),
        dropout_rate=fields.take("mlp_dropout", 0.0),
        classifier_dropout_rate=fields.take("classifier_dropout", 0.0),
    )
    fields.finish()
    return ours


def _take_thetas(config: Mapping[str, Any], fields: ConfigFields) -> dict[str, Any]:
    everywhere = fields.take("global_rope_theta", 160_000.0)
    # Where it is null, local layers rotate as global ones do.
    nearby = fields.take("local_rope_theta", everywhere if "local_rope_theta" in config else 10_000.0)
    ropes = {"full_attention": {"rope_theta": everywhere}, "sliding_attention": {"rope_theta": nearby}}
    for kind, parameters in fields.take("rope_parameters", {}).items():
        if kind not in ropes:
            raise ValueError(f"config.json: rope_parameters of {kind} are not known; {', '.join(ropes)} are")
        ropes[kind] |= parameters
    read = {kind: rope_of(parameters, max_position_embeddings=0) for kind, parameters in ropes.items()}
    for kind, rope in read.items():
        if rope.rope_scaling is not None or rope.rotated != 1.0:
            raise ValueError(f"config.json: rope_parameters of {kind} are {ropes[kind]}; only theta may vary")
    return {
        "global_rope_theta": read["full_attention"].rope_theta,
        "local_rope_theta": read["sliding_attention"].rope_theta,
    }


def to_hugging_face(config: ModernBertConfig) -> dict[str, Any]:
    """The fields of a ``config.json``."""
    return {
        "architectures": [class_of(config.task, _CLASSES)],
        "attention_bias": False,
        "classifier_activation": ACTIVATION_NAMES.theirs(config.classifier_activation),
        "classifier_bias": False,
        "classifier_dropout": classifier_dropout_of(config),
        "classifier_pooling": config.classifier_pooling,
        "decoder_bias": True,
        "global_attn_every_n_layers": config.global_attn_every_n_layers,
        "global_rope_theta": config.global_rope_theta,
        "hidden_activation": ACTIVATION_NAMES.theirs(config.activation),
        "hidden_size": config.model_dim,
        "intermediate_size": config.mlp_dim,
        "local_attention": config.local_attention,
        "local_rope_theta": config.local_rope_theta,
        "max_position_embeddings": config.max_position_embeddings,
        "mlp_bias": False,
        "mlp_dropout": config.dropout_rate,
        "model_type": "modernbert",
        "norm_bias": False,
        "norm_eps": config.norm_epsilon,
        "num_attention_heads": config.num_heads,
        "num_hidden_layers": config.num_layers,
        "num_labels": config.num_labels,
        "pad_token_id": 0,
        "tie_word_embeddings": config.tie_word_embeddings,
        "torch_dtype": "float32",
        "vocab_size": config.vocab_size,
    }


def hugging_face_weights(config: ModernBertConfig) -> tuple[Weight, ...]:
    """Our weights by Hugging Face's names."""
    encoder, words = config.encoder, padded_rows(config.vocab_size, config.embeddings.padded_vocab_size)
    head = encoder.heads.words
    copies = ("decoder.weight",) if head is not None and head.tie_word_embeddings else ()
    table = [
        Weight("embedding/tokens/table", "model.embeddings.tok_embeddings.weight", words, copies=copies),
        Weight("embedding/norm/scale", "model.embeddings.norm.weight"),
        Weight("encoder/final_norm/scale", "model.final_norm.weight"),
    ]
    for slot, layers in enumerate(encoder.stack.layer_pattern.slots):
        is_normed = bool(encoder.stack.blocks[layers[0]].attention_norms)
        rows = _layer_rows(config.model_dim, config.mlp_dim, is_normed=is_normed)
        table += per_layer(f"encoder/layers/{slot}", layers, rows)
    if head is not None:
        table += [*_transform_rows("heads/words"), Weight("heads/words/bias", "decoder.bias", words)]
        if not head.tie_word_embeddings:
            table.append(Weight("heads/words/projection/kernel", "decoder.weight", words.then(TRANSPOSED)))
    for scores in encoder.heads.scores:
        ours = f"heads/scores/{scores.name}"
        table += _transform_rows("heads/pooler" if scores.input == "pooled" else ours)
        table += dense(f"{ours}/projection", "classifier")
    return tuple(table)


def _layer_rows(model_dim: int, mlp_dim: int, *, is_normed: bool) -> list[Weight]:
    theirs = "model.layers.{layer}"
    attention = tuple(f"self_attention/{name}/kernel" for name in ("query", "key", "value"))
    gated = ("feed_forward/gate/kernel", "feed_forward/up/kernel")
    rows = [
        Weight(attention, f"{theirs}.attn.Wqkv.weight", TRANSPOSED.then(split_columns(*(model_dim,) * 3))),
        Weight("self_attention/out/kernel", f"{theirs}.attn.Wo.weight", TRANSPOSED),
        Weight("around_feed_forward/before/scale", f"{theirs}.mlp_norm.weight"),
        Weight(gated, f"{theirs}.mlp.Wi.weight", TRANSPOSED.then(split_columns(mlp_dim, mlp_dim))),
        Weight("feed_forward/down/kernel", f"{theirs}.mlp.Wo.weight", TRANSPOSED),
    ]
    if is_normed:
        rows.append(Weight("around_self_attention/before/scale", f"{theirs}.attn_norm.weight"))
    return rows


def _transform_rows(ours: str) -> list[Weight]:
    return [
        Weight(f"{ours}/transform/dense/kernel", "head.dense.weight", TRANSPOSED),
        Weight(f"{ours}/transform/norm/scale", "head.norm.weight"),
    ]


MODERNBERT = Architecture(
    name="modernbert",
    config_class=ModernBertConfig,
    model_types=("modernbert",),
    classes=_CLASSES,
    from_hugging_face=from_hugging_face,
    to_hugging_face=to_hugging_face,
    hugging_face_weights=hugging_face_weights,
    prefix="model.",
    unused_weights=("*.rotary_emb.inv_freq",),
)
