"""Weights of adapters among those of a model: their paths, fresh ones, merging, and comparison of adapters."""

import dataclasses
import fnmatch
from dataclasses import replace
from typing import Any

import jax

from t5x_like.model import parameters
from t5x_like.model.adapters import AdapterConfig
from t5x_like.model.adapters.contrastive import ContrastivePrefixes
from t5x_like.model.adapters.prompt import PromptTuning
from t5x_like.model.model_traits import traits_of
from t5x_like.model.parameters import ModelConfig

# Heads that fine-tuning draws afresh, so that an adapter's training has to include them.
_TASK_HEADS = ("heads/scores/*", "heads/pooler/*")

# Fields of adapters that don't change what their weights mean.
_FREE = ("dropout_rate",)


def without_adapter(config: Any) -> Any:
    """Return the configuration of the model that an adapter is attached to."""
    return replace(config, adapter=None) if adapter_of(config) is not None else config


def adapter_of(config: object) -> AdapterConfig | None:
    """Return a model's adapter; ``None`` for models without one."""
    return traits_of(config).adapter


def adapter_paths(config: ModelConfig) -> frozenset[str]:
    """Return the paths of an adapter's weights; none for a model without one."""
    if adapter_of(config) is None:
        return frozenset()
    with_it, without = (
        parameters.flatten(parameters.abstract(each)[1]) for each in (config, without_adapter(config))
    )
    return frozenset(with_it.keys() - without.keys())


def num_virtual_tokens(config: ModelConfig) -> int:
    """Return the number of positions that prompt tuning takes; 0 for models without it."""
    adapter = adapter_of(config)
    return adapter.length if isinstance(adapter, PromptTuning) else 0


def attributes_of(config: object) -> tuple[str, ...]:
    """Return the tasks that have a prefix each; none for models without contrastive prefixes."""
    adapter = adapter_of(config)
    return adapter.attributes if isinstance(adapter, ContrastivePrefixes) else ()


def trainable_by_default(config: ModelConfig) -> tuple[str, ...]:
    """Return the patterns of trained weights where none are given.

    They are those that the model names, or with an adapter its own and new heads.
    """
    adapter = adapter_of(config)
    paths = parameters.flatten(parameters.abstract(config)[1])
    if adapter is None:
        return traits_of(config).trained_by_default(paths)
    return tuple(pattern for pattern in (*adapter.trainable, *_TASK_HEADS) if fnmatch.filter(paths, pattern))


def draw_adapter(config: Any, base: parameters.Parameters, key: jax.Array) -> dict[str, jax.Array]:
    """Draw an adapter's fresh weights for a model's weights, which some adapters start from.

    Args:
      config: The model with the adapter.
      base: Weights of the model without it.
      key: Random key.

    Returns:
      Weights by path, those of the adapter alone.
    """
    graphdef = parameters.abstract(without_adapter(config))[0]
    paths = adapter_paths(config)

    @jax.jit
    def draw(base: parameters.Parameters, key: jax.Array) -> dict[str, jax.Array]:
        model = config.adapter.attach(parameters.merge(graphdef, base), key)
        flat = parameters.flatten(parameters.split(model)[1])
        return {path: flat[path] for path in sorted(paths)}

    return draw(base, key)


def merge_adapter(config: Any, params: parameters.Parameters) -> tuple[Any, parameters.Parameters]:
    """Return configuration and weights of a model without adapter that computes the same.

    Args:
      config: Configuration of a model, with or without adapter.
      params: Its weights.

    Raises:
      ValueError: The adapter is more than a change of weights.
    """
    adapter = adapter_of(config)
    if adapter is None:
        return config, params
    merge = getattr(adapter, "merge", None)
    if merge is None:
        adds = getattr(adapter, "adds", "more than a change of weights")
        raise ValueError(
            f"{type(adapter).__name__} adds {adds}, so it can't be merged into the model's weights; use the "
            "run itself, or train LoRA or IA3, which can be merged"
        )
    model = parameters.merge(parameters.abstract(config)[0], params)
    return without_adapter(config), parameters.split(merge(model))[1]


def adapter_differences(saved: Any, wanted: Any) -> list[str]:
    """Return a line for each field in which two adapters differ, so that one can't use the weights of the other.

    Args:
      saved: Adapter of a checkpoint.
      wanted: Adapter of the model that reads it.
    """
    if type(saved) is not type(wanted):
        return [f"adapter: {saved!r} there, {wanted!r} here"]
    return [
        f"adapter.{field.name}: {getattr(saved, field.name)!r} there, {getattr(wanted, field.name)!r} here"
        for field in (dataclasses.fields(wanted) if wanted is not None else ())
        if field.name not in _FREE and getattr(saved, field.name) != getattr(wanted, field.name)
    ]
