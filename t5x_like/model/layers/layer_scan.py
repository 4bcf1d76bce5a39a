"""Scan over stacked layers, some of which may be frozen: no backward pass is computed for their weights."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from t5x_like.model.automatic_choices import note_choice, platform
from t5x_like.model.layers.linear import narrow_gradients
from t5x_like.model.layers.modules import is_weight

# Metadata of a stacked weight of which some layers are trained: a bool for each. Set by ``parameters.mark_trained``.
TRAINED_ROWS = "trained_rows"

# Whether layers run in a loop.
LayerLoop: TypeAlias = bool | Literal["auto"]


def scan_layers(
    body: Callable[[PyTree, PyTree], tuple[PyTree, PyTree]],
    carry: PyTree,
    layers: PyTree,
    *,
    loop: LayerLoop = True,
) -> tuple[PyTree, PyTree]:
    """Run ``jax.lax.scan`` over ``layers``, as one scan for each run of layers that train the same weights.

    JAX differentiates a scan only by what depends on trained weights, and by a stacked weight as a whole. So frozen
    layers need a scan of their own, in which gradients stop at their weights.

    Args:
      body: Runs a layer: ``(carry, layer)`` to ``(carry, output)``.
      carry: Input of the first layer.
      layers: Weights and others, with a leading layers axis.
      loop: ``False`` writes the layers one after another into the program; ``"auto"`` does so on GPUs.
    """
    unroll = not _loops(loop)
    if not unroll and platform() == "tpu":  # other compilers may compute these gradients in more digits
        layers = narrow_gradients(layers, jax.tree.leaves(carry)[0].dtype)
    edges = _edges(layers)
    if len(edges) == 2:
        return jax.lax.scan(body, carry, layers, unroll=unroll or 1)
    outputs = []
    for start, stop in pairwise(edges):
        carry, output = jax.lax.scan(body, carry, _rows(layers, start, stop), unroll=unroll or 1)
        outputs.append(output)
    return carry, jax.tree.map(lambda *parts: jnp.concatenate(parts), *outputs)


def _loops(loop: LayerLoop) -> bool:
    """Return whether layers run in a loop.

    On GPUs they don't: a loop copies what the backward pass needs of each layer into arrays of all layers and back.
    """
    if loop != "auto":
        return loop
    loop = platform() != "gpu"
    note_choice("scan_layers", loop, f"on a {platform().upper()}")
    return loop


def _edges(layers: PyTree) -> list[int]:
    """Return the layers at which other weights begin to train, from 0 to the number of layers."""
    edges = {0, jax.tree.leaves(layers)[0].shape[0]}
    for leaf in jax.tree.leaves(layers, is_leaf=is_weight):
        trained = _trained_rows(leaf)
        if trained is not None:
            edges |= {layer for layer in range(1, len(trained)) if trained[layer] != trained[layer - 1]}
    return sorted(edges)


def _rows(layers: PyTree, start: int, stop: int) -> PyTree:
    def rows(leaf: Any) -> PyTree:
        trained = _trained_rows(leaf)
        is_frozen = trained is not None and not trained[start]

        def of_array(array: jax.Array) -> jax.Array:
            return jax.lax.stop_gradient(array[start:stop]) if is_frozen else array[start:stop]

        return jax.tree.map(of_array, leaf)

    return jax.tree.map(rows, layers, is_leaf=is_weight)


def _trained_rows(leaf: Any) -> tuple[bool, ...] | None:
    return leaf.get_metadata().get(TRAINED_ROWS) if is_weight(leaf) else None
