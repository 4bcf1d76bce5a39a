"""ModernBERT's decoder, Ettin (Weller et al. 2025, https://arxiv.org/abs/2507.11412): it reads and writes one way."""

from typing import Any

from t5x_like.config_class import config_class, refuse_unused
from t5x_like.model.families.decoder import DecoderConfig
from t5x_like.model.heads import HeadsConfig
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.pooler import PoolerConfig
from t5x_like.model.zoo.architecture import FieldTable, published
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.layer_types import FULL, SLIDING, LayerType, take_layer_types
from t5x_like.model.zoo.model_tasks import ModelTask, classifier_dropout_of, score_rows, scoring_heads
from t5x_like.model.zoo.modernbert_like import (
    MODERNBERT_FIELDS,
    MODERNBERT_IGNORED,
    MODERNBERT_WRITTEN,
    ModernBertLikeConfig,
    modernbert_weights,
    read_thetas,
    write_modernbert,
)
from t5x_like.model.zoo.weights import Weight, module_rows

_TYPES: tuple[LayerType, ...] = (FULL, SLIDING, SLIDING)


@config_class
class ModernBertDecoderConfig(ModernBertLikeConfig):
    """A decoder like ModernBERT, of any size: ``ModernBertLikeConfig`` and these fields.

    Attributes:
      layer_types: Types of the first layers, which are repeated for all others.
      sliding_window: Tokens that a token of a layer with a window attends to, itself included.
    """

    task: ModelTask = "causal_lm"
    layer_types: tuple[LayerType, ...] = _TYPES
    sliding_window: int = 64

    def __post_init__(self) -> None:
        if not self.layer_types:
            raise ValueError(f"layer_types is empty; give the types of the first layers, such as {_TYPES}")
        if self.sliding_window < 1:
            raise ValueError(f"sliding_window is {self.sliding_window}; give at least 1 token")
        types = {self.type_of(layer) for layer in range(self.num_layers)}
        if SLIDING not in types:
            refuse_unused(self, "sliding_window", "local_rope_theta", because="no layer has a window")
        if FULL not in types:
            refuse_unused(self, "global_rope_theta", because="all layers have a window")
        super().__post_init__()

    @property
    def parts(self) -> DecoderConfig:
        """Configuration of the family's model."""
        return self.decoder

    @property
    def decoder(self) -> DecoderConfig:
        """Configuration of the family's model."""
        return DecoderConfig(
            embeddings=self.embeddings, stack=self.stack, heads=self.heads, compute_dtype=self.compute_dtype
        )

    def type_of(self, layer: int) -> LayerType:
        """Return the type of ``layer``, counted from 0."""
        return self.layer_types[layer % len(self.layer_types)]

    def window_of(self, layer: int) -> SlidingWindow | None:
        """Return the window of ``layer``; ``None`` where it sees all tokens before it."""
        return SlidingWindow(left=self.sliding_window - 1) if self.type_of(layer) == SLIDING else None

    @property
    def heads(self) -> HeadsConfig:
        """Heads for ``task``. Those of sequences read the last real token."""
        if self.task == "base":
            return HeadsConfig()
        if self.task in ("causal_lm", "cloze"):
            return HeadsConfig(lm_head=self.lm_head, cloze=self.task == "cloze")
        heads = scoring_heads(
            self.task,
            num_labels=self.num_labels,
            pooler=PoolerConfig(pooling="last", transform=self.transform),
            of_tokens=self.transform,
            pooled_bias=self.classifier_bias or self.task == "multiple_choice",
            dropout_rate=classifier_dropout_of(self),
        )
        if heads is None:
            raise ValueError(f"ModernBERT's decoder has no head for the task {self.task!r}")
        return heads


def _read(fields: ConfigFields, values: dict[str, Any]) -> dict[str, Any]:
    every = fields.take("global_attn_every_n_layers", 3)
    default = _TYPES if every == len(_TYPES) else (FULL, *[SLIDING] * (every - 1))
    types = take_layer_types(fields, values["num_layers"], default)
    # transformers makes the window from ModernBERT's field, which counts both sides, unless a file has it.
    window = fields.take("sliding_window", fields.take("local_attention", 128) // 2)
    read = {**types, "sliding_window": window, **read_thetas(fields)}
    kinds = set(types["layer_types"])
    unused = {SLIDING: ("sliding_window", "local_rope_theta"), FULL: ("global_rope_theta",)}
    return {
        name: value
        for name, value in read.items()
        if not any(name in unused[each] for each in {SLIDING, FULL} - kinds)
    }


def _write(config: ModernBertDecoderConfig) -> dict[str, object]:
    return {
        **write_modernbert(config),
        "layer_types": [config.type_of(layer) for layer in range(config.num_layers)],
        "local_attention": 2 * config.sliding_window,
        "sliding_window": config.sliding_window,
    }


def _weights(config: ModernBertDecoderConfig) -> tuple[Weight, ...]:
    names = {f"self_attention/{name}": f"attn.{name[0]}_proj" for name in ("query", "key", "value")}
    projections = module_rows(names, "model.layers.{layer}.", bias=config.attention_bias)
    decoder = config.decoder
    rows = modernbert_weights(config, decoder, stack="decoder", projections=projections, words="lm_head")
    return (*rows, *score_rows(decoder.heads, {}))


MODERNBERT_DECODER = published(
    "modernbert_decoder",
    ModernBertDecoderConfig,
    {
        "ModernBertDecoderForCausalLM": "causal_lm",
        "ModernBertDecoderForSequenceClassification": "sequence_classification",
        "ModernBertDecoderModel": "base",
    },
    FieldTable(
        fields=MODERNBERT_FIELDS,
        ignored=MODERNBERT_IGNORED,
        written=MODERNBERT_WRITTEN,
        read=_read,
        write=_write,
    ),
    weights=_weights,
    model_types=("modernbert-decoder",),
    prefix="model.",
    unused_weights=("*.rotary_emb.inv_freq",),
)
