"""OLMo 2 (OLMo Team 2024, https://arxiv.org/abs/2501.00656): Llama's block with norms after its layers and inside."""

from dataclasses import replace

from t5x_like.config_class import config_class
from t5x_like.model.layers.attention import AttentionConfig, QKNormConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.zoo.llama_like import LlamaLikeConfig
from t5x_like.model.zoo.llama_like_files import llama_like


@config_class
class Olmo2Config(LlamaLikeConfig):
    """An OLMo 2 of any size: ``LlamaLikeConfig`` and one field.

    Outputs of layers are normalized, not their inputs. Queries and keys of all heads are normalized together (§3.2).

    Attributes:
      attention_bias: Adds a bias to all four projections of attention.
    """

    attention_bias: bool = False
    norm_epsilon: float = 1e-5

    def attention(self, layer: int) -> AttentionConfig:
        """Return the self-attention of ``layer``."""
        norm, bias = QKNormConfig(norm=self.norm, over="all_heads"), self.attention_bias
        return replace(super().attention(layer), qk_norm=norm, in_bias=bias, out_bias=bias)

    def block(self, layer: int) -> BlockConfig:
        """Return the block of ``layer``."""
        return replace(super().block(layer), attention_norms=("after",), feed_forward_norms=("after",))


NORMS = {
    "self_attention_residual/after": "post_attention_layernorm",
    "feed_forward_residual/after": "post_feedforward_layernorm",
}
SPECIAL_IDS = {"pad_token_id": 1, "eos_token_id": 50_279}

OLMO2 = llama_like(
    "olmo2",
    Olmo2Config,
    {
        "Olmo2ForCausalLM": "causal_lm",
        "Olmo2ForSequenceClassification": "sequence_classification",
        "Olmo2Model": "base",
    },
    own_fields=("attention_bias",),
    norms=NORMS,
    special_ids=SPECIAL_IDS,
)
