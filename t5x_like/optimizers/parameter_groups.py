"""Layer-wise learning-rate decay: layers near the input, pretrained longest, change less.

Howard and Ruder 2018, §3.2, https://arxiv.org/abs/1801.06146; used to fine-tune ELECTRA and XLNet (Clark et al. 2020,
appendix B, https://arxiv.org/abs/2003.10555).
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

from t5x_like.optimizers.adafactor import is_axes

_LAYERS = "layers"


def scale_by_depth(axes: Any, decay: float) -> optax.GradientTransformation:
    """Multiply finished updates by powers of ``decay``, as ELECTRA's code does.

    Of N blocks, embeddings have depth 0, block i (from 0) has depth i + 1, and heads have N + 2. The power is N + 2
    minus the depth: 0 for heads, 2 for the last block, N + 2 for embeddings. Other weights, such as a stack's last
    norm, count as heads. (https://github.com/google-research/electra, ``model/optimization.py``.)

    Args:
      axes: Axis names of the parameters; those of stacked blocks begin with ``"layers"``.
      decay: Factor between neighboring depths, above 0 and at most 1.

    Raises:
      ValueError: ``decay`` is out of range, or there are no stacked blocks.
    """
    if not 0 < decay <= 1:
        raise ValueError(f"layer_decay is {decay}; give a factor above 0 and at most 1, such as 0.8")
    slots = _slots(axes)
    if not slots:
        raise ValueError(
            "layer_decay needs blocks of their own for layers; the trained weights have none, so leave it out"
        )
    for stack in {slot[:-1] for slot in slots}:
        numbers = sorted(int(slot[-1]) for slot in slots if slot[:-1] == stack)
        if numbers != list(range(len(numbers))):
            raise ValueError(
                f"layer_decay counts the blocks of {'/'.join(stack)} from the first, but only "
                f"{', '.join(map(str, numbers))} of its slots are trained; train all, or leave layer_decay out"
            )

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del params
        return jax.tree.map(jnp.multiply, updates, depth_factors(updates, axes, decay)), state

    return optax.GradientTransformation(lambda _: optax.EmptyState(), update)  # pyright: ignore[reportArgumentType]


def depth_factors(params: Any, axes: Any, decay: float) -> Any:
    """Return the factor of each weight: arrays [1, …], or [N, 1, …] for stacked blocks.

    Args:
      params: Parameters, or their updates.
      axes: Their axis names.
      decay: Factor between neighboring depths.
    """
    slots = _slots(axes)
    leaves, tree = jax.tree_util.tree_flatten_with_path(params)
    paths = [tuple(str(getattr(part, "key", part)) for part in path) for path, _ in leaves]
    counts: dict[tuple[str, ...], int] = {}
    for path, (_, leaf) in zip(paths, leaves, strict=True):
        slot = _slot_of(path, slots)
        if slot is not None:
            counts[slot] = leaf.shape[0]
    numbers = _layer_numbers(counts)
    total = {
        stack: sum(count for slot, count in counts.items() if slot[:-1] == stack)
        for stack in {s[:-1] for s in counts}
    }
    deepest = max(total.values(), default=0)

    def factor(path: tuple[str, ...], leaf: jax.Array) -> jax.Array:
        slot = _slot_of(path, slots)
        if slot is None:
            power = jnp.full((1,), float(deepest + 2 if path[0] == "embedding" else 0))
        else:
            power = total[slot[:-1]] + 1 - jnp.asarray(numbers[slot], jnp.float32)
        return (decay**power).reshape(-1, *(1,) * (leaf.ndim - 1)) if leaf.ndim else (decay**power)[0]

    return tree.unflatten([factor(path, leaf) for path, (_, leaf) in zip(paths, leaves, strict=True)])


def _slots(axes: Any) -> set[tuple[str, ...]]:
    """Return the paths of stacked blocks, such as ``("encoder", "layers", "0")``."""
    found = set()
    for path, names in jax.tree_util.tree_flatten_with_path(axes, is_leaf=is_axes)[0]:
        parts = tuple(str(getattr(part, "key", part)) for part in path)
        if names[:1] == (_LAYERS,) and _LAYERS in parts:
            found.add(parts[: parts.index(_LAYERS) + 2])
    return found


def _slot_of(path: tuple[str, ...], slots: set[tuple[str, ...]]) -> tuple[str, ...] | None:
    return next((path[:size] for size in range(len(path)) if path[:size] in slots), None)


def _layer_numbers(counts: Mapping[tuple[str, ...], int]) -> dict[tuple[str, ...], list[int]]:
    """Return the layer numbers of each slot: slots of equal length alternate, others follow each other."""
    numbers: dict[tuple[str, ...], list[int]] = {}
    for stack in {slot[:-1] for slot in counts}:
        slots = sorted((slot for slot in counts if slot[:-1] == stack), key=lambda slot: int(slot[-1]))
        if len({counts[slot] for slot in slots}) == 1:
            for offset, slot in enumerate(slots):
                numbers[slot] = [turn * len(slots) + offset for turn in range(counts[slot])]
            continue
        start = 0
        for slot in slots:
            numbers[slot] = list(range(start, start + counts[slot]))
            start += counts[slot]
    return numbers
