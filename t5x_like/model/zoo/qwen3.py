"""Qwen 3 (Yang et al. 2025, https://arxiv.org/abs/2505.09388): Llama's block with normed queries and keys."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax

from t5x_like.model.families.decoder import Decoder, DecoderConfig
from t5x_like.model.heads import WordsConfig
from t5x_like.model.layers.activations import Activation
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import FeedForwardConfig
from t5x_like.model.layers.initialise import Normal
from t5x_like.model.layers.norm import RMSNormConfig
from t5x_like.model.layers.rotary import Rotary, RotaryScaling
from t5x_like.model.layers.stack import Rematerialisation, StackConfig
from t5x_like.model.zoo.hugging_face import ACTIVATION_NAMES, HuggingFaceFields
from t5x_like.model.zoo.rotary_decoders import (
    classes_of,
    common_fields,
    heads_of_decoder,
    late_window_fields,
    pre_norm_rows,
    sliding,
    take_common,
    take_kv_heads,
    take_late_windows,
    take_rotation,
)
from t5x_like.model.zoo.tasks import Problem, Task
from t5x_like.model.zoo.weights import Weight


@dataclass(frozen=True, kw_only=True)
class Qwen3Config:
    """A Qwen 3 of any size. Each head's queries and keys are normed before they are rotated.

    Layers from ``windowed_from`` on see ``window`` tokens, the query's own among them; with ``None`` all see all.
    Fields without a word here are those of ``LlamaConfig``.
    """

    vocab_size: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    num_layers: int
    num_kv_heads: int | None = None
    head_dim: int = 128
    window: int | None = None
    windowed_from: int = 0
    activation: Activation = "silu"
    attention_bias: bool = False
    theta: float = 10_000.0
    scaling: RotaryScaling | None = None
    num_positions: int = 32_768
    norm_epsilon: float = 1e-6
    tied: bool = False
    task: Task = "causal_lm"
    num_labels: int = 2
    problem: Problem | None = None
    dropout_rate: float = 0.0
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    rematerialisation: Rematerialisation = "none"
    vocab_multiple: int = 128

    def build(self, key: jax.Array) -> Decoder:
        """The model with fresh weights."""
        return Decoder(self.decoder, key=key)

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words alone."""
        return EmbeddingsConfig(
            vocab_size=self.vocab_size,
            embed_dim=self.model_dim,
            stddev=0.02,
            vocab_multiple=self.vocab_multiple,
        )

    @property
    def decoder(self) -> DecoderConfig:
        """The model's parts."""
        norm = RMSNormConfig(epsilon=self.norm_epsilon)
        windows = (None if layer < self.windowed_from else self.window for layer in range(self.num_layers))
        return DecoderConfig(
            embeddings=self.embeddings,
            stack=StackConfig(
                blocks=tuple(self._block(norm, window) for window in windows),
                final_norm=norm,
                rematerialisation=self.rematerialisation,
            ),
            heads=heads_of_decoder(self.task, self.num_labels, WordsConfig(tied=self.tied)),
            compute_dtype=self.compute_dtype,
        )

    def _block(self, norm: RMSNormConfig, window: int | None) -> BlockConfig:
        return BlockConfig(
            model_dim=self.model_dim,
            attention=AttentionConfig(
                num_heads=self.num_heads,
                num_kv_heads=self.num_kv_heads,
                head_dim=self.head_dim,
                query_key_norm=norm,
                in_bias=self.attention_bias,
                out_bias=self.attention_bias,
                positions=Rotary(rotated_dim=self.head_dim, theta=self.theta, scaling=self.scaling),
                window=sliding(window),
            ),
            feed_forward=FeedForwardConfig(mlp_dim=self.mlp_dim, activation=self.activation, gated=True),
            norm=norm,
            dropout_rate=self.dropout_rate,
            init=Normal(0.02),
        )


HUGGING_FACE_CLASSES: dict[str, Task] = classes_of("Qwen3")

# What names in files begin with, unless they are those of a model without a head.
HUGGING_FACE_PREFIX = "model."
HUGGING_FACE_OTHER_PREFIXES = ("transformer.",)  # of the class that answers questions

HUGGING_FACE_UNUSED = ("*.rotary_emb.inv_freq",)

# Where a config.json has none.
HUGGING_FACE_SPECIAL_IDS: dict[str, int] = {}


def from_hugging_face(config: Mapping[str, Any]) -> Qwen3Config:
    """The configuration that a ``config.json`` of ``model_type`` qwen3 describes.

    Raises:
      ValueError: a field is missing, unknown, or has a value that this model can't express; it is named.
    """
    fields = HuggingFaceFields(config)
    common = take_common(config, fields, HUGGING_FACE_CLASSES, num_positions=32_768)
    ours = Qwen3Config(
        **common,
        **take_rotation(fields, common["num_positions"]),
        num_kv_heads=take_kv_heads(config, fields, 32),
        head_dim=fields.take("head_dim", 128),
        attention_bias=fields.take("attention_bias", False),
        **take_late_windows(config, fields, common["num_layers"]),
        activation=fields.take_name("hidden_act", ACTIVATION_NAMES, "silu"),
    )
    fields.finish()
    return ours


def to_hugging_face(config: Qwen3Config) -> dict[str, Any]:
    """The fields of a ``config.json``."""
    return {
        **common_fields(config, HUGGING_FACE_CLASSES, "qwen3"),
        "attention_bias": config.attention_bias,
        "head_dim": config.head_dim,
        "hidden_act": ACTIVATION_NAMES.theirs(config.activation),
        **late_window_fields(config.window, config.windowed_from),
    }


def hugging_face_weights(config: Qwen3Config) -> tuple[Weight, ...]:
    """Our weights by Hugging Face's names."""
    return pre_norm_rows(config.decoder, answering=HUGGING_FACE_OTHER_PREFIXES[0])
