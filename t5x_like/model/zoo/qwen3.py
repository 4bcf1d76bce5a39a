"""Qwen 3's dense models (Yang et al. 2025, https://arxiv.org/abs/2505.09388): Qwen 2 with normed queries and keys."""

from dataclasses import dataclass, replace

from t5x_like.model.layers.attention import AttentionConfig, QKNormConfig
from t5x_like.model.zoo.decoder_parts import decoder_classes
from t5x_like.model.zoo.llama_like_files import llama_like
from t5x_like.model.zoo.qwen2 import Qwen2Config, put_late_windows, take_late_windows


@dataclass(frozen=True, kw_only=True)
class Qwen3Config(Qwen2Config):
    """A Qwen 3 of any size. Each head's queries and keys are normed before they are rotated.

    Attributes:
      attention_bias: gives all four projections of attention a bias.
    """

    head_dim: int = 128
    attention_bias: bool = False

    def attention(self, layer: int) -> AttentionConfig:
        """Self-attention of ``layer``."""
        norm, bias = QKNormConfig(norm=self.norm), self.attention_bias
        return replace(super().attention(layer), qk_norm=norm, in_bias=bias, out_bias=bias)


QWEN3 = llama_like(
    "qwen3",
    Qwen3Config,
    decoder_classes("Qwen3"),
    own_fields={"attention_bias": "attention_bias"},
    take=take_late_windows,
    put=put_late_windows,
    num_kv_heads=32,
    answering="transformer.",
    special_ids={},
)
