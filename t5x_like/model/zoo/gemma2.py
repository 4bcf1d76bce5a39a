"""Gemma 2 (Gemma Team 2024, https://arxiv.org/abs/2408.00118): Gemma with more norms, soft caps and windows."""

from dataclasses import replace

from t5x_like.config_class import config_class
from t5x_like.model.heads import LMHeadConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.decoder_like import decoder_classes
from t5x_like.model.zoo.gemma import SPECIAL_IDS, GemmaConfig, refuse_bidirectional
from t5x_like.model.zoo.llama_like_files import llama_like


@config_class
class Gemma2Config(GemmaConfig):
    """A Gemma 2 of any size: ``GemmaConfig`` and these fields. Each layer has norms before and after.

    Attributes:
      query_pre_attn_scalar: Attention scores are multiplied by ``query_pre_attn_scalar ** -0.5``.
      attention_logit_soft_cap: Replaces attention scores ``s`` by ``cap * tanh(s / cap)``; ``None`` leaves them.
      final_logit_soft_cap: Replaces logits ``s`` of the output layer by ``cap * tanh(s / cap)``; ``None`` leaves them.
      sliding_window: Tokens that a token of every other layer attends to, from the first layer on, itself included.
    """

    query_pre_attn_scalar: float = 256.0
    attention_logit_soft_cap: float | None = 50.0
    final_logit_soft_cap: float | None = 30.0
    sliding_window: int = 4096

    @property
    def lm_head(self) -> LMHeadConfig:
        """Output layer with capped logits."""
        return replace(super().lm_head, final_logit_soft_cap=self.final_logit_soft_cap)

    def sliding_window_of(self, layer: int) -> int | None:
        """Return the window of ``layer``; every other layer has one."""
        return None if layer % 2 else self.sliding_window

    def attention(self, layer: int) -> AttentionConfig:
        """Return the self-attention of ``layer``."""
        return replace(
            super().attention(layer),
            attention_scale=self.query_pre_attn_scalar**-0.5,
            attention_logit_soft_cap=self.attention_logit_soft_cap,
        )

    def block(self, layer: int) -> BlockConfig:
        """Return the block of ``layer``, with four norms."""
        norms = ("before", "after")
        return replace(super().block(layer), attention_norms=norms, feed_forward_norms=norms)


def _read(fields: ConfigFields, _: object) -> dict[str, object]:
    # Published files have hidden_act too, hidden_activation is read.
    fields.ignore("cache_implementation", "hidden_act")
    refuse_bidirectional(fields)
    num_layers = fields.take("num_hidden_layers")
    kinds = ["full_attention" if layer % 2 else "sliding_attention" for layer in range(num_layers)]
    fields.must_be("layer_types", kinds)
    if fields.config.get("sliding_window", 0) is None:
        raise ValueError("config.json: sliding_window is null; every other layer needs one")
    return {
        "attention_logit_soft_cap": read_cap(fields, "attn_logit_softcapping", 50.0),
        "final_logit_soft_cap": read_cap(fields, "final_logit_softcapping", 30.0),
    }


def read_cap(fields: ConfigFields, name: str, default: float) -> float | None:
    """Return a cap, which null switches off.

    Args:
      fields: Fields of a ``config.json``.
      name: Name of the field.
      default: Cap of a file without it.
    """
    cap = fields.take(name, default)
    return None if name in fields.config and fields.config[name] is None else cap


def whole_number(number: float) -> int | float:
    """Return a whole number as an integer; transformers 5.24 refuses to read it as a float."""
    return int(number) if number == int(number) else number


NORMS = {
    "self_attention_residual/before": "input_layernorm",
    "self_attention_residual/after": "post_attention_layernorm",
    "feed_forward_residual/before": "pre_feedforward_layernorm",
    "feed_forward_residual/after": "post_feedforward_layernorm",
}

GEMMA2 = llama_like(
    "gemma2",
    Gemma2Config,
    decoder_classes("Gemma2", question_answering=False),
    own_fields=("attention_bias", "query_pre_attn_scalar", "sliding_window"),
    read=_read,
    write=lambda config: {
        "attn_logit_softcapping": config.attention_logit_soft_cap,
        "final_logit_softcapping": config.final_logit_soft_cap,
        "query_pre_attn_scalar": whole_number(config.query_pre_attn_scalar),
    },
    num_kv_heads=4,
    activation="hidden_activation",
    norms=NORMS,
    special_ids=SPECIAL_IDS,
)
