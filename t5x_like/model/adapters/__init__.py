"""Parameter-efficient tuning: few further weights that train in place of a model's own, one file for each method.

An adapter's configuration attaches its weights to a built model, inside the tree of the model's own weights. So a model
with an adapter has the paths of the model without, and some more.
"""

from typing import Protocol, TypeAlias, runtime_checkable

import jax
from flax import nnx

from t5x_like.model.adapters.bottleneck import BottleneckAdapter
from t5x_like.model.adapters.contrastive import ContrastivePrefixes
from t5x_like.model.adapters.ia3 import IA3
from t5x_like.model.adapters.lora import LoRA
from t5x_like.model.adapters.prefix import PrefixTuning
from t5x_like.model.adapters.prompt import PromptTuning


@runtime_checkable
class Adapter(Protocol):
    """Configuration of an adapter: a ``config_class``, also of a user. One with a method ``merge`` can be merged."""

    @property
    def trainable(self) -> tuple[str, ...]:
        """Patterns of the weights that train."""
        ...

    def attach(self, model: nnx.Module, key: jax.Array) -> nnx.Module:
        """Give a built model the adapter's weights.

        Args:
          model: A model, whose own weights keep their paths.
          key: Random key of fresh weights.

        Returns:
          The model.
        """
        ...


AdapterConfig: TypeAlias = (
    LoRA | BottleneckAdapter | PrefixTuning | ContrastivePrefixes | PromptTuning | IA3 | Adapter
)

__all__ = [
    "IA3",
    "Adapter",
    "AdapterConfig",
    "BottleneckAdapter",
    "ContrastivePrefixes",
    "LoRA",
    "PrefixTuning",
    "PromptTuning",
]
