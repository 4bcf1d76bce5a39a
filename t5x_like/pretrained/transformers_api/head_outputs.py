"""Outputs of a model's heads, and the losses that transformers' classes return with them: the same for all families."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from t5x_like.index_checks import IGNORED
from t5x_like.model.families.decoder import Decoder
from t5x_like.model.families.recurrent import Recurrent
from t5x_like.model.model_traits import traits_of
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.model.zoo.model_tasks import SEQUENCE_TASKS
from t5x_like.pretrained.transformers_api.call import Context

Loss = Callable[[Any, Any], Any]

_PAIR_NAMES = {"next_sentence": "seq_relationship_logits", "sentence_order": "sop_logits"}

# What has one row of ids for each choice.
_OF_CHOICES = (
    *("input_ids", "attention_mask", "token_type_ids", "task_type_ids", "position_ids", "perm_mask"),
    *("decoder_input_ids", "decoder_attention_mask"),
)


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the mean cross entropy over labels that are not -100.

    Args:
      logits: Scores [..., C].
      labels: Class ids [...].
    """
    learned = labels != IGNORED
    log_probs = jax.nn.log_softmax(logits, axis=-1)
    chosen = jnp.take_along_axis(log_probs, jnp.where(learned, labels, 0)[..., None], axis=-1)[..., 0]
    return -jnp.sum(chosen * learned) / jnp.sum(learned)


def next_token_cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the loss of predicting each next label.

    Args:
      logits: Scores [B, L, V].
      labels: Token ids [B, L], L > 1.
    """
    return cross_entropy(logits[:, :-1], labels[:, 1:])


def _span_cross_entropy(
    start_logits: jax.Array, end_logits: jax.Array, start: jax.Array, end: jax.Array
) -> jax.Array:
    """Return the mean loss of both ends; positions beyond the sequence are ignored, those before it mean its start."""
    length = start_logits.shape[-1]

    def one(logits: jax.Array, positions: jax.Array) -> jax.Array:
        return cross_entropy(logits, jnp.where(positions < length, jnp.maximum(positions, 0), IGNORED))

    return (one(start_logits, start) + one(end_logits, end)) / 2


def _classification_loss(logits: jax.Array, labels: jax.Array, problem_type: str | None) -> jax.Array:
    """Return the loss of logits [B, C].

    Without a ``problem_type``, one class means regression, and whole numbers mean a single label.
    """
    num_classes = logits.shape[-1]
    if problem_type is None:
        whole = jnp.issubdtype(labels.dtype, jnp.integer)
        problem_type = "regression" if num_classes == 1 else "single_label" if whole else "multi_label"
    if problem_type == "regression":
        return jnp.mean((logits.reshape(labels.shape) - labels) ** 2)
    if problem_type == "single_label":
        return cross_entropy(logits, labels)
    return jnp.mean(_binary_cross_entropy(logits, labels))


def _binary_cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the binary cross entropy of each entry."""
    return jnp.maximum(logits, 0) - logits * labels + jnp.log1p(jnp.exp(-jnp.abs(logits)))


def _replaced_tokens_loss(logits: jax.Array, labels: jax.Array, real: jax.Array | None) -> jax.Array:
    """Return ELECTRA's discriminator loss: the mean over tokens that are not padding, all [B, L]."""
    each = _binary_cross_entropy(logits, labels.astype(jnp.float32))
    weights = jnp.ones(logits.shape) if real is None else real.astype(jnp.float32)
    return jnp.sum(each * weights) / jnp.sum(weights)


def choices_as_rows(
    arguments: dict[str, PyTree], config: CommonConfig
) -> tuple[dict[str, PyTree], dict[str, np.ndarray]]:
    """Return the arguments of multiple choice, [B, C, …], as rows [B * C, …], and ``num_choices``.

    The number is the length of an array, which stays known inside of ``jax.jit``.

    Args:
      arguments: Arguments of the call by name.
      config: Configuration of the model.

    Raises:
      ValueError: ``input_ids`` have no choices.
    """
    if config.task != "multiple_choice":
        return arguments, {}
    shape = np.shape(arguments["input_ids"])
    if len(shape) != 3:
        raise ValueError(f"input_ids has shape {shape}; for multiple choice give [batch, choices, length]")
    rows = {
        name: np.reshape(value, (shape[0] * shape[1], *np.shape(value)[2:]))
        for name, value in arguments.items()
        if name in _OF_CHOICES and value is not None
    }
    return arguments | rows, {"num_choices": np.zeros(shape[1])}


def one_choice(input_ids: object, arguments: dict[str, object]) -> tuple[np.ndarray, dict[str, object]]:
    """Return rows [B, L] as examples of one choice each, [B, 1, L].

    Args:
      input_ids: Rows of token ids.
      arguments: Other arguments of the call by name.
    """
    choices = {name: np.asarray(value)[:, None] for name, value in arguments.items() if name in _OF_CHOICES}
    return np.asarray(input_ids)[:, None], arguments | choices


