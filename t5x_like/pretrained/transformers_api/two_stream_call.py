"""Calls of two-stream models: XLNet's classes."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.pretrained.transformers_api.call import Context, our_memory, their_memory
from t5x_like.pretrained.transformers_api.call_arguments import numbers, token_rows
from t5x_like.pretrained.transformers_api.head_outputs import choices_as_rows, choices_of, scores_of
from t5x_like.pretrained.transformers_api.label_arguments import read_labels

ARGUMENTS: tuple[str, ...] = (
    "input_ids",
    "attention_mask",
    "mems",
    "perm_mask",
    "target_mapping",
    "token_type_ids",
    "labels",
    "start_positions",
    "end_positions",
)


def read(arguments: dict[str, PyTree], context: Context) -> dict[str, PyTree]:
    """Return the checked arguments as numpy arrays by name.

    ``perm_mask`` [B, L, L] is 1 where a token must not look at another, ``target_mapping`` [B, P, L] is 1 where the
    P-th target is.
    """
    arguments, num_choices = choices_as_rows(arguments, context.config)
    ids = token_rows(arguments["input_ids"], "input_ids", context.config.vocab_size)
    inputs: dict[str, Any] = {"input_ids": ids, **num_choices}
    batch, length = ids.shape
    shapes = {
        "attention_mask": (batch, length),
        "token_type_ids": (batch, length),
        "perm_mask": (batch, length, length),
        "target_mapping": (batch, None, length),
    }
    for name in ("attention_mask", "perm_mask", "target_mapping", "token_type_ids"):
        if arguments.get(name) is not None:
            inputs[name] = numbers(arguments[name], name)
            wanted, shape = shapes.get(name, inputs[name].shape), inputs[name].shape
            if len(shape) != len(wanted) or any(
                w not in (None, n) for w, n in zip(wanted, shape, strict=True)
            ):
                raise ValueError(f"{name} has shape {shape}; for ids of shape {ids.shape} give {wanted}")
    scored = inputs["target_mapping"].shape[:2] if "target_mapping" in inputs else ids.shape
    inputs |= read_labels(arguments, context.config, scored, num_choices=choices_of(num_choices))
    if arguments.get("mems") is not None:
        inputs["mems"] = tuple(numbers(layer, "mems") for layer in arguments["mems"])
    return inputs


def compute(model: Any, config: CommonConfig, inputs: dict[str, PyTree]) -> dict[str, PyTree]:
    """Return outputs under transformers' names.

    Logits are of all positions, or of the targets of ``target_mapping``; labels are not shifted.
    """
    mapping, types = inputs.get("target_mapping"), inputs.get("token_type_ids")
    ran = model.read(
        inputs["input_ids"],
        mask=_mask(inputs),
        token_types=types,
        with_queries=mapping is not None,
        target_mapping=None if mapping is None else mapping.astype(jnp.float32),
        memory=our_memory(inputs),
        keep_memory=True,
    )
    logits, _, scores = model.heads(ran.output, model.embedding, None)
    outputs: dict[str, Any] = {"last_hidden_state": ran.output, "mems": their_memory(ran.memory)}
    return outputs | scores_of(config, logits, scores, inputs)


def _mask(inputs: Mapping[str, PyTree]) -> jax.Array | None:
    """Return the attention mask of padding and ``perm_mask``; padding is visible to no position."""
    mask = None
    if "attention_mask" in inputs:
        mask = (inputs["attention_mask"] > 0)[:, None, None, :]
    if "perm_mask" in inputs:
        allowed = (inputs["perm_mask"] == 0)[:, None]
        mask = allowed if mask is None else allowed & mask
    return mask
