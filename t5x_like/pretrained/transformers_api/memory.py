"""Memories of earlier segments, as transformers hands them over and as ours are laid out."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp


def our_memory(inputs: Mapping[str, Any]) -> jax.Array | None:
    """``mems``, time-major [time, batch, model] for each layer, as [layers, batch, time, model]."""
    if "mems" not in inputs:
        return None
    return jnp.swapaxes(jnp.stack([jnp.asarray(layer) for layer in inputs["mems"]]), 1, 2)


def their_memory(memory: jax.Array | None) -> tuple[jax.Array, ...]:
    """The inverse: a tuple of layers."""
    assert memory is not None, "it was asked for"
    return tuple(jnp.swapaxes(memory, 1, 2))
