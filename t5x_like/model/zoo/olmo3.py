"""OLMo 3 (OLMo Team 2025, https://arxiv.org/abs/2512.13961): OLMo 2 with windows in three of four layers."""

from collections.abc import Mapping
from typing import Any

from t5x_like.config_class import config_class
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.layer_types import (
    FULL,
    SLIDING,
    LayerType,
    LayerTypesConfig,
    read_layer_ropes,
    take_layer_types,
    write_layer_types,
)
from t5x_like.model.zoo.llama_like_files import llama_like
from t5x_like.model.zoo.olmo2 import NORMS, SPECIAL_IDS, Olmo2Config

_TYPES = (SLIDING, SLIDING, SLIDING, FULL)


@config_class
class Olmo3Config(Olmo2Config, LayerTypesConfig):
    """An OLMo 3 of any size: ``Olmo2Config`` and ``LayerTypesConfig``."""

    layer_types: tuple[LayerType, ...] = _TYPES
    sliding_window: int = 4096
    rope_theta: float = 500_000.0
    local_rope_theta: float = 500_000.0


def _read(fields: ConfigFields, values: Mapping[str, Any]) -> dict[str, Any]:
    return take_layer_types(fields, values["num_layers"], _TYPES)


OLMO3 = llama_like(
    "olmo3",
    Olmo3Config,
    {
        "Olmo3ForCausalLM": "causal_lm",
        "Olmo3ForSequenceClassification": "sequence_classification",
        "Olmo3Model": "base",
    },
    own_fields=("attention_bias", "sliding_window"),
    read=_read,
    write=write_layer_types,
    rope=read_layer_ropes,
    norms=NORMS,
    special_ids=SPECIAL_IDS,
)
