"""Calls of recurrent models: Transformer-XL's classes."""

from typing import Any

import jax
import jax.numpy as jnp

from t5x_like.checkpoints.arguments import IGNORED, numbers, token_rows
from t5x_like.checkpoints.calls.call import Context, hidden_states
from t5x_like.checkpoints.calls.memory import our_memory, their_memory

ARGUMENTS: tuple[str, ...] = ("input_ids", "mems", "labels")


def read(given: dict[str, Any], context: Context) -> dict[str, Any]:
    """See ``Call.read``."""
    inputs: dict[str, Any] = {
        "input_ids": token_rows(given["input_ids"], "input_ids", context.config.vocab_size)
    }
    if given.get("labels") is not None:
        inputs["labels"] = token_rows(given["labels"], "labels", context.config.vocab_size, is_label=True)
    if given.get("mems") is not None:
        inputs["mems"] = tuple(numbers(layer, "mems") for layer in given["mems"])
    return inputs


def compute(model: Any, config: Any, inputs: dict[str, Any], collect_hidden: bool) -> dict[str, Any]:
    """See ``Call.compute``. Logits are log-probabilities; labels are shifted in here.

    Without ``mems`` there are zeros, which are looked at. ``losses`` are in transformers' order: with cutoffs that is
    cluster by cluster, and not where their labels stood.
    """
    memory = our_memory(inputs)
    if memory is None and config.memory_length:
        memory = model.empty_memory(len(inputs["input_ids"]))
    ran = model.read(inputs["input_ids"], memory=memory, keep_memory=True, collect_hidden=collect_hidden)
    outputs: dict[str, Any] = {"last_hidden_state": ran.output, "mems": their_memory(ran.memory)}
    outputs |= hidden_states(ran.hidden, "hidden_states")
    if model.softmax is not None:
        outputs["logits"] = outputs["prediction_scores"] = model.scores(ran.output)
        if "labels" in inputs:
            outputs["losses"] = _losses_by_cluster(outputs["logits"], inputs["labels"], config.cutoffs)
            outputs["loss"] = jnp.sum(outputs["losses"]) / jnp.sum(outputs["losses"] != 0)
    return outputs


def _losses_by_cluster(log_probs: jax.Array, labels: jax.Array, cutoffs: tuple[int, ...]) -> jax.Array:
    """[B, L - 1]; with cutoffs, labels that are ignored come last, with a loss of 0."""
    labels = labels[:, 1:]
    learned = labels != IGNORED
    ids = jnp.where(learned, labels, 0)
    chosen = jnp.take_along_axis(log_probs[:, :-1], ids[..., None], axis=-1)[..., 0]
    losses = jnp.where(learned, -chosen, 0.0)
    if not cutoffs:
        return losses
    clusters = jnp.searchsorted(jnp.asarray(cutoffs), ids, side="right")
    order = jnp.argsort(jnp.where(learned, clusters, len(cutoffs) + 1).reshape(-1), stable=True)
    return losses.reshape(-1)[order].reshape(losses.shape)
