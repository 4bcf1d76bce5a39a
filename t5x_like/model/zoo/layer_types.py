"""Decoders whose layers are of two types: those with a window over the last tokens, and those that see all."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

from t5x_like.config_class import config_class
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.rotary import Rotary
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.llama_like import LlamaLikeConfig
from t5x_like.model.zoo.rope import rope_parameters, ropes_by_type

LayerType = Literal["sliding_attention", "full_attention"]
Value = TypeVar("Value")

SLIDING: LayerType = "sliding_attention"
FULL: LayerType = "full_attention"


@config_class
class LayerTypesConfig(LlamaLikeConfig):
    """``LlamaLikeConfig`` with two types of layers, and these fields.

    ``rope_theta`` and ``rope_scaling`` are those of layers without a window.

    Attributes:
      layer_types: Types of the first layers, which are repeated for all others.
      sliding_window: Tokens that a token of a layer with a window attends to, itself included.
      local_rope_theta: Base of the rotary frequencies in layers with a window.
    """

    layer_types: tuple[LayerType, ...]
    sliding_window: int
    local_rope_theta: float

    def __post_init__(self) -> None:
        if not self.layer_types:
            raise ValueError(f"layer_types is empty; give the types of the first layers, such as ({FULL!r},)")
        super().__post_init__()

    def type_of(self, layer: int) -> LayerType:
        """Return the type of ``layer``, counted from 0."""
        return self.layer_types[layer % len(self.layer_types)]

    def sliding_window_of(self, layer: int) -> int | None:
        """Return the window of ``layer``; ``None`` where it sees all."""
        return self.sliding_window if self.type_of(layer) == SLIDING else None

    def attention(self, layer: int) -> AttentionConfig:
        """Return the self-attention of ``layer``, with the rotary positions of its type."""
        attention = super().attention(layer)
        if self.type_of(layer) == FULL:
            return attention
        local = Rotary(rotated_dim=self.resolved_head_dim, rope_theta=self.local_rope_theta)
        return replace(attention, positions=local)


def read_layer_ropes(
    fields: ConfigFields, values: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the rotary positions of both types of layers.

    Args:
      fields: Fields of a ``config.json``.
      values: Values that were read before.
      defaults: Defaults of the configuration.

    Raises:
      ValueError: Positions of layers with a window are scaled, or a field is not known.
    """
    theta = fields.take("rope_theta", defaults["rope_theta"])
    ropes = ropes_by_type(
        fields.take("rope_parameters", {}),
        {
            FULL: {**fields.take("rope_scaling", {}), "rope_theta": theta},
            SLIDING: {"rope_theta": fields.take("rope_local_base_freq", defaults["local_rope_theta"])},
        },
        max_position_embeddings=values["max_position_embeddings"],
    )
    if ropes[SLIDING].rope_scaling is not None:
        raise ValueError(f"config.json: rope_parameters of {SLIDING} are scaled; only their theta may vary")
    return {
        "rope_theta": ropes[FULL].rope_theta,
        "rope_scaling": ropes[FULL].rope_scaling,
        "local_rope_theta": ropes[SLIDING].rope_theta,
    }


def write_layer_types(config: LayerTypesConfig) -> dict[str, object]:
    """Return the fields of both types of layers."""
    return {
        "layer_types": [config.type_of(layer) for layer in range(config.num_layers)],
        "sliding_window": config.sliding_window,
        "rope_parameters": {
            FULL: rope_parameters(config.rope_theta, config.rope_scaling),
            SLIDING: rope_parameters(config.local_rope_theta, None),
        },
    }


def take_layer_types(fields: ConfigFields, num_layers: int, default: Sequence[LayerType]) -> dict[str, Any]:
    """Return ``layer_types`` of a ``config.json``, as the types of the first layers.

    Args:
      fields: Fields of the file.
      num_layers: Number of layers.
      default: Types that are repeated where the file has none.

    Raises:
      ValueError: They are not the types of so many layers, or a type is not known.
    """
    repeated = tuple(default[layer % len(default)] for layer in range(num_layers))
    types = tuple(fields.take("layer_types", list(repeated)))
    unknown = [each for each in types if each not in (SLIDING, FULL)]
    if unknown or len(types) != num_layers:
        raise ValueError(
            f"config.json: layer_types is {list(types)}; {SLIDING!r} or {FULL!r} is needed for each of {num_layers} "
            "layers"
        )
    return {"layer_types": tuple(default) if types == repeated else period_of(types)}


def period_of(values: Sequence[Value]) -> tuple[Value, ...]:
    """Return the fewest first values whose repetition gives all of them.

    >>> period_of([1, 1, 0, 1, 1, 0, 1])
    (1, 1, 0)
    """
    sizes = range(1, len(values) + 1)
    size = next(size for size in sizes if all(values[i] == values[i % size] for i in range(len(values))))
    return tuple(values[:size])
