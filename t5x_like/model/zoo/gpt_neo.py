"""GPT-Neo (Black et al. 2021, https://doi.org/10.5281/zenodo.5297715): every other layer has a sliding window."""

from dataclasses import replace
from typing import Any, Literal

from t5x_like.config_class import config_class, refuse_unused
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.zoo.architecture import FieldTable, published
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, ConfigFields, Field, check_size
from t5x_like.model.zoo.decoder_like import decoder_classes, decoder_weights
from t5x_like.model.zoo.gpt2 import SUMMARY_FIELDS
from t5x_like.model.zoo.gpt_like import GPTLikeConfig
from t5x_like.model.zoo.weights import Weight, module_rows

AttentionType = Literal["global", "local"]


@config_class
class GPTNeoConfig(GPTLikeConfig):
    """A GPT-Neo of any size: ``GPTLikeConfig`` and these fields. Attention scores are not scaled.

    Attributes:
      attention_pattern: Attention of consecutive layers, repeated over all of them.
      window_size: Tokens that a token of a ``local`` layer attends to, itself included.
    """

    attention_pattern: tuple[AttentionType, ...] = ("global", "local")
    window_size: int = 256

    def __post_init__(self) -> None:
        if not self.attention_pattern or self.num_layers % len(self.attention_pattern):
            raise ValueError(
                f"num_layers={self.num_layers} is not a multiple of the length of attention_pattern="
                f"{self.attention_pattern}; change one of them"
            )
        if "local" not in self.attention_pattern:
            refuse_unused(self, "window_size", because="no layer of attention_pattern is 'local'")
        super().__post_init__()

    @property
    def init(self) -> Normal:
        """Fresh weights, with one standard deviation for all."""
        return Normal(0.02)

    def attention(self, layer: int) -> AttentionConfig:
        """Return the self-attention of ``layer``, counted from 0."""
        is_local = self.attention_pattern[layer % len(self.attention_pattern)] == "local"
        window = SlidingWindow(left=self.window_size - 1) if is_local else None
        return replace(super().attention(layer), attention_scale=1.0, in_bias=False, window=window)


def _read(fields: ConfigFields, values: dict[str, Any]) -> dict[str, Any]:
    pattern = _read_attention_pattern(fields, values["num_layers"])
    return {
        "mlp_dim": fields.take("intermediate_size", 4 * values["model_dim"]),
        "attention_pattern": pattern,
        # Files have a window even where no layer reads it.
        "window_size": values["window_size"] if "local" in pattern else GPTNeoConfig.window_size,
    }


def _read_attention_pattern(fields: ConfigFields, num_layers: int) -> tuple[AttentionType, ...]:
    """Return the shortest pattern of ``attention_types``, which may give it once or for every layer."""
    runs = fields.take("attention_types", [[["global", "local"], num_layers // 2]])
    num_named = sum(len(pattern) * max(times, 0) for pattern, times in runs)
    check_size("config.json: the number of attention_types' layers", num_named)
    layers = [kind for pattern, times in runs for _ in range(times) for kind in pattern]
    listed = fields.take("attention_layers", layers)
    unknown = {*layers, *listed} - {"global", "local"}
    if unknown or len(layers) != num_layers or listed != layers:
        raise ValueError(
            f"config.json: attention_types {runs} and attention_layers {listed} must say the same, global or local, of "
            f"each of the {num_layers} layers"
        )
    lengths = (length for length in range(1, num_layers + 1) if num_layers % length == 0)
    period = next(length for length in lengths if layers == layers[:length] * (num_layers // length))
    return tuple(layers[:period])


def _write(config: GPTNeoConfig) -> dict[str, object]:
    pattern = config.attention_pattern
    return {
        "attention_dropout": config.dropout_rate,
        "attention_types": [[list(pattern), config.num_layers // len(pattern)]],
        "embed_dropout": config.dropout_rate,
        "intermediate_size": config.mlp_dim,
    }


def _weights(config: GPTNeoConfig) -> tuple[Weight, ...]:
    hf_name = "transformer.h.{layer}."
    projections = {
        f"self_attention/{name}": f"attn.attention.{name[0]}_proj" for name in ("query", "key", "value")
    }
    others = {
        "self_attention/out": "attn.attention.out_proj",
        "feed_forward/up": "mlp.c_fc",
        "feed_forward/down": "mlp.c_proj",
        "self_attention_residual/before": "ln_1",
        "feed_forward_residual/before": "ln_2",
    }
    return decoder_weights(
        config.decoder,
        [*module_rows(projections, hf_name, bias=False), *module_rows(others, hf_name)],
        tokens="transformer.wte",
        positions="transformer.wpe",
        final_norm="transformer.ln_f",
    )


GPT_NEO = published(
    "gpt_neo",
    GPTNeoConfig,
    decoder_classes("GPTNeo"),
    FieldTable(
        fields={
            "vocab_size": Field("vocab_size"),
            "model_dim": Field("hidden_size"),
            "num_heads": Field("num_heads"),
            "num_layers": Field("num_layers"),
            "window_size": Field("window_size", 256),
            "max_position_embeddings": Field("max_position_embeddings", 2048),
            "activation": Field("activation_function", "gelu_new", ACTIVATION_NAMES),
            "norm_epsilon": Field("layer_norm_epsilon", 1e-5),
            "tie_word_embeddings": Field("tie_word_embeddings", True),
            "dropout_rate": Field("resid_dropout", 0.0),
        },
        ignored=("attention_dropout", "embed_dropout", "classifier_dropout", *SUMMARY_FIELDS),
        read=_read,
        write=_write,
    ),
    weights=_weights,
    prefix="transformer.",
    unused_weights=("*.attn.attention.bias", "*.attn.attention.masked_bias"),  # the causal mask
    special_ids={"bos_token_id": 50_256, "eos_token_id": 50_256},
)
