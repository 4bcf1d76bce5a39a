"""What is measured during training: sums kept on the device, turned into readable numbers when they are logged."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from t5x_like.model.families.family import Measure


class Totals(NamedTuple):
    """Sums since the last log line. They are part of the checkpoint, so a resumed run logs the same numbers."""

    loss: jax.Array  # [] weighted sum over target tokens, z-loss included
    cross_entropy: jax.Array  # [] weighted sum, without z-loss
    z_loss: jax.Array  # [] weighted sum
    correct: jax.Array  # [] weighted count of targets that were the most likely token
    target_tokens: jax.Array  # [] sum of loss weights
    tokens: jax.Array  # [] real tokens seen, both streams
    sequence_loss: jax.Array  # [] of a head (cross entropy, or squared errors), summed over labeled sequences
    sequence_correct: jax.Array  # [] count of those told right: class, choice, both ends, a number within 0.5
    sequences: jax.Array  # [] labeled sequences
    balance_loss: jax.Array  # [] what routers of experts were charged, summed over steps
    gradient_norm: jax.Array  # [] sum over steps
    steps: jax.Array  # []
    task_loss: jax.Array  # [T] cross entropy summed for each task
    task_tokens: jax.Array  # [T]
    measures: dict[str, Measure]  # of models that have some of their own


def zero_totals(num_tasks: int, measures: Iterable[str] = ()) -> Totals:
    """Nothing measured yet; ``measures`` are the names of a model's own."""
    scalars = (jnp.zeros((), jnp.float32) for _ in range(12))
    tasks = (jnp.zeros((num_tasks,), jnp.float32) for _ in range(2))
    own = {name: Measure(jnp.zeros((), jnp.float32), jnp.zeros((), jnp.float32)) for name in measures}
    return Totals(*scalars, *tasks, measures=own)


def add(left: Totals, right: Totals) -> Totals:
    """Sums two totals."""
    return jax.tree.map(jnp.add, left, right)


def summarise(totals: Totals, task_names: tuple[str, ...] = ()) -> dict[str, Any]:
    """Means per target token (losses in nats), means per step (gradient norm), and counts."""
    sums = jax.tree.map(np.asarray, totals)
    weight = max(float(sums.target_tokens), 1e-9)
    summary: dict[str, Any] = {
        "loss": float(sums.loss) / weight,
        "cross_entropy": float(sums.cross_entropy) / weight,
        "z_loss": float(sums.z_loss) / weight,
        "accuracy": float(sums.correct) / weight,
        "target_tokens": float(sums.target_tokens),
    }
    if sums.sequences > 0:
        summary["sequence_cross_entropy"] = float(sums.sequence_loss) / float(sums.sequences)
        summary["sequence_accuracy"] = float(sums.sequence_correct) / float(sums.sequences)
        if sums.target_tokens == 0:  # nothing else is learned
            loss, accuracy = summary["sequence_cross_entropy"], summary["sequence_accuracy"]
            summary |= {"loss": loss, "cross_entropy": loss, "accuracy": accuracy}
    if sums.steps > 0:
        summary["gradient_norm"] = float(sums.gradient_norm) / float(sums.steps)
        if sums.balance_loss > 0:
            summary["balance_loss"] = float(sums.balance_loss) / float(sums.steps)
    for name, measure in sums.measures.items():
        if measure.count > 0:
            summary[name] = float(measure.total) / float(measure.count)
    if len(task_names) > 1:
        for name, loss, tokens in zip(task_names, sums.task_loss, sums.task_tokens, strict=True):
            if tokens > 0:
                summary[f"cross_entropy/{name}"] = float(loss) / float(tokens)
    return summary
