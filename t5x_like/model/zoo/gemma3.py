"""Gemma 3, text alone (Gemma Team 2025, https://arxiv.org/abs/2503.19786): five of six layers have a window."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from t5x_like.config_class import config_class
from t5x_like.model.heads import LMHeadConfig
from t5x_like.model.layers.attention import AttentionConfig, QKNormConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.gemma import SPECIAL_IDS, GemmaConfig, refuse_bidirectional
from t5x_like.model.zoo.gemma2 import NORMS, whole_number
from t5x_like.model.zoo.layer_types import (
    FULL,
    SLIDING,
    LayerType,
    LayerTypesConfig,
    read_layer_ropes,
    take_layer_types,
    write_layer_types,
)
from t5x_like.model.zoo.llama_like_files import llama_like


@config_class
class Gemma3Config(GemmaConfig, LayerTypesConfig):
    """A Gemma 3 of any size: ``GemmaConfig``, ``LayerTypesConfig`` and these fields.

    Each layer has norms before and after. Queries and keys are normalized.

    Attributes:
      query_pre_attn_scalar: Attention scores are multiplied by ``query_pre_attn_scalar ** -0.5``.
      attention_logit_soft_cap: Replaces attention scores ``s`` by ``cap * tanh(s / cap)``; ``None`` leaves them.
      final_logit_soft_cap: Replaces logits ``s`` of the output layer by ``cap * tanh(s / cap)``; ``None`` leaves them.
    """

    query_pre_attn_scalar: float = 256.0
    attention_logit_soft_cap: float | None = None
    final_logit_soft_cap: float | None = None
    layer_types: tuple[LayerType, ...] = (SLIDING, SLIDING, SLIDING, SLIDING, SLIDING, FULL)
    sliding_window: int = 4096
    rope_theta: float = 1_000_000.0
    local_rope_theta: float = 10_000.0
    max_position_embeddings: int = 131_072

    @property
    def lm_head(self) -> LMHeadConfig:
        """Output layer, whose logits may be capped."""
        return replace(super().lm_head, final_logit_soft_cap=self.final_logit_soft_cap)

    def attention(self, layer: int) -> AttentionConfig:
        """Return the self-attention of ``layer``."""
        return replace(
            super().attention(layer),
            qk_norm=QKNormConfig(norm=self.norm),
            attention_scale=self.query_pre_attn_scalar**-0.5,
            attention_logit_soft_cap=self.attention_logit_soft_cap,
        )

    def block(self, layer: int) -> BlockConfig:
        """Return the block of ``layer``, with four norms."""
        norms = ("before", "after")
        return replace(super().block(layer), attention_norms=norms, feed_forward_norms=norms)


def _read(fields: ConfigFields, values: Mapping[str, Any]) -> dict[str, Any]:
    fields.ignore("cache_implementation", "hidden_act")
    refuse_bidirectional(fields)
    # The second name is that of files which transformers 5 writes.
    every = fields.take("sliding_window_pattern", fields.take("_sliding_window_pattern", 6))
    if every < 1:
        raise ValueError(f"config.json: sliding_window_pattern is {every}; give a positive number")
    return {
        **take_layer_types(fields, values["num_layers"], (*(SLIDING,) * (every - 1), FULL)),
        "attention_logit_soft_cap": fields.take("attn_logit_softcapping", 0.0) or None,
        "final_logit_soft_cap": fields.take("final_logit_softcapping", 0.0) or None,
    }


GEMMA3 = llama_like(
    "gemma3",
    Gemma3Config,
    {
        "Gemma3ForCausalLM": "causal_lm",
        "Gemma3TextForSequenceClassification": "sequence_classification",
        "Gemma3TextModel": "base",
    },
    model_type="gemma3_text",
    own_fields=("attention_bias", "query_pre_attn_scalar", "sliding_window"),
    read=_read,
    write=lambda config: {
        **write_layer_types(config),
        "rope_local_base_freq": config.local_rope_theta,
        "attn_logit_softcapping": config.attention_logit_soft_cap,
        "final_logit_softcapping": config.final_logit_soft_cap,
        "query_pre_attn_scalar": whole_number(config.query_pre_attn_scalar),
    },
    rope=read_layer_ropes,
    num_kv_heads=4,
    activation="hidden_activation",
    norms=NORMS,
    special_ids=SPECIAL_IDS,
)
