"""What transformers' XLNet and Transformer-XL answer to their arguments, computed by ours: pure, to be jitted.

Memories are Hugging Face's ``mems`` here: one array a layer, or one of all, time-major [time, batch, model].
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from t5x_like.checkpoints.arguments import IGNORED
from t5x_like.model.families.recurrent import Recurrent
from t5x_like.model.families.two_stream import TwoStream
from t5x_like.model.zoo.transfo_xl import TransfoXLConfig
from t5x_like.model.zoo.xlnet import XLNetConfig


def call_xlnet(model: TwoStream, config: XLNetConfig, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """``input_ids`` and, if given, ``attention_mask, perm_mask, target_mapping, token_type_ids, mems, labels``.

    Logits are of all positions, or of the targets of ``target_mapping``; labels are not shifted. Where
    ``output_hidden_states``, each layer's content is followed by its queries if there are targets.
    """
    asked = {name: value for name, value in arguments.items() if value is not None}
    tokens = jnp.asarray(asked["input_ids"], jnp.int32)
    mapping, types, labels = (_get(asked, name) for name in ("target_mapping", "token_type_ids", "labels"))
    read = model.read(
        tokens,
        mask=_xlnet_mask(asked),
        token_types=None if types is None else types.astype(jnp.int32),
        with_queries=mapping is not None,
        target_mapping=None if mapping is None else mapping.astype(jnp.float32),
        memory=_our_memory(asked),
        keep_memory=True,
        collect_hidden=bool(asked.get("output_hidden_states")),
    )
    logits, _, scores = model.heads(read.output, model.embedding, None)
    outputs: dict[str, Any] = {"last_hidden_state": read.output, "mems": _their_memory(read.memory)}
    if read.hidden is not None:
        outputs["hidden_states"] = _interleaved(read.hidden, read.query_hidden)
    if logits is not None:
        outputs["logits"] = logits[..., : config.vocab_size]
    if scores:
        outputs["logits"] = scores["classes"]
    if labels is not None and "logits" in outputs:
        problem = config.problem if scores else "single_label"
        outputs["loss"] = _loss(outputs["logits"], labels, problem)
    return outputs


def call_transfo_xl(
    model: Recurrent, config: TransfoXLConfig, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """``input_ids`` and, if given, ``mems, labels``. Logits are log-probabilities; labels are shifted in here.

    Without ``mems`` there are zeros, which are looked at. ``losses`` are in transformers' order: with cutoffs that is
    cluster by cluster, and not where their labels stood.
    """
    asked = {name: value for name, value in arguments.items() if value is not None}
    tokens, labels = jnp.asarray(asked["input_ids"], jnp.int32), _get(asked, "labels")
    memory = _our_memory(asked)
    if memory is None and config.memory_length:
        memory = model.empty_memory(len(tokens))
    read = model.read(
        tokens,
        memory=memory,
        keep_memory=True,
        collect_hidden=bool(asked.get("output_hidden_states")),
    )
    outputs: dict[str, Any] = {"last_hidden_state": read.output, "mems": _their_memory(read.memory)}
    if read.hidden is not None:
        outputs["hidden_states"] = tuple(read.hidden)
    if model.softmax is not None:
        outputs["logits"] = outputs["prediction_scores"] = model.scores(read.output)
        if labels is not None:
            outputs["losses"] = _losses_by_cluster(outputs["logits"], labels, config.cutoffs)
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


def _get(asked: Mapping[str, Any], name: str) -> jax.Array | None:
    return jnp.asarray(asked[name]) if name in asked else None


def _xlnet_mask(asked: Mapping[str, Any]) -> jax.Array | None:
    """Padding is seen by nobody; ``perm_mask`` is 1 where i must not look at j."""
    mask = None
    if "attention_mask" in asked:
        mask = (jnp.asarray(asked["attention_mask"]) > 0)[:, None, None, :]
    if "perm_mask" in asked:
        allowed = (jnp.asarray(asked["perm_mask"]) == 0)[:, None]
        mask = allowed if mask is None else allowed & mask
    return mask


def _our_memory(asked: Mapping[str, Any]) -> jax.Array | None:
    """[layers, time, batch, model] to [layers, batch, time, model]."""
    if "mems" not in asked:
        return None
    return jnp.swapaxes(jnp.stack([jnp.asarray(layer) for layer in asked["mems"]]), 1, 2)


def _their_memory(memory: jax.Array | None) -> tuple[jax.Array, ...]:
    assert memory is not None, "it was asked for"
    return tuple(jnp.swapaxes(memory, 1, 2))


def _interleaved(content: jax.Array, queries: jax.Array | None) -> tuple[jax.Array, ...]:
    if queries is None:
        return tuple(content)
    return tuple(stream for pair in zip(content, queries, strict=True) for stream in pair)


def _loss(logits: jax.Array, labels: jax.Array, problem: str | None) -> jax.Array:
    """Mean over labels. Without a ``problem`` it is what the labels look like, as in transformers."""
    if problem is None:
        is_class = jnp.issubdtype(labels.dtype, jnp.integer)
        problem = "regression" if logits.shape[-1] == 1 else "single_label" if is_class else "multi_label"
    if problem == "regression":
        return jnp.mean(jnp.square(logits.reshape(-1) - labels.reshape(-1)))
    if problem == "multi_label":
        return -jnp.mean(labels * jax.nn.log_sigmoid(logits) + (1 - labels) * jax.nn.log_sigmoid(-logits))
    learned = labels != IGNORED
    log_probs = jax.nn.log_softmax(logits, axis=-1)
    chosen = jnp.take_along_axis(log_probs, jnp.where(learned, labels, 0)[..., None], axis=-1)[..., 0]
    return -jnp.sum(chosen * learned) / jnp.sum(learned)
