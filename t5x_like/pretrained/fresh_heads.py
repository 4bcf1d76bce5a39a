"""Heads that fine-tuning needs and a checkpoint lacks."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax

from t5x_like.model import parameters
from t5x_like.model.zoo.architectures import architecture_of


def with_head(config: Any, kind: str, num_labels: int, *, where: str) -> Any:
    """Returns the same configuration with another head.

    Args:
      config: the model.
      kind: the head, by transformers' name.
      num_labels: its outputs.
      where: the model's directory, for messages.

    Raises:
      ValueError: the model can't have such a head.
    """
    if kind not in architecture_of(config).tasks or not hasattr(config, "num_labels"):
        raise ValueError(
            f"{where} is a {type(config).__name__}, which has no head for {kind.replace('_', ' ')}; take an encoder "
            "such as BERT, or let the model write its answers (without layout='encoder')"
        )
    if kind == "multiple_choice":
        return replace(config, task=kind)
    return replace(config, task=kind, num_labels=num_labels)


def with_fresh_heads(
    config: Any, params: Any, fresh: tuple[str, ...], where: str, seed: int, place: Callable[..., Any]
) -> dict[str, Any]:
    """Adds freshly initialized heads to weights, with a warning.

    Args:
      config: the model that has the heads.
      params: the weights without them.
      fresh: paths of the weights to draw.
      where: the checkpoint's directory, for the warning.
      seed: of the drawing.
      place: puts an array where its path belongs, as ``place(path, array)``.
    """
    warnings.warn(
        f"{where} has no weights for {', '.join(fresh)}; they are freshly drawn from seed {seed}, so train this head "
        "before you use it",
        stacklevel=4,
    )

    def draw(key: jax.Array) -> dict[str, Any]:
        drawn = parameters.flatten(parameters.split(config.build(key))[1])
        return {path: drawn[path] for path in fresh}

    drawn = jax.jit(draw)(jax.random.key(seed))
    placed = {path: place(path, array) for path, array in drawn.items()}
    return parameters.unflatten(parameters.flatten(params) | placed)
