"""GPT (Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training")."""

from dataclasses import replace

from t5x_like.config_class import config_class
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.zoo.architecture import published
from t5x_like.model.zoo.config_fields import Field, NameTable
from t5x_like.model.zoo.gpt2 import gpt_table, gpt_weights
from t5x_like.model.zoo.gpt_like import GPTLikeConfig


@config_class
class OpenAIGPTConfig(GPTLikeConfig):
    """A GPT of any size: norms after each residual, as in the first Transformer, and none at the end.

    Fields are those of ``GPTLikeConfig``.
    """

    max_position_embeddings: int = 512

    @property
    def final_norm(self) -> None:
        """No norm after the last block."""

    @property
    def init(self) -> Normal:
        """Fresh weights, with one standard deviation for all."""
        return Normal(0.02)

    def block(self, layer: int) -> BlockConfig:
        """Return the block of ``layer``."""
        return replace(super().block(layer), attention_norms=("final",), feed_forward_norms=("final",))


# Their "gelu" is the approximation by a tanh, as in the paper's code.
_ACTIVATION_NAMES = NameTable({"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"})


def _write(config: OpenAIGPTConfig) -> dict[str, object]:
    if config.mlp_dim != 4 * config.model_dim:
        raise ValueError(
            f"mlp_dim={config.mlp_dim} can't be written: openai-gpt's is 4 times model_dim={config.model_dim}"
        )
    if not config.tie_word_embeddings:
        raise ValueError(
            "tie_word_embeddings=False can't be written: openai-gpt's output layer is always tied"
        )
    return {}


OPENAI_GPT = published(
    "openai_gpt",
    OpenAIGPTConfig,
    {
        "OpenAIGPTLMHeadModel": "causal_lm",
        "OpenAIGPTForSequenceClassification": "sequence_classification",
        "OpenAIGPTDoubleHeadsModel": "multiple_choice",
        "OpenAIGPTModel": "base",
    },
    gpt_table(
        {"activation": Field("afn", "gelu", _ACTIVATION_NAMES)},
        max_position_embeddings=512,
        required={"tie_word_embeddings": True},
        read=lambda _, values: {"mlp_dim": 4 * values["model_dim"]},
        write=_write,
    ),
    weights=lambda config: gpt_weights(
        config,
        tokens="transformer.tokens_embed",
        positions="transformer.positions_embed",
        norm_slot="final",
    ),
    model_types=("openai-gpt",),
    prefix="transformer.",
    unused_weights=("*.attn.bias", "*position_ids"),  # the causal mask, and numbers from 0 on
    special_ids={},
)
