"""Qwen 3's dense models (Yang et al. 2025, https://arxiv.org/abs/2505.09388): Qwen 2 with normed queries and keys."""

from dataclasses import replace

from t5x_like.config_class import config_class
from t5x_like.model.layers.attention import AttentionConfig, QKNormConfig
from t5x_like.model.zoo.decoder_like import decoder_classes
from t5x_like.model.zoo.llama_like_files import llama_like
from t5x_like.model.zoo.qwen2 import Qwen2Config, read_late_windows, write_late_windows


@config_class
class Qwen3Config(Qwen2Config):
    """A Qwen 3 of any size: ``Qwen2Config`` and one field. Each head's queries and keys are normalized.

    Attributes:
      attention_bias: Adds a bias to all four projections of attention.
    """

    head_dim: int = 128
    attention_bias: bool = False

    def attention(self, layer: int) -> AttentionConfig:
        """Return the self-attention of ``layer``."""
        norm, bias = QKNormConfig(norm=self.norm), self.attention_bias
        return replace(super().attention(layer), qk_norm=norm, in_bias=bias, out_bias=bias)


QWEN3 = llama_like(
    "qwen3",
    Qwen3Config,
    decoder_classes("Qwen3"),
    own_fields=("attention_bias",),
    read=read_late_windows,
    write=write_late_windows,
    num_kv_heads=32,
    qa_prefix="transformer.",
    special_ids={},
)
