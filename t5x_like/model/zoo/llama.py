"""Llama (Touvron et al. 2023, https://arxiv.org/abs/2302.13971), Llama 2 and Llama 3 (Dubey et al. 2024)."""

from dataclasses import replace

from t5x_like.config_class import config_class
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.feed_forward import FeedForwardConfig
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.decoder_like import decoder_classes
from t5x_like.model.zoo.llama_like import LlamaLikeConfig
from t5x_like.model.zoo.llama_like_files import llama_like


@config_class
class LlamaConfig(LlamaLikeConfig):
    """A Llama of any size and generation: ``LlamaLikeConfig`` and these fields.

    Attributes:
      attention_bias: Adds a bias to all four projections of attention.
      mlp_bias: Adds a bias to all projections of the feed-forward layer.
    """

    attention_bias: bool = False
    mlp_bias: bool = False

    @property
    def feed_forward(self) -> FeedForwardConfig:
        """Gated feed-forward layer."""
        return replace(super().feed_forward, bias=self.mlp_bias)

    def attention(self, layer: int) -> AttentionConfig:
        """Return the self-attention of ``layer``."""
        return replace(super().attention(layer), in_bias=self.attention_bias, out_bias=self.attention_bias)


def _read(fields: ConfigFields, _: object) -> dict[str, object]:
    fields.ignore("pretraining_tp")  # computes the same in another order
    return {}


LLAMA = llama_like(
    "llama",
    LlamaConfig,
    decoder_classes("Llama"),
    own_fields=("attention_bias", "mlp_bias"),
    read=_read,
    qa_prefix="transformer.",
    special_ids={"bos_token_id": 1, "eos_token_id": 2},
)
