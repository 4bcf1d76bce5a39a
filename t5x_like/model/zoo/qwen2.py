"""Qwen 2 and 2.5 (Yang et al. 2024, https://arxiv.org/abs/2407.10671): Llama's block with biased queries and keys."""

from dataclasses import replace

from t5x_like.config_class import config_class, refuse_unused
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.decoder_like import decoder_classes
from t5x_like.model.zoo.llama_like import LlamaLikeConfig
from t5x_like.model.zoo.llama_like_files import llama_like


@config_class
class Qwen2Config(LlamaLikeConfig):
    """A Qwen 2 of any size: ``LlamaLikeConfig`` and these fields.

    Queries, keys and values have biases, the output projection has none.

    Attributes:
      sliding_window: Tokens that a token of a late layer attends to, itself included; ``None`` for no limit.
      max_window_layers: Index of the first layer with a window.
    """

    sliding_window: int | None = None
    max_window_layers: int = 0
    max_position_embeddings: int = 32_768

    def __post_init__(self) -> None:
        if self.sliding_window is not None and self.max_window_layers >= self.num_layers:
            layers = f"max_window_layers={self.max_window_layers} of num_layers={self.num_layers}"
            advice = "lower max_window_layers, or set sliding_window=None"
            because = f"{layers} leaves no layer with a window"
            refuse_unused(self, "sliding_window", because=because, advice=advice)
        if self.sliding_window is None:
            refuse_unused(self, "max_window_layers", because="no layer has a window (sliding_window is None)")
        super().__post_init__()

    def sliding_window_of(self, layer: int) -> int | None:
        """Return the window of ``layer``; early layers have none."""
        return None if layer < self.max_window_layers else self.sliding_window

    def attention(self, layer: int) -> AttentionConfig:
        """Return the self-attention of ``layer``."""
        return replace(super().attention(layer), in_bias=True)


def read_late_windows(fields: ConfigFields, _: object) -> dict[str, object]:
    """Return our fields. Layers from ``max_window_layers`` on have a window, if ``use_sliding_window`` is true.

    Args:
      fields: Published fields.
      _: Fields that have been read.
    """
    num_layers = fields.take("num_hidden_layers")
    window = fields.take("sliding_window", None if "sliding_window" in fields.config else 4096)
    max_window_layers = min(fields.take("max_window_layers", 28), num_layers)
    if not fields.take("use_sliding_window", False) or window is None or max_window_layers == num_layers:
        window, max_window_layers = None, num_layers
    num_windowed = num_layers - max_window_layers
    fields.must_be(
        "layer_types", ["full_attention"] * max_window_layers + ["sliding_attention"] * num_windowed
    )
    return {"sliding_window": window, "max_window_layers": max_window_layers if num_windowed else 0}


def write_late_windows(config: Qwen2Config) -> dict[str, object]:
    """Return their fields: the inverse of ``read_late_windows``."""
    return {
        "max_window_layers": config.max_window_layers,
        "sliding_window": config.sliding_window,
        "use_sliding_window": config.sliding_window is not None,
    }


QWEN2 = llama_like(
    "qwen2",
    Qwen2Config,
    decoder_classes("Qwen2"),
    read=read_late_windows,
    write=write_late_windows,
    num_kv_heads=32,
    qa_prefix="transformer.",
    special_ids={},
)
