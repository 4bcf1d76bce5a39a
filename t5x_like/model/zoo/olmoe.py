"""OLMoE (Muennighoff et al. 2024, https://arxiv.org/abs/2409.02060): small experts, with norms inside attention."""

from collections.abc import Mapping
from dataclasses import replace

from t5x_like.config_class import config_class
from t5x_like.model.layers.attention import AttentionConfig, QKNormConfig
from t5x_like.model.layers.router import SoftmaxRouter
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.llama_like_files import llama_like
from t5x_like.model.zoo.sparse_like import (
    IGNORED,
    SparseDecoderConfig,
    read_sparse,
    separate_experts,
    sparse_rows,
)


@config_class
class OlmoeConfig(SparseDecoderConfig):
    """An OLMoE of any size: ``SparseDecoderConfig`` and these fields.

    Queries and keys of all heads are normalized together (§4.2.5).

    Attributes:
      norm_topk_prob: Weights of a token's experts are divided by their sum.
      clip_qkv: Limit of queries, keys and values (see ``AttentionConfig``); ``None`` for none.
      attention_bias: Adds a bias to all four projections of attention.
    """

    num_experts: int = 64
    num_experts_per_token: int = 8
    norm_topk_prob: bool = False
    clip_qkv: float | None = None
    attention_bias: bool = False
    router_aux_loss_coef: float = 0.01
    max_position_embeddings: int = 4096
    norm_epsilon: float = 1e-5

    @property
    def router(self) -> SoftmaxRouter:
        """A softmax over all experts."""
        return SoftmaxRouter(norm_topk_prob=self.norm_topk_prob)

    def attention(self, layer: int) -> AttentionConfig:
        """Return the self-attention of ``layer``."""
        return replace(
            super().attention(layer),
            qk_norm=QKNormConfig(norm=self.norm, over="all_heads"),
            clip_qkv=self.clip_qkv,
            in_bias=self.attention_bias,
            out_bias=self.attention_bias,
        )


def _read(fields: ConfigFields, _: object) -> dict[str, object]:
    names = "num_experts", "num_local_experts"
    clip = fields.take("clip_qkv", 0.0)
    return {
        "clip_qkv": None if fields.config.get("clip_qkv") is None else clip,
        **read_sparse(fields, names, num_experts=64, num_experts_per_token=8),
    }


def _write(config: OlmoeConfig) -> Mapping[str, object]:
    return {
        "num_experts": config.num_experts,
        "num_experts_per_tok": config.num_experts_per_token,
        "clip_qkv": config.clip_qkv,
    }


OLMOE = llama_like(
    "olmoe",
    OlmoeConfig,
    {"OlmoeForCausalLM": "causal_lm", "OlmoeModel": "base"},
    own_fields=("attention_bias", "norm_topk_prob", "router_aux_loss_coef"),
    read=_read,
    write=_write,
    ignored=IGNORED,
    feed_forward=sparse_rows,
    separate=separate_experts,
    special_ids={"pad_token_id": 1, "eos_token_id": 50_279},
)
