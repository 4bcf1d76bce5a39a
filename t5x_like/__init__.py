"""t5x_like: train, fine-tune and evaluate the whole Transformer family in JAX.

The public door. Names are loaded on first use, so that ``import t5x_like`` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from t5x_like.pretrained.transformers_api.pretrained_model import export_hugging_face, from_pretrained

_DOORS = {
    "from_pretrained": "t5x_like.pretrained.transformers_api.pretrained_model",
    "export_hugging_face": "t5x_like.pretrained.transformers_api.pretrained_model",
}

__all__ = ["__version__", "export_hugging_face", "from_pretrained"]


def __getattr__(name: str) -> Any:
    if name not in _DOORS:
        raise AttributeError(f"module 't5x_like' has no attribute {name!r}")
    return getattr(importlib.import_module(_DOORS[name]), name)
