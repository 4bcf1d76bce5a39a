"""GPT-NeoX (Black et al. 2022, https://arxiv.org/abs/2204.06745) and Pythia (Biderman et al. 2023)."""

from dataclasses import replace
from typing import Any

from t5x_like.config_class import config_class
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import Activation
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.rotary import Rotary, RotaryScaling
from t5x_like.model.zoo.architecture import FieldTable, published
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, ConfigFields, Field
from t5x_like.model.zoo.decoder_like import decoder_classes, decoder_weights, fused_qkv_row, split_heads
from t5x_like.model.zoo.gpt_like import GPTLikeConfig
from t5x_like.model.zoo.rope import rope_fields, take_rope
from t5x_like.model.zoo.weights import Weight, module_rows


@config_class
class GPTNeoXConfig(GPTLikeConfig):
    """A GPT-NeoX of any size: ``GPTLikeConfig`` with rotary positions and these fields.

    ``max_position_embeddings`` is the length that the model was trained with, and no limit here.

    Attributes:
      parallel: Attention and feed-forward layer read the same input (see ``BlockConfig``).
      attention_bias: Adds a bias to all four projections of attention.
      partial_rotary_factor: Part of each head's dimensions, the first ones, that is rotated.
      rope_theta: Base of the rotary frequencies.
      rope_scaling: Changes the frequencies for longer texts; ``None`` leaves them.
    """

    parallel: bool = True
    attention_bias: bool = True
    activation: Activation = "gelu"
    partial_rotary_factor: float = 0.25
    rope_theta: float = 10_000.0
    rope_scaling: RotaryScaling | None = None
    tie_word_embeddings: bool = False

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words alone: positions act in attention."""
        return replace(super().embeddings, positions=None, stddev=self.init.stddev)

    @property
    def init(self) -> Normal:
        """Nguyen and Salazar 2019; into the stream Wang and Komatsuzaki 2021 (Black et al. 2022, §2.1.3)."""
        stddev = (2 / (5 * self.model_dim)) ** 0.5
        return Normal(stddev, residual_scale=2 / (self.num_layers * self.model_dim**0.5) / stddev)

    def attention(self, layer: int) -> AttentionConfig:
        """Return the self-attention of ``layer``."""
        rotated = int(self.head_width * self.partial_rotary_factor)
        rotary = Rotary(
            # An odd part is rounded up and its frequencies are not, as in transformers.
            rotated_dim=rotated + rotated % 2,
            frequency_dim=rotated,
            rope_theta=self.rope_theta,
            rope_scaling=self.rope_scaling,
        )
        bias = self.attention_bias
        return replace(super().attention(layer), in_bias=bias, out_bias=bias, positions=rotary)

    def block(self, layer: int) -> BlockConfig:
        """Return the block of ``layer``."""
        return replace(super().block(layer), parallel=self.parallel)


def _read(fields: ConfigFields, values: dict[str, Any]) -> dict[str, Any]:
    # Transformers 4 has this model's own names, 4.5x also those of all models, 5 has rope_parameters.
    theta, rotated = fields.take("rotary_emb_base", 10_000.0), fields.take("rotary_pct", 0.25)
    for name, value in (("rope_theta", theta), ("partial_rotary_factor", rotated)):
        fields.must_be(name, value)
    rope = take_rope(
        fields,
        rope_theta=theta,
        rotated=rotated,
        max_position_embeddings=values["max_position_embeddings"],
    )
    return {
        "partial_rotary_factor": rope.rotated,
        "rope_theta": rope.rope_theta,
        "rope_scaling": rope.rope_scaling,
    }


def _write(config: GPTNeoXConfig) -> dict[str, object]:
    return {
        "attention_dropout": config.dropout_rate,
        "rope_scaling": rope_fields(config.rope_theta, config.rope_scaling)["rope_scaling"],
        "rotary_emb_base": config.rope_theta,
        "rotary_pct": config.partial_rotary_factor,
    }


def _weights(config: GPTNeoXConfig) -> tuple[Weight, ...]:
    hf_name, bias = "gpt_neox.layers.{layer}.", config.attention_bias
    fused, split = f"{hf_name}attention.query_key_value", split_heads(config.num_heads)
    others = {
        "feed_forward/up": "mlp.dense_h_to_4h",
        "feed_forward/down": "mlp.dense_4h_to_h",
        "self_attention_residual/before": "input_layernorm",
        "feed_forward_residual/before": "post_attention_layernorm",
    }
    layer = [
        fused_qkv_row(f"{fused}.weight", split),
        *([fused_qkv_row(f"{fused}.bias", split, "bias")] if bias else []),
        *module_rows({"self_attention/out": "attention.dense"}, hf_name, bias=bias),
        *module_rows(others, hf_name),
    ]
    return decoder_weights(
        config.decoder,
        layer,
        tokens="gpt_neox.embed_in",
        lm_head="embed_out",
        final_norm="gpt_neox.final_layer_norm",
    )


GPT_NEOX = published(
    "gpt_neox",
    GPTNeoXConfig,
    decoder_classes("GPTNeoX"),
    FieldTable(
        fields={
            "vocab_size": Field("vocab_size"),
            "model_dim": Field("hidden_size"),
            "mlp_dim": Field("intermediate_size"),
            "num_heads": Field("num_attention_heads"),
            "num_layers": Field("num_hidden_layers"),
            "parallel": Field("use_parallel_residual", True),
            "attention_bias": Field("attention_bias", True),
            "activation": Field("hidden_act", "gelu", ACTIVATION_NAMES),
            "max_position_embeddings": Field("max_position_embeddings", 2048),
            "norm_epsilon": Field("layer_norm_eps", 1e-5),
            "tie_word_embeddings": Field("tie_word_embeddings", False),
            "dropout_rate": Field("hidden_dropout", 0.0),
        },
        ignored=(
            *("attention_dropout", "classifier_dropout"),
            *(
                "attention_probs_dropout_prob",
                "hidden_dropout_prob",
            ),  # of GPT-NeoX-20B's file; nothing reads them
        ),
        read=_read,
        write=_write,
    ),
    weights=_weights,
    prefix="gpt_neox.",
    # The causal mask, and frequencies.
    unused_weights=("*.attention.bias", "*.attention.masked_bias", "*rotary_emb.inv_freq"),
    special_ids={"bos_token_id": 0, "eos_token_id": 2},
)
