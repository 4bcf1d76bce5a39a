"""Gemma (Gemma Team 2024, https://arxiv.org/abs/2403.08295): zero-centered norms, scaled words, a GELU gate."""

from dataclasses import replace

from t5x_like.config_class import config_class
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import Activation
from t5x_like.model.layers.norm import RMSNormConfig
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, ConfigFields
from t5x_like.model.zoo.decoder_like import decoder_classes
from t5x_like.model.zoo.llama_like import LlamaLikeConfig
from t5x_like.model.zoo.llama_like_files import llama_like

SPECIAL_IDS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 1}


@config_class
class GemmaConfig(LlamaLikeConfig):
    """A Gemma of any size: ``LlamaLikeConfig`` and one field. Word embeddings are scaled and tied to the output.

    Attributes:
      attention_bias: Adds a bias to all four projections of attention.
    """

    head_dim: int = 256
    attention_bias: bool = False
    activation: Activation = "gelu_tanh"
    max_position_embeddings: int = 8192
    tie_word_embeddings: bool = True

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words, multiplied by the square root of the width."""
        return replace(super().embeddings, scale=self.model_dim**0.5)

    @property
    def norm(self) -> RMSNormConfig:
        """Type of all norms, which scale by 1 + weight."""
        return replace(super().norm, zero_centered=True)

    def attention(self, layer: int) -> AttentionConfig:
        """Return the self-attention of ``layer``."""
        return replace(super().attention(layer), in_bias=self.attention_bias, out_bias=self.attention_bias)


def _read(fields: ConfigFields, _: object) -> dict[str, object]:
    """Read ``hidden_act``, by which "gelu" means GELU's approximation, next to ``hidden_activation``.

    transformers 5 uses the first, 4 the second.

    Raises:
      ValueError: Both are there and name different functions, or ``hidden_act`` is not known.
    """
    refuse_bidirectional(fields)
    name, other = fields.config.get("hidden_act"), fields.config.get("hidden_activation")
    fields.ignore("hidden_act")
    if name is None:
        return {}
    if name not in ACTIVATION_NAMES:
        raise ValueError(f"config.json: hidden_act is {name!r}; {', '.join(ACTIVATION_NAMES)} are supported")
    activation = "gelu_tanh" if name == "gelu" else ACTIVATION_NAMES[name]
    if other is not None and ACTIVATION_NAMES[other] != activation:
        raise ValueError(
            f"config.json: hidden_act is {name!r}, which means {activation} here and is what transformers 5 computes, "
            f"and hidden_activation is {other!r}, which transformers 4 computes; give both the function that the model "
            "was trained with"
        )
    return {"activation": activation}


def _write(config: GemmaConfig) -> dict[str, object]:
    exact = config.activation == "gelu"
    return {"hidden_act": "gelu_python" if exact else ACTIVATION_NAMES.hf_name(config.activation)}


def refuse_bidirectional(fields: ConfigFields) -> None:
    """Raise ValueError if the fields describe an encoder."""
    if fields.take("use_bidirectional_attention", False):
        raise ValueError("config.json: use_bidirectional_attention is true; only decoders are supported")


GEMMA = llama_like(
    "gemma",
    GemmaConfig,
    decoder_classes("Gemma", question_answering=False),
    own_fields=("attention_bias",),
    read=_read,
    write=_write,
    num_kv_heads=16,
    activation="hidden_activation",
    special_ids=SPECIAL_IDS,
)
