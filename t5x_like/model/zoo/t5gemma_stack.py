"""One stack of T5Gemma: its layers, and their form in Hugging Face's files."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from t5x_like.config_class import config_class
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.feed_forward import Activation, FeedForwardConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.norm import RMSNormConfig
from t5x_like.model.layers.rotary import Rotary, RotaryScaling
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, ConfigFields
from t5x_like.model.zoo.gemma2 import read_cap, whole_number
from t5x_like.model.zoo.layer_types import FULL, SLIDING, LayerType, take_layer_types
from t5x_like.model.zoo.rope import rope_fields, take_rope
from t5x_like.model.zoo.weights import Weight, module_rows

StackName = Literal["encoder", "decoder"]

# Fields of a stack that follow from others: the decoder attends to vectors of the encoder's width.
_DERIVED = ("is_decoder", "cross_attention_hidden_size")
# Fields of a stack that are read from the whole model, or that transformers doesn't read.
_OF_BOTH = ("vocab_size", "dropout_rate", "attention_dropout", "tie_word_embeddings", "hidden_act")


@config_class
class T5GemmaStackConfig:
    """Layers of one stack: those of Gemma 2.

    Attributes:
      model_dim: Width of the residual stream.
      mlp_dim: Inner width of the feed-forward layers.
      num_heads: Query heads of each layer.
      num_kv_heads: Key and value heads.
      num_layers: Number of blocks.
      head_dim: Width of a head.
      activation: Nonlinearity of the feed-forward layers' gates.
      query_pre_attn_scalar: Attention scores are multiplied by ``query_pre_attn_scalar ** -0.5``.
      attention_logit_soft_cap: Replaces attention scores ``s`` by ``cap * tanh(s / cap)``; ``None`` leaves them.
      layer_types: Types of the first layers, which are repeated for all others.
      sliding_window: Tokens that a token of the decoder's layers with a window attends to, itself included. The
        encoder's attend to as many on each side, and themselves.
      rope_theta: Base of the rotary frequencies.
      rope_scaling: Changes the frequencies for longer texts; ``None`` leaves them.
      max_position_embeddings: Length in tokens that the model was trained with. Exported, and no limit here.
      attention_bias: Adds a bias to all four projections of attention.
      norm_epsilon: Added to the mean square in all norms.
    """

    model_dim: int
    mlp_dim: int
    num_heads: int
    num_kv_heads: int
    num_layers: int
    head_dim: int = 256
    activation: Activation = "gelu_tanh"
    query_pre_attn_scalar: float = 256.0
    attention_logit_soft_cap: float | None = 50.0
    layer_types: tuple[LayerType, ...] = (SLIDING, FULL)
    sliding_window: int = 4096
    rope_theta: float = 10_000.0
    rope_scaling: RotaryScaling | None = None
    max_position_embeddings: int = 8192
    attention_bias: bool = False
    norm_epsilon: float = 1e-6

    def __post_init__(self) -> None:
        if not self.layer_types:
            raise ValueError(f"layer_types is empty; give the types of the first layers, such as ({FULL!r},)")

    @property
    def norm(self) -> RMSNormConfig:
        """Type of all norms, which scale by 1 + weight."""
        return RMSNormConfig(epsilon=self.norm_epsilon, zero_centered=True)

    def type_of(self, layer: int) -> LayerType:
        """Return the type of ``layer``, counted from 0."""
        return self.layer_types[layer % len(self.layer_types)]

    def block(self, layer: int, stack: StackName) -> BlockConfig:
        """Return a block without cross-attention.

        Args:
          layer: Number of the layer, from 0 on.
          stack: Stack that the layer is in, which decides how far a window reaches.
        """
        window = None
        if self.type_of(layer) == SLIDING:
            reach = self.sliding_window
            window = (
                SlidingWindow(left=reach, right=reach)
                if stack == "encoder"
                else SlidingWindow(left=reach - 1)
            )
        norms = ("before", "after")
        rotary = Rotary(rotated_dim=self.head_dim, rope_theta=self.rope_theta, rope_scaling=self.rope_scaling)
        return BlockConfig(
            model_dim=self.model_dim,
            attention=replace(self.plain_attention, positions=rotary, window=window),
            feed_forward=FeedForwardConfig(mlp_dim=self.mlp_dim, activation=self.activation, gated=True),
            norm=self.norm,
            attention_norms=norms,
            feed_forward_norms=norms,
            init=Normal(0.02),
        )

    @property
    def plain_attention(self) -> AttentionConfig:
        """Attention without positions and windows, as cross-attention is."""
        return AttentionConfig(
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            head_dim=self.head_dim,
            attention_scale=self.query_pre_attn_scalar**-0.5,
            attention_logit_soft_cap=self.attention_logit_soft_cap,
            in_bias=self.attention_bias,
            out_bias=self.attention_bias,
        )


def read_stack(config: Mapping[str, Any]) -> tuple[T5GemmaStackConfig, float | None]:
    """Return a stack, and the soft cap of the logits on it."""
    fields = ConfigFields({name: value for name, value in config.items() if name not in _DERIVED})
    fields.ignore(*_OF_BOTH)
    num_layers = fields.take("num_hidden_layers", 26)
    longest = fields.take("max_position_embeddings", 8192)
    rope = take_rope(fields, max_position_embeddings=longest)
    stack = T5GemmaStackConfig(
        model_dim=fields.take("hidden_size", 2304),
        mlp_dim=fields.take("intermediate_size", 9216),
        num_heads=fields.take("num_attention_heads", 8),
        num_kv_heads=fields.take("num_key_value_heads", 4),
        num_layers=num_layers,
        head_dim=fields.take("head_dim", 256),
        activation=fields.take_name("hidden_activation", ACTIVATION_NAMES, "gelu_pytorch_tanh"),
        query_pre_attn_scalar=fields.take("query_pre_attn_scalar", 256.0),
        attention_logit_soft_cap=read_cap(fields, "attn_logit_softcapping", 50.0),
        **take_layer_types(fields, num_layers, (SLIDING, FULL)),
        sliding_window=fields.take("sliding_window", 4096),
        rope_theta=rope.rope_theta,
        rope_scaling=rope.rope_scaling,
        max_position_embeddings=longest,
        attention_bias=fields.take("attention_bias", False),
        norm_epsilon=fields.take("rms_norm_eps", 1e-6),
    )
    if SLIDING in stack.layer_types and config.get("sliding_window", 0) is None:
        raise ValueError("config.json: sliding_window is null, and some layers have a window")
    cap = read_cap(fields, "final_logit_softcapping", 30.0)
    fields.finish()
    return stack, cap


def write_stack(stack: T5GemmaStackConfig) -> dict[str, Any]:
    """Return the fields that ``read_stack`` reads."""
    return {
        "hidden_size": stack.model_dim,
        "intermediate_size": stack.mlp_dim,
        "num_attention_heads": stack.num_heads,
        "num_key_value_heads": stack.num_kv_heads,
        "num_hidden_layers": stack.num_layers,
        "head_dim": stack.head_dim,
        "hidden_activation": ACTIVATION_NAMES.hf_name(stack.activation),
        "query_pre_attn_scalar": whole_number(stack.query_pre_attn_scalar),
        "attn_logit_softcapping": stack.attention_logit_soft_cap,
        "layer_types": [stack.type_of(layer) for layer in range(stack.num_layers)],
        "sliding_window": stack.sliding_window,
        **rope_fields(stack.rope_theta, stack.rope_scaling),
        "max_position_embeddings": stack.max_position_embeddings,
        "attention_bias": stack.attention_bias,
        "rms_norm_eps": stack.norm_epsilon,
    }


def layer_rows(stack: T5GemmaStackConfig, name: StackName) -> list[Weight]:
    """Return the rows of one layer.

    Args:
      stack: Layers of the stack.
      name: The decoder's layers have cross-attention.
    """
    prefix = f"model.{name}.layers.{{layer}}."
    norms = {"feed_forward_residual/before": "pre_feedforward_layernorm"}
    norms["feed_forward_residual/after"] = "post_feedforward_layernorm"
    projections = {}
    for attention, short in [("self_attention", "self_attn"), ("cross_attention", "cross_attn")]:
        if attention == "cross_attention" and name == "encoder":
            continue
        for slot, word in (("before", "pre"), ("after", "post")):
            norms[f"{attention}_residual/{slot}"] = f"{word}_{short}_layernorm"
        for projection in ("query", "key", "value", "out"):
            projections[f"{attention}/{projection}"] = f"{short}.{projection[0]}_proj"
    return [
        *module_rows(norms, prefix, bias=False),
        *module_rows(projections, prefix, bias=stack.attention_bias),
        *module_rows(
            {f"feed_forward/{each}": f"mlp.{each}_proj" for each in ("gate", "up", "down")},
            prefix,
            bias=False,
        ),
    ]
