"""GPT (Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training")."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.feed_forward import Activation, FeedForwardConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.config_fields import ConfigFields, NameTable
from t5x_like.model.zoo.gpt2 import gpt_fields, gpt_rows, layer_rows, take_gpt
from t5x_like.model.zoo.gpt_like import GPTLikeConfig
from t5x_like.model.zoo.model_tasks import ModelTask
from t5x_like.model.zoo.weights import Weight


@dataclass(frozen=True, kw_only=True)
class OpenAIGPTConfig(GPTLikeConfig):
    """A GPT of any size: norms after each residual, as in the first Transformer, and none at the end.

    Attributes:
      activation: of the feed-forward layer.
    """

    max_position_embeddings: int = 512
    activation: Activation = "gelu_tanh"

    @property
    def feed_forward(self) -> FeedForwardConfig:
        """A plain layer."""
        return replace(super().feed_forward, activation=self.activation)

    @property
    def final_norm(self) -> None:
        """There is none."""

    @property
    def init(self) -> Normal:
        """Fresh weights, all alike."""
        return Normal(0.02)

    def block(self, layer: int) -> BlockConfig:
        """The block of ``layer``."""
        return replace(super().block(layer), attention_norms=("final",), feed_forward_norms=("final",))


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
