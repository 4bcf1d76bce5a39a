"""DeepSeek-V3 (DeepSeek-AI 2024, https://arxiv.org/abs/2412.19437): latent attention, and grouped sigmoid routing.

Weights that predict several tokens (§2.2) are neither read nor written, as in transformers; runs may train some.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from t5x_like.config_class import config_class, refuse_unused
from t5x_like.model.families.decoder import DecoderConfig
from t5x_like.model.families.multi_token_prediction import MultiTokenConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.latent_attention import LatentAttentionConfig
from t5x_like.model.layers.mixture_of_experts import MixtureOfExpertsConfig
from t5x_like.model.layers.norm import RMSNormConfig
from t5x_like.model.layers.rotary import Rotary, YarnScaling
from t5x_like.model.layers.router import SigmoidRouter
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
from t5x_like.model.zoo.weights import Weight, module_rows

# transformers norms both latent vectors with this epsilon, whatever rms_norm_eps is.
_LATENT_NORM = RMSNormConfig(epsilon=1e-6)


@config_class
class DeepseekV3Config(SparseDecoderConfig):
    """A DeepSeek-V3 of any size: ``SparseDecoderConfig`` and these fields, named as Hugging Face names them.

    ``mlp_dim`` is the inner width of dense layers. Without any, it is only exported. Widths of heads are those of
    latent attention: ``num_kv_heads`` and ``head_dim`` are left out.

    Attributes:
      router_aux_loss_coef: Weight of the load-balancing loss of each layer, which compares loads within a row (α of
        eq. 17; 0.0001 in §4.2).
      router_bias_update_rate: Change of the bias by which experts are chosen (see ``SigmoidRouter``).
      moe_mlp_dim: Inner width of an expert.
      num_shared_experts: Experts that all tokens use besides; 0 for none.
      first_k_dense_replace: Dense layers before those with experts.
      norm_topk_prob: Weights of a token's experts are divided by their sum.
      routed_scaling_factor: Multiplies these weights.
      n_group: Groups of experts (see ``SigmoidRouter``).
      topk_group: Groups that a token chooses from.
      q_lora_rank: Width of the vector that queries come from; ``None`` for none (see ``LatentAttentionConfig``).
      kv_lora_rank: Width of the latent vectors of keys and values.
      qk_nope_head_dim: Part of each head's queries and keys without positions.
      qk_rope_head_dim: Part of them with rotary positions.
      v_head_dim: Width of a head's values.
      rope_interleave: Rotated pairs are neighboring dimensions.
      attention_bias: Adds a bias to the projections from and to hidden states.
      num_nextn_predict_layers: Tokens after the next one that training predicts, too, each by a block of its own
        (§2.2). They are neither read nor written, as in transformers.
      mtp_loss_weight: Weight of their loss (λ of eq. 25).
    """

    num_experts: int = 256
    num_experts_per_token: int = 8
    router_aux_loss_coef: float = 0.0001
    router_bias_update_rate: float = 0.001
    moe_mlp_dim: int = 2048
    num_shared_experts: int = 1
    first_k_dense_replace: int = 3
    norm_topk_prob: bool = True
    routed_scaling_factor: float = 2.5
    n_group: int = 8
    topk_group: int = 4
    q_lora_rank: int | None = 1536
    kv_lora_rank: int = 512
    qk_nope_head_dim: int = 128
    qk_rope_head_dim: int = 64
    v_head_dim: int = 128
    rope_interleave: bool = True
    attention_bias: bool = False
    num_nextn_predict_layers: int = 0
    mtp_loss_weight: float = 0.3
    max_position_embeddings: int = 4096

    def __post_init__(self) -> None:
        because = (
            "widths of latent attention are kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim and v_head_dim"
        )
        refuse_unused(self, "num_kv_heads", "head_dim", because=because)
        if self.first_k_dense_replace >= self.num_layers:
            raise ValueError(
                f"first_k_dense_replace={self.first_k_dense_replace} leaves no sparse layer among {self.num_layers}; "
                "lower it"
            )
        if not self.num_nextn_predict_layers:
            refuse_unused(self, "mtp_loss_weight", because="num_nextn_predict_layers=0")
        elif self.task != "causal_lm":
            raise ValueError(
                f"num_nextn_predict_layers={self.num_nextn_predict_layers} predicts tokens, and the task is "
                f"{self.task}; give 0"
            )
        super().__post_init__()

    def is_sparse(self, layer: int) -> bool:
        """Return whether ``layer``, counted from 0, has experts."""
        return layer >= self.first_k_dense_replace

    @property
    def expert_mlp_dim(self) -> int:
        """Inner width of an expert."""
        return self.moe_mlp_dim

    @property
    def shared_mlp_dim(self) -> int | None:
        """Inner width of all shared experts together."""
        return self.moe_mlp_dim * self.num_shared_experts or None

    @property
    def router(self) -> SigmoidRouter:
        """Sigmoids, groups of experts, and a bias for choosing (§2.1.2)."""
        return SigmoidRouter(
            norm_topk_prob=self.norm_topk_prob,
            routed_scaling_factor=self.routed_scaling_factor,
            n_group=self.n_group,
            topk_group=self.topk_group,
            bias_update_rate=self.router_bias_update_rate,
        )

    @property
    def experts(self) -> MixtureOfExpertsConfig:
        """Experts of a sparse layer, whose loss is that of each row."""
        return replace(super().experts, balance_weight=self.router_aux_loss_coef, balance_scope="row")

    @property
    def rotary(self) -> Rotary:
        """Rotary positions of a part of queries and keys."""
        return Rotary(
            rotated_dim=self.qk_rope_head_dim,
            rope_theta=self.rope_theta,
            rope_scaling=self.rope_scaling,
            interleaved=self.rope_interleave,
        )

    @property
    def resolved_head_dim(self) -> int:
        """Width of a head's queries and keys."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    @property
    def latent_attention(self) -> LatentAttentionConfig:
        """Self-attention of all layers."""
        scale, scaling = self.resolved_head_dim**-0.5, self.rope_scaling
        if isinstance(scaling, YarnScaling) and scaling.mscale_all_dim:
            scale *= scaling.growth_of(scaling.mscale_all_dim) ** 2
        return LatentAttentionConfig(
            num_heads=self.num_heads,
            q_lora_rank=self.q_lora_rank,
            kv_lora_rank=self.kv_lora_rank,
            qk_nope_head_dim=self.qk_nope_head_dim,
            v_head_dim=self.v_head_dim,
            positions=self.rotary,
            attention_scale=scale,
            bias=self.attention_bias,
            norm=_LATENT_NORM,
        )

    @property
    def decoder(self) -> DecoderConfig:
        """Configuration of the family's model."""
        if not self.num_nextn_predict_layers:
            return super().decoder
        further = MultiTokenConfig(
            num_tokens=self.num_nextn_predict_layers,
            weight=self.mtp_loss_weight,
            stack=replace(self.stack, blocks=(self.block(self.num_layers),)),
            norm=self.norm,
        )
        return replace(super().decoder, multi_token=further)

    def block(self, layer: int) -> BlockConfig:
        """Return the block of ``layer``."""
        return replace(super().block(layer), attention=self.latent_attention)


