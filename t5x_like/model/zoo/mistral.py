"""Mistral 7B (Jiang et al. 2023, https://arxiv.org/abs/2310.06825): Llama's block, looking back over a window."""

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
    head_dim_field,
    heads_of_decoder,
    pre_norm_rows,
    sliding,
    take_common,
    take_kv_heads,
    take_rotation,
)
from t5x_like.model.zoo.tasks import Problem, Task
from t5x_like.model.zoo.weights import Weight


@dataclass(frozen=True, kw_only=True)
class MistralConfig:
    """A Mistral of any size; ``window`` tokens are seen, the query's own among them, or all with ``None``.

    Fields without a word here are those of ``LlamaConfig``.
    """

    vocab_size: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    num_layers: int
    num_kv_heads: int | None = None
    head_dim: int | None = None
    window: int | None = None
    activation: Activation = "silu"
    theta: float = 10_000.0
    scaling: RotaryScaling | None = None
    num_positions: int = 131_072
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
        head_dim = self.head_dim or self.model_dim // self.num_heads
        block = BlockConfig(
            model_dim=self.model_dim,
            attention=AttentionConfig(
                num_heads=self.num_heads,
                num_kv_heads=self.num_kv_heads,
                head_dim=head_dim,
                positions=Rotary(rotated_dim=head_dim, theta=self.theta, scaling=self.scaling),
                window=sliding(self.window),
            ),
            feed_forward=FeedForwardConfig(mlp_dim=self.mlp_dim, activation=self.activation, gated=True),
            norm=norm,
            dropout_rate=self.dropout_rate,
            init=Normal(0.02),
        )
        return DecoderConfig(
            embeddings=self.embeddings,
            stack=StackConfig(
                blocks=(block,) * self.num_layers, final_norm=norm, rematerialisation=self.rematerialisation
            ),
            heads=heads_of_decoder(self.task, self.num_labels, WordsConfig(tied=self.tied)),
            compute_dtype=self.compute_dtype,
        )


HUGGING_FACE_CLASSES: dict[str, Task] = classes_of("Mistral")

# What names in files begin with, unless they are those of a model without a head.
HUGGING_FACE_PREFIX = "model."

HUGGING_FACE_UNUSED = ("*.rotary_emb.inv_freq",)

# Where a config.json has none.
HUGGING_FACE_SPECIAL_IDS = {"bos_token_id": 1, "eos_token_id": 2}


def from_hugging_face(config: Mapping[str, Any]) -> MistralConfig:
    """The configuration that a ``config.json`` of ``model_type`` mistral describes.

    Raises:
      ValueError: a field is missing, unknown, or has a value that this model can't express; it is named.
    """
    fields = HuggingFaceFields(config)
    common = take_common(config, fields, HUGGING_FACE_CLASSES, num_positions=131_072)
    ours = MistralConfig(
        **common,
        **take_rotation(fields, common["num_positions"]),
        num_kv_heads=take_kv_heads(config, fields, 8),
        head_dim=fields.take("head_dim", None),
        # Absent it is 4096 tokens in transformers; null it is none.
        window=fields.take("sliding_window", None if "sliding_window" in config else 4096),
        activation=fields.take_name("hidden_act", ACTIVATION_NAMES, "silu"),
    )
    fields.finish()
    return ours


def to_hugging_face(config: MistralConfig) -> dict[str, Any]:
    """The fields of a ``config.json``."""
    return {
        **common_fields(config, HUGGING_FACE_CLASSES, "mistral"),
        **head_dim_field(config.head_dim),
        "hidden_act": ACTIVATION_NAMES.theirs(config.activation),
        "sliding_window": config.window,
    }


def hugging_face_weights(config: MistralConfig) -> tuple[Weight, ...]:
    """Our weights by Hugging Face's names."""
    return pre_norm_rows(config.decoder)