def choices_of(num_choices: dict[str, np.ndarray]) -> int:
    """Return the rows of an example, from the second part of what ``choices_as_rows`` returns."""
    return len(num_choices["num_choices"]) if num_choices else 1


def ends_of_sequences(ids: np.ndarray, mask: np.ndarray | None, context: Context) -> dict[str, np.ndarray]:
    """Return ``ends``, int32 [B], the positions at which a decoder classifies whole sequences; else nothing.

    As in transformers that is at the last token that is not padding, masked or not. Models that read rows from their
    end classify elsewhere.

    Args:
      ids: Token ids.
      mask: Attention mask; None without.
      context: Facts of the model.
    """
    if context.config.task not in SEQUENCE_TASKS or traits_of(context.config).direction == "backward":
        return {}
    special = context.special_ids
    real = ids != special.pad if special.pad is not None else np.ones(ids.shape) if mask is None else mask
    return {"ends": np.max(np.where(real, np.arange(ids.shape[1]), 0), axis=1).astype(np.int32)}


def scores_at_ends(
    model: Decoder | Recurrent, states: jax.Array, inputs: Mapping[str, PyTree]
) -> dict[str, jax.Array]:
    """Return scores of the heads at the last tokens of ``states`` [B, L, D], if ``ends_of_sequences`` found them.

    Heads that read more than the last token score by themselves.

    Args:
      model: Model with its weights.
      states: Final hidden states [B, L, D].
      inputs: Arrays of the call, with ``ends`` for a model that classifies at the last token.
    """
    pooler = model.heads.pooler
    if "ends" not in inputs or (pooler is not None and pooler.config.pooling != "last"):
        return {}
    ends = jnp.take_along_axis(states, inputs["ends"][:, None, None], axis=1)[:, 0]
    ends = ends if pooler is None else pooler.finished(ends)
    return {name: head(ends) for name, head in model.heads.scores.items()}


def scores_of(
    config: CommonConfig,
    logits: jax.Array | None,
    heads: Mapping[str, jax.Array] | None,
    inputs: dict[str, PyTree],
    *,
    of_words: Loss = cross_entropy,
) -> dict[str, PyTree]:
    """Return the outputs of the class of ``config.task``, and its loss if ``inputs`` has labels.

    Args:
      config: Configuration that names the task, and says how many words and which kind of classes there are.
      logits: Scores of words [B, L, V or more], if there are any.
      heads: Scores of other heads by name.
      inputs: Arguments that ``read_labels`` and ``choices_as_rows`` return, among others.
      of_words: Loss of a language model.
    """
    heads = heads or {}
    logits = None if logits is None else logits[..., : config.vocab_size]
    match config.task:
        case "masked_lm" | "causal_lm" | "sequence_to_sequence_lm":
            return _with_loss(logits, inputs, of_words)
        case "pretraining":
            return _pretraining(logits, heads, inputs)
        case "next_sentence":
            named = {"labels": inputs["next_sentence_label"]} if "next_sentence_label" in inputs else {}
            return _with_loss(heads["next_sentence"], inputs | named, cross_entropy)
        case "sequence_classification":
            loss = partial(_classification_loss, problem_type=config.problem_type)
            return _with_loss(heads["sequence_classification"], inputs, loss)
        case "multiple_choice":
            scores = heads["multiple_choice"].reshape(-1, inputs["num_choices"].shape[0])
            return _with_loss(scores, inputs, cross_entropy)
        case "token_classification":
            return _with_loss(heads["token_classification"], inputs, cross_entropy)
        case "replaced_tokens":
            loss = partial(_replaced_tokens_loss, real=inputs.get("segment_ids"))
            return _with_loss(heads["replaced_tokens"][..., 0], inputs, loss)
        case "question_answering":
            return _spans(heads["question_answering"], inputs)
    return {}


def _pretraining(
    logits: Any, heads: Mapping[str, jax.Array], inputs: Mapping[str, PyTree]
) -> dict[str, PyTree]:
    (pair, scores), *_ = ((name, scores) for name, scores in heads.items() if name in _PAIR_NAMES)
    outputs = {"prediction_logits": logits, _PAIR_NAMES[pair]: scores}
    if "labels" not in inputs or f"{pair}_label" not in inputs:
        return outputs
    of_words = cross_entropy(logits, inputs["labels"])
    return outputs | {"loss": of_words + cross_entropy(scores, inputs[f"{pair}_label"])}


def _spans(scores: jax.Array, inputs: Mapping[str, PyTree]) -> dict[str, jax.Array]:
    start, end = scores[..., 0], scores[..., 1]
    outputs = {"start_logits": start, "end_logits": end}
    if "start_positions" not in inputs or "end_positions" not in inputs:
        return outputs
    loss = _span_cross_entropy(start, end, inputs["start_positions"], inputs["end_positions"])
    return outputs | {"loss": loss}


def _with_loss(logits: object, inputs: Mapping[str, object], loss: Loss) -> dict[str, PyTree]:
    outputs = {"logits": logits}
    return outputs | {"loss": loss(logits, inputs["labels"])} if "labels" in inputs else outputs
