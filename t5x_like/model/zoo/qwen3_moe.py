"""Qwen 3's sparse models (Yang et al. 2025, https://arxiv.org/abs/2505.09388): Qwen 3's attention, and experts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from t5x_like.config_class import config_class
from t5x_like.model.layers.attention import AttentionConfig, QKNormConfig
from t5x_like.model.layers.router import SoftmaxRouter
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.decoder_like import decoder_classes
from t5x_like.model.zoo.llama_like_files import llama_like
from t5x_like.model.zoo.sparse_like import (
    IGNORED,
    SparseDecoderConfig,
    read_sparse,
    separate_experts,
    sparse_rows,
)


@config_class
class Qwen3MoeConfig(SparseDecoderConfig):
    """A sparse Qwen 3 of any size: ``SparseDecoderConfig`` and these fields. Each head's queries and keys are normed.

    ``mlp_dim`` is the inner width of dense layers. Without any, it is only exported.

    Attributes:
      moe_mlp_dim: Inner width of an expert.
      norm_topk_prob: Weights of a token's experts are divided by their sum.
      sparse_step: Every ``sparse_step``-th layer, counted from 1, is sparse.
      mlp_only_layers: Numbers of further dense layers, from 0 on.
      attention_bias: Adds a bias to all four projections of attention.
      sliding_window: Tokens that a token attends to, itself included; ``None`` for no limit.
    """

    head_dim: int | None = None
    num_experts: int = 128
    num_experts_per_token: int = 8
    moe_mlp_dim: int = 768
    norm_topk_prob: bool = False
    sparse_step: int = 1
    mlp_only_layers: tuple[int, ...] = ()
    attention_bias: bool = False
    sliding_window: int | None = None
    max_position_embeddings: int = 32_768

    def __post_init__(self) -> None:
        if not any(map(self.is_sparse, range(self.num_layers))):
            raise ValueError(
                f"sparse_step={self.sparse_step} and mlp_only_layers={self.mlp_only_layers} leave no sparse layer "
                f"among {self.num_layers}; take a Qwen3Config for a dense model"
            )
        beyond = [layer for layer in self.mlp_only_layers if layer >= self.num_layers]
        if beyond:
            raise ValueError(
                f"mlp_only_layers has {beyond[0]}; layers are numbered 0 to {self.num_layers - 1}"
            )
        super().__post_init__()

    def is_sparse(self, layer: int) -> bool:
        """Return whether ``layer``, counted from 0, has experts."""
        return layer not in self.mlp_only_layers and (layer + 1) % self.sparse_step == 0

    @property
    def expert_mlp_dim(self) -> int:
        """Inner width of an expert."""
        return self.moe_mlp_dim

    @property
    def router(self) -> SoftmaxRouter:
        """A softmax over all experts."""
        return SoftmaxRouter(norm_topk_prob=self.norm_topk_prob)

    def sliding_window_of(self, layer: int) -> int | None:  # noqa: ARG002 - the same in all layers
        """Return the window, which is the same in all layers."""
        return self.sliding_window

    def attention(self, layer: int) -> AttentionConfig:
        """Return the self-attention of ``layer``."""
        norm, bias = QKNormConfig(norm=self.norm), self.attention_bias
        return replace(super().attention(layer), qk_norm=norm, in_bias=bias, out_bias=bias)


def _read(fields: ConfigFields, _: object) -> dict[str, Any]:
    names = "num_experts", "num_local_experts"
    window = fields.take("sliding_window", None if "sliding_window" in fields.config else 4096)
    return {
        "moe_mlp_dim": fields.take("moe_intermediate_size", 768),
        "sparse_step": fields.take("decoder_sparse_step", 1),
        "mlp_only_layers": tuple(fields.take("mlp_only_layers", [])),
        "sliding_window": window if fields.take("use_sliding_window", False) else None,
        **read_sparse(fields, names, num_experts=128, num_experts_per_token=8),
    }


def _write(config: Qwen3MoeConfig) -> Mapping[str, object]:
    return {
        "num_experts": config.num_experts,
        "num_experts_per_tok": config.num_experts_per_token,
        "moe_intermediate_size": config.moe_mlp_dim,
        "decoder_sparse_step": config.sparse_step,
        "mlp_only_layers": list(config.mlp_only_layers),
        "use_sliding_window": config.sliding_window is not None,
        "sliding_window": config.sliding_window,
    }


QWEN3_MOE = llama_like(
    "qwen3_moe",
    Qwen3MoeConfig,
    decoder_classes("Qwen3Moe"),
    own_fields=("attention_bias", "norm_topk_prob", "router_aux_loss_coef"),
    read=_read,
    write=_write,
    num_kv_heads=4,
    ignored=(*IGNORED, "max_window_layers"),  # transformers gives all layers the window
    feed_forward=sparse_rows,
    separate=separate_experts,
    special_ids={},
)
