"""Calls of recurrent models: Transformer-XL's classes."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from t5x_like.index_checks import IGNORED
from t5x_like.pretrained.transformers_api.call import Context, our_memory, their_memory
from t5x_like.pretrained.transformers_api.call_arguments import numbers, token_rows
from t5x_like.pretrained.transformers_api.head_outputs import (
    choices_as_rows,
    choices_of,
    ends_of_sequences,
    scores_at_ends,
    scores_of,
)
from t5x_like.pretrained.transformers_api.label_arguments import read_labels

ARGUMENTS: tuple[str, ...] = ("input_ids", "mems", "labels", "start_positions", "end_positions")


def read(arguments: dict[str, PyTree], context: Context) -> dict[str, PyTree]:
    """Return the checked arguments as numpy arrays by name."""
    config = context.config
    arguments, num_choices = choices_as_rows(arguments, config)
    ids = token_rows(arguments["input_ids"], "input_ids", config.vocab_size)
    labels = read_labels(arguments, config, ids.shape, num_choices=choices_of(num_choices), are_shifted=True)
    inputs: dict[str, Any] = {"input_ids": ids, **labels, **num_choices}
    inputs |= ends_of_sequences(ids, None, context)
    if arguments.get("mems") is not None:
        inputs["mems"] = tuple(numbers(layer, "mems") for layer in arguments["mems"])
    return inputs


def compute(model: Any, config: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return outputs under transformers' names.

    Logits are log-probabilities; labels are shifted in here.
    Without ``mems`` there are zeros, which are looked at. ``losses`` are in transformers' order: with cutoffs that is
    cluster by cluster, and not where their labels stood.
    """
    memory = our_memory(inputs)
    if memory is None and config.memory_length:
        memory = model.empty_memory(len(inputs["input_ids"]))
    ran = model.read(inputs["input_ids"], memory=memory, keep_memory=True)
    outputs: dict[str, Any] = {"last_hidden_state": ran.output, "mems": their_memory(ran.memory)}
    if model.softmax is None:
        scores = scores_at_ends(model, ran.output, inputs) or model.heads(ran.output, None, None)[2]
        return outputs | scores_of(config, None, scores, inputs)
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
