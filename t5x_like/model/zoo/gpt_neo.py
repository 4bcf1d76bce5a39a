"""GPT-Neo (Black et al. 2021, https://doi.org/10.5281/zenodo.5297715): every other layer sees only a window."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from t5x_like.model.heads import WordsConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.feed_forward import Activation, FeedForwardConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, ConfigFields
from t5x_like.model.zoo.decoder_parts import decoder_classes, projection
from t5x_like.model.zoo.gpt2 import gpt_rows
from t5x_like.model.zoo.gpt_like import GPTLikeConfig
from t5x_like.model.zoo.model_tasks import (
    ModelTask,
    class_of,
    num_labels_of,
    problem_type_of,
    task_of,
)
from t5x_like.model.zoo.weights import Weight, dense, norm

AttentionType = Literal["global", "local"]


@dataclass(frozen=True, kw_only=True)
class GPTNeoConfig(GPTLikeConfig):
    """A GPT-Neo of any size. Scores are not scaled by the width of heads.

    Attributes:
      attention_pattern: a pattern, repeated over all layers.
      window_size: tokens that a token of a ``local`` layer sees, itself the last.
      activation: of the feed-forward layer.
      tie_word_embeddings: the output layer uses the table of words.
    """

    attention_pattern: tuple[AttentionType, ...] = ("global", "local")
    window_size: int = 256
    activation: Activation = "gelu_tanh"
    tie_word_embeddings: bool = True

    def __post_init__(self) -> None:
        if not self.attention_pattern or self.num_layers % len(self.attention_pattern):
            raise ValueError(
                f"num_layers={self.num_layers} is not a multiple of the length of attention_pattern="
                f"{self.attention_pattern}; change one of them"
            )

    @property
    def words(self) -> WordsConfig:
        """The output layer over the vocabulary."""
        return WordsConfig(tie_word_embeddings=self.tie_word_embeddings)

    @property
    def feed_forward(self) -> FeedForwardConfig:
        """A plain layer."""
        return replace(super().feed_forward, activation=self.activation)

    @property
    def init(self) -> Normal:
        """Fresh weights, all alike."""
        return Normal(0.02)

    def attention(self, layer: int) -> AttentionConfig:
        """Self-attention of ``layer``."""
        is_local = self.attention_pattern[layer % len(self.attention_pattern)] == "local"
        window = SlidingWindow(left=self.window_size - 1) if is_local else None
        return replace(super().attention(layer), attention_scale=1.0, in_bias=False, window=window)


_CLASSES: dict[str, ModelTask] = decoder_classes("GPTNeo")


def from_hugging_face(config: Mapping[str, Any]) -> GPTNeoConfig:
    """The configuration that a ``config.json`` of ``model_type`` gpt_neo describes.

    Raises:
      ValueError: a field is missing, unknown, or has a value that this model can't express; it is named.
    """
    fields = ConfigFields(config)
    fields.ignore("attention_dropout", "embed_dropout", "classifier_dropout")
    # Of a head for multiple choice, which none of the classes has.
    fields.ignore("summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels")
    fields.ignore("summary_first_dropout")
    model_dim, num_layers = fields.take("hidden_size"), fields.take("num_layers")
    ours = GPTNeoConfig(
        vocab_size=fields.take("vocab_size"),
        model_dim=model_dim,
        mlp_dim=fields.take("intermediate_size", 4 * model_dim),
        num_heads=fields.take("num_heads"),
        num_layers=num_layers,
        attention_pattern=_take_attention_pattern(fields, num_layers),
        window_size=fields.take("window_size", 256),
        max_position_embeddings=fields.take("max_position_embeddings", 2048),
        activation=fields.take_name("activation_function", ACTIVATION_NAMES, "gelu_new"),
        norm_epsilon=fields.take("layer_norm_epsilon", 1e-5),
        tie_word_embeddings=fields.take("tie_word_embeddings", True),
        task=task_of(config, _CLASSES, "base"),
        num_labels=num_labels_of(config),
        problem_type=problem_type_of(config),
        dropout_rate=fields.take("resid_dropout", 0.0),
    )
    fields.finish()
    return ours


def _take_attention_pattern(fields: ConfigFields, num_layers: int) -> tuple[AttentionType, ...]:
    """The shortest pattern of ``attention_types``, which may say it once or for every layer."""
    runs = fields.take("attention_types", [[["global", "local"], num_layers // 2]])
    layers = [reach for pattern, times in runs for _ in range(times) for reach in pattern]
    listed = fields.take("attention_layers", layers)
    unknown = {*layers, *listed} - {"global", "local"}
    if unknown or len(layers) != num_layers or listed != layers:
        raise ValueError(
            f"config.json: attention_types {runs} and attention_layers {listed} must say the same, global or local, of "
            f"each of the {num_layers} layers"
        )
    lengths = range(1, num_layers + 1)
    period = next(
        length
        for length in lengths
        if num_layers % length == 0 and layers == layers[:length] * (num_layers // length)
    )
    return tuple(layers[:period])


def to_hugging_face(config: GPTNeoConfig) -> dict[str, Any]:
    """The fields of a ``config.json``."""
    return {
        "activation_function": ACTIVATION_NAMES.theirs(config.activation),
        "architectures": [class_of(config.task, _CLASSES)],
        "attention_dropout": config.dropout_rate,
        "attention_types": [
            [list(config.attention_pattern), config.num_layers // len(config.attention_pattern)]
        ],
        "embed_dropout": config.dropout_rate,
        "hidden_size": config.model_dim,
        "intermediate_size": config.mlp_dim,
        "layer_norm_epsilon": config.norm_epsilon,
        "max_position_embeddings": config.max_position_embeddings,
        "model_type": "gpt_neo",
        "num_heads": config.num_heads,
        "num_labels": config.num_labels,
        "num_layers": config.num_layers,
        "resid_dropout": config.dropout_rate,
        "tie_word_embeddings": config.tie_word_embeddings,
        "torch_dtype": "float32",
        "vocab_size": config.vocab_size,
        "window_size": config.window_size,
    }


def hugging_face_weights(config: GPTNeoConfig) -> tuple[Weight, ...]:
    """Our weights by Hugging Face's names."""
    theirs = "transformer.h.{layer}"
    layer = [
        row
        for ours in ("query", "key", "value")
        for row in projection(f"self_attention/{ours}", f"{theirs}.attn.attention.{ours[0]}_proj")
    ]
    layer += [
        *dense("self_attention/out", f"{theirs}.attn.attention.out_proj"),
        *dense("feed_forward/up", f"{theirs}.mlp.c_fc"),
        *dense("feed_forward/down", f"{theirs}.mlp.c_proj"),
        *norm("around_self_attention/before", f"{theirs}.ln_1"),
        *norm("around_feed_forward/before", f"{theirs}.ln_2"),
    ]
    return (
        *gpt_rows(config.decoder, layer, words="transformer.wte", positions="transformer.wpe"),
        *norm("decoder/final_norm", "transformer.ln_f"),
    )


GPT_NEO = Architecture(
    name="gpt_neo",
    config_class=GPTNeoConfig,
    model_types=("gpt_neo",),
    classes=_CLASSES,
    from_hugging_face=from_hugging_face,
    to_hugging_face=to_hugging_face,
    hugging_face_weights=hugging_face_weights,
    prefix="transformer.",
    unused_weights=("*.attn.attention.bias", "*.attn.attention.masked_bias"),  # the causal mask
    special_ids={"bos_token_id": 50_256, "eos_token_id": 50_256},
)