def _read(fields: ConfigFields, values: Mapping[str, Any]) -> dict[str, Any]:
    # Of the published form, which another reader computes with.
    for name, value in {"scoring_func": "sigmoid", "topk_method": "noaux_tc", "moe_layer_freq": 1}.items():
        fields.must_be(name, value)
    fields.must_be("qk_head_dim", values["qk_nope_head_dim"] + values["qk_rope_head_dim"])
    fields.must_be("head_dim", values["qk_rope_head_dim"])
    if values["num_kv_heads"] != values["num_heads"]:
        raise ValueError(
            f"config.json: num_key_value_heads is {values['num_kv_heads']}; latent attention has as many as "
            f"num_attention_heads, {values['num_heads']}"
        )
    names = "n_routed_experts", "num_local_experts"
    return {
        "head_dim": None,
        "num_kv_heads": None,
        "q_lora_rank": fields.take("q_lora_rank", None if "q_lora_rank" in fields.config else 1536),
        "moe_mlp_dim": fields.take("moe_intermediate_size", 2048),
        "num_shared_experts": fields.take("n_shared_experts", 1),
        **read_sparse(fields, names, num_experts=256, num_experts_per_token=8),
    }


def _write(config: DeepseekV3Config) -> Mapping[str, object]:
    return {
        "num_key_value_heads": config.num_heads,
        "q_lora_rank": config.q_lora_rank,
        "moe_intermediate_size": config.moe_mlp_dim,
        "n_shared_experts": config.num_shared_experts,
        "n_routed_experts": config.num_experts,
        "num_experts_per_tok": config.num_experts_per_token,
        "num_nextn_predict_layers": 0,
    }


def _attention_rows(config: DeepseekV3Config) -> list[Weight]:
    prefix, bias = "model.layers.{layer}.self_attn.", config.attention_bias
    rank = config.q_lora_rank is not None
    biased = {
        **({"self_attention/query_down": "q_a_proj"} if rank else {}),
        "self_attention/latent": "kv_a_proj_with_mqa",
        "self_attention/out": "o_proj",
    }
    unbiased = {
        "self_attention/query": "q_b_proj" if rank else "q_proj",
        **({"self_attention/query_norm": "q_a_layernorm"} if rank else {}),
        "self_attention/latent_norm": "kv_a_layernorm",
        "self_attention/key_value": "kv_b_proj",
    }
    return [*module_rows(biased, prefix, bias=bias), *module_rows(unbiased, prefix, bias=False)]


def _feed_forward_rows(config: DeepseekV3Config, layer: int) -> list[Weight]:
    rows = sparse_rows(config, layer)
    if not config.is_sparse(layer):
        return rows
    prefix = "model.layers.{layer}.mlp."
    rows.append(Weight("feed_forward/correction_bias", f"{prefix}gate.e_score_correction_bias"))
    if config.num_shared_experts:
        names = {f"feed_forward/shared_expert/{name}": f"{name}_proj" for name in ("gate", "up", "down")}
        rows += module_rows(names, f"{prefix}shared_experts.", bias=False)
    return rows


# Fields of config.json with the same names here.
_OWN_FIELDS = (
    "attention_bias",
    "first_k_dense_replace",
    "kv_lora_rank",
    "n_group",
    "norm_topk_prob",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "rope_interleave",
    "routed_scaling_factor",
    "topk_group",
    "v_head_dim",
)

DEEPSEEK_V3 = llama_like(
    "deepseek_v3",
    DeepseekV3Config,
    decoder_classes("DeepseekV3", question_answering=False),
    own_fields=_OWN_FIELDS,
    read=_read,
    write=_write,
    # Further tokens are predicted by weights that are not read; the rest is about training, or where experts lie.
    ignored=(
        *IGNORED,
        *("num_nextn_predict_layers", "num_mtp_layers", "pretraining_tp", "ep_size", "auto_map"),
        *("aux_loss_alpha", "seq_aux"),
    ),
    attention=_attention_rows,
    feed_forward=_feed_forward_rows,
    separate=separate_experts,
    unused_weights=("*.rotary_emb.inv_freq", "model.layers.61.*"),  # as in transformers, whatever the depth
    special_ids={"bos_token_id": 0, "eos_token_id": 1},
)
