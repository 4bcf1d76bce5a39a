"""Parameter-efficient tuning: few further weights that train in place of a model's own, one file for each method.

An adapter's configuration attaches its weights to a built model, inside the tree of the model's own weights. So a model
with an adapter has the paths of the model without, and some more.
"""

from typing import TypeAlias

from t5x_like.model.adapters.bottleneck import BottleneckAdapter
from t5x_like.model.adapters.ia3 import IA3
from t5x_like.model.adapters.lora import LoRA
from t5x_like.model.adapters.prefix import PrefixTuning
from t5x_like.model.adapters.prompt import PromptTuning

AdapterConfig: TypeAlias = LoRA | BottleneckAdapter | PrefixTuning | PromptTuning | IA3

__all__ = ["IA3", "AdapterConfig", "BottleneckAdapter", "LoRA", "PrefixTuning", "PromptTuning"]
