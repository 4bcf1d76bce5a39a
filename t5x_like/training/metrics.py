"""Training metrics: sums kept on the device, turned into means when they are logged."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from t5x_like.model.families.family import Measure

_LARGEST_EXPONENT = 700.0  # of which float64 holds the exponential


class Totals(NamedTuple):
    """Sums since the last log line. They are part of the checkpoint, so a resumed run logs the same numbers."""

    loss: jax.Array  # [] weighted sum over target tokens, z-loss included
    cross_entropy: jax.Array  # [] weighted sum, without z-loss
    z_loss: jax.Array  # [] weighted sum
    correct: jax.Array  # [] weighted count of targets that were the most likely token
    target_tokens: jax.Array  # [] sum of loss weights
    tokens: jax.Array  # [] real tokens seen, both streams
    sequence_loss: jax.Array  # [] of a head (cross entropy or squared error), summed over labeled sequences
    sequence_correct: jax.Array  # [] correct classes, choices and spans (both ends), or numbers within 0.5
    sequences: jax.Array  # [] labeled sequences
    balance_loss: jax.Array  # [] load-balancing loss of experts' routers, summed over steps
    gradient_norm: jax.Array  # [] sum over steps
    steps: jax.Array  # []
    skipped: jax.Array  # [] steps that changed nothing, as they were not finite; the sums are without them
    task_loss: jax.Array  # [T] cross entropy summed for each task
    task_tokens: jax.Array  # [T]
    measures: dict[str, Measure]  # of models that have some of their own


def zero_totals(num_tasks: int, measures: Iterable[str] = ()) -> Totals:
    """Return sums of nothing.

    Args:
      num_tasks: Number of tasks in the mixture.
      measures: Names of a model's own losses and means.
    """
    scalars = (jnp.zeros((), jnp.float32) for _ in range(13))
    tasks = (jnp.zeros((num_tasks,), jnp.float32) for _ in range(2))
    own = {name: Measure(jnp.zeros((), jnp.float32), jnp.zeros((), jnp.float32)) for name in measures}
    return Totals(*scalars, *tasks, measures=own)


def add(left: Totals, right: Totals) -> Totals:
    """Sum two totals.

    Args:
      left: Sums of some rows.
      right: Sums of other rows.
    """
    return jax.tree.map(jnp.add, left, right)


def summarize(
    totals: Totals, task_names: Sequence[str] = (), *, head: tuple[str, int, str | None] | None = None
) -> dict[str, float]:
    """Return means per target token (losses in nats) and per step (gradient norm), and counts.

    Cross entropies of a model's own have a perplexity each. Where neither tokens nor labels are learned, the means are
    those of the method alone, which may be called ``loss`` and ``accuracy``.

    Args:
      totals: Sums over some steps.
      task_names: Names of the mixture's tasks. If there are several, their cross entropies are given one by one.
      head: Head that reads whole sequences, its number of scores, and "multi_label" for several labels of a row. With
        one score and one label it predicts a number, as in transformers: its loss is the squared error.
    """
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
        predicts_number = head == ("sequence_classification", 1, None)
        names = ("squared_error", "share_within_0.5") if predicts_number else ("cross_entropy", "accuracy")
        means = [float(each) / float(sums.sequences) for each in (sums.sequence_loss, sums.sequence_correct)]
        if sums.target_tokens == 0:  # nothing else is learned
            if predicts_number:
                summary = {"target_tokens": 0.0}
            summary |= {"loss": means[0], **dict(zip(names, means, strict=True))}
        summary |= {f"sequence_{name}": mean for name, mean in zip(names, means, strict=True)}
    if sums.skipped > 0:
        summary["skipped_steps"] = float(sums.skipped)
    if sums.steps > 0:
        summary["gradient_norm"] = float(sums.gradient_norm) / float(sums.steps)
        if sums.balance_loss > 0:
            summary["balance_loss"] = float(sums.balance_loss) / float(sums.steps)
    if (
        sums.target_tokens == 0
        and sums.sequences == 0
        and any(each.count > 0 for each in sums.measures.values())
    ):
        for name in ("loss", "cross_entropy", "z_loss", "accuracy"):  # of nothing; a method has its own
            del summary[name]
    for name, measure in sums.measures.items():
        if measure.count > 0:
            summary[name] = float(measure.total) / float(measure.count)
            if name.endswith("cross_entropy"):
                perplexity = math.exp(min(summary[name], _LARGEST_EXPONENT))
                summary[name.replace("cross_entropy", "perplexity")] = perplexity
    if len(task_names) > 1:
        for name, loss, tokens in zip(task_names, sums.task_loss, sums.task_tokens, strict=True):
            if tokens > 0:
                summary[f"cross_entropy/{name}"] = float(loss) / float(tokens)
    return summary
