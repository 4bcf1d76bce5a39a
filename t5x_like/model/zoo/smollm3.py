"""SmolLM3 (Bakouch et al. 2025, https://huggingface.co/blog/smollm3): Llama without positions in each fourth layer."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from t5x_like.config_class import config_class, refuse_unused
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.decoder_like import decoder_classes
from t5x_like.model.zoo.layer_types import FULL, SLIDING, period_of
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.model.zoo.llama_like_files import llama_like

_ROTATED = (True, True, True, False)


@config_class
class SmolLM3Config(LlamaConfig):
    """A SmolLM3 of any size: ``LlamaConfig`` and these fields.

    Attributes:
      rotated_layers: Whether each of the first layers has rotary positions, which is repeated for all others (Yang et
        al. 2025, https://arxiv.org/abs/2501.18795).
      sliding_window: Tokens that a token of a layer without rotary positions attends to, itself included; ``None`` for
        no limit.
    """

    rotated_layers: tuple[bool, ...] = _ROTATED
    sliding_window: int | None = None
    rope_theta: float = 2_000_000.0
    max_position_embeddings: int = 32_768
    tie_word_embeddings: bool = True

    def __post_init__(self) -> None:
        if not self.rotated_layers:
            raise ValueError(f"rotated_layers is empty; give the first layers, such as {_ROTATED}")
        if all(map(self.is_rotated, range(self.num_layers))):
            refuse_unused(self, "sliding_window", because="all layers have rotary positions")
        super().__post_init__()

    def is_rotated(self, layer: int) -> bool:
        """Return whether ``layer``, counted from 0, has rotary positions."""
        return self.rotated_layers[layer % len(self.rotated_layers)]

    def sliding_window_of(self, layer: int) -> int | None:
        """Return the window of ``layer``; those with rotary positions have none."""
        return None if self.is_rotated(layer) else self.sliding_window

    def attention(self, layer: int) -> AttentionConfig:
        """Return the self-attention of ``layer``."""
        attention = super().attention(layer)
        return attention if self.is_rotated(layer) else replace(attention, positions=None)


def _read(fields: ConfigFields, values: Mapping[str, Any]) -> dict[str, Any]:
    num_layers, every = values["num_layers"], fields.take("no_rope_layer_interval", 4)
    default = [int((layer + 1) % every != 0) for layer in range(num_layers)]
    flags = fields.take("no_rope_layers", default)  # 1 where a layer has positions
    if len(flags) != num_layers:
        raise ValueError(
            f"config.json: no_rope_layers is {flags}; 0 or 1 is needed for each of {num_layers} layers"
        )
    rotated = tuple(map(bool, flags))
    uses_window, window = fields.take("use_sliding_window", False), fields.take("sliding_window", None)
    window = window if uses_window and not all(rotated) else None
    kinds = [FULL if each or window is None else SLIDING for each in rotated]
    fields.must_be("layer_types", kinds)
    is_default = all(each == _ROTATED[layer % len(_ROTATED)] for layer, each in enumerate(rotated))
    return {
        "rotated_layers": _ROTATED if is_default else period_of(rotated),
        "sliding_window": window,
    }


def _write(config: SmolLM3Config) -> dict[str, object]:
    layers = range(config.num_layers)
    windows = [config.sliding_window_of(layer) for layer in layers]
    return {
        "no_rope_layers": [int(config.is_rotated(layer)) for layer in layers],
        "layer_types": [FULL if window is None else SLIDING for window in windows],
        "use_sliding_window": config.sliding_window is not None,
        "sliding_window": config.sliding_window,
    }


SMOLLM3 = llama_like(
    "smollm3",
    SmolLM3Config,
    decoder_classes("SmolLM3"),
    own_fields=("attention_bias", "mlp_bias"),
    read=_read,
    write=_write,
    num_kv_heads=4,
    special_ids={"pad_token_id": 128_004, "bos_token_id": 128_000, "eos_token_id": 128_001},
)
