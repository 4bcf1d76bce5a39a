"""GPT (Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training")."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax

from t5x_like.model.families.decoder import Decoder, DecoderConfig
from t5x_like.model.heads import WordsConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig, LearnedPositions
from t5x_like.model.layers.feed_forward import Activation
from t5x_like.model.layers.stack import Remat, StackConfig
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.config_fields import ConfigFields, NameTable
from t5x_like.model.zoo.decoder_parts import heads_of_decoder
from t5x_like.model.zoo.gpt2 import gpt_block, gpt_fields, gpt_rows, layer_rows, take_gpt
from t5x_like.model.zoo.model_tasks import ModelTask, ProblemType
from t5x_like.model.zoo.weights import Weight


@dataclass(frozen=True, kw_only=True)
class OpenAIGPTConfig:
    """A GPT of any size: norms after each residual, as in the first Transformer, and none at the end."""

    vocab_size: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    num_layers: int
    max_position_embeddings: int = 512
    activation: Activation = "gelu_tanh"
    norm_epsilon: float = 1e-5
    task: ModelTask = "causal_lm"
    num_labels: int = 2
    problem_type: ProblemType | None = None
    dropout_rate: float = 0.0
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    remat: Remat = "none"
    pad_vocab_to_multiple_of: int = 128

    def build(self, key: jax.Array) -> Decoder:
        """The model with fresh weights."""
        return Decoder(self.decoder, key=key)

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words and positions."""
        return EmbeddingsConfig(
            vocab_size=self.vocab_size,
            embed_dim=self.model_dim,
            positions=LearnedPositions(max_position_embeddings=self.max_position_embeddings),
            stddev=0.02,
            pad_vocab_to_multiple_of=self.pad_vocab_to_multiple_of,
        )

    @property
    def decoder(self) -> DecoderConfig:
        """The model's parts."""
        block = gpt_block(
            model_dim=self.model_dim,
            mlp_dim=self.mlp_dim,
            attention=AttentionConfig(
                num_heads=self.num_heads,
                head_dim=self.model_dim // self.num_heads,
                in_bias=True,
                out_bias=True,
            ),
            activation=self.activation,
            norm_epsilon=self.norm_epsilon,
            norm_slots=("final",),
            dropout_rate=self.dropout_rate,
        )
        return DecoderConfig(
            embeddings=self.embeddings,
            stack=StackConfig(blocks=(block,) * self.num_layers, remat=self.remat),
            heads=heads_of_decoder(self.task, self.num_labels, WordsConfig(tie_word_embeddings=True)),
            compute_dtype=self.compute_dtype,
        )


_CLASSES: dict[str, ModelTask] = {
    "OpenAIGPTLMHeadModel": "causal_lm",
    "OpenAIGPTForSequenceClassification": "sequence_classification",
    "OpenAIGPTModel": "base",
}

# Their "gelu" is the approximation by a tanh, as in the paper's code.
_ACTIVATION_NAMES = NameTable({"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"})


def from_hugging_face(config: Mapping[str, Any]) -> OpenAIGPTConfig:
    """The configuration that a ``config.json`` of ``model_type`` openai-gpt describes.

    Raises:
      ValueError: a field is missing, unknown, or has a value that this model can't express; it is named.
    """
    fields = ConfigFields(config)
    fields.must_be("tie_word_embeddings", True)
    common = take_gpt(config, fields, _CLASSES, max_position_embeddings=512)
    ours = OpenAIGPTConfig(
        **common,
        mlp_dim=4 * common["model_dim"],
        activation=fields.take_name("afn", _ACTIVATION_NAMES, "gelu"),
    )
    fields.finish()
    return ours


def to_hugging_face(config: OpenAIGPTConfig) -> dict[str, Any]:
    """The fields of a ``config.json``.

    Raises:
      ValueError: they have no place for something in ``config``.
    """
    if config.mlp_dim != 4 * config.model_dim:
        raise ValueError(
            f"mlp_dim={config.mlp_dim} can't be written: openai-gpt's is 4 times model_dim={config.model_dim}"
        )
    return {
        **gpt_fields(config, _CLASSES, "openai-gpt"),
        "afn": _ACTIVATION_NAMES.theirs(config.activation),
    }


def hugging_face_weights(config: OpenAIGPTConfig) -> tuple[Weight, ...]:
    """Our weights by Hugging Face's names."""
    return gpt_rows(
        config.decoder,
        layer_rows(config.model_dim, "final"),
        words="transformer.tokens_embed",
        positions="transformer.positions_embed",
    )


OPENAI_GPT = Architecture(
    name="openai_gpt",
    config_class=OpenAIGPTConfig,
    model_types=("openai-gpt",),
    classes=_CLASSES,
    from_hugging_face=from_hugging_face,
    to_hugging_face=to_hugging_face,
    hugging_face_weights=hugging_face_weights,
    prefix="transformer.",
    unused_weights=("*.attn.bias", "*position_ids"),  # the causal mask, and numbers from 0 on
    special_ids={},
)
