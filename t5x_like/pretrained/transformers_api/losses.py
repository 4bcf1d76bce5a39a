"""The losses that transformers' classes answer with."""

import jax
import jax.numpy as jnp

from t5x_like.pretrained.call_arguments import IGNORED


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean over labels that are not -100: logits [..., C], labels [...]."""
    learned = labels != IGNORED
    log_probs = jax.nn.log_softmax(logits, axis=-1)
    chosen = jnp.take_along_axis(log_probs, jnp.where(learned, labels, 0)[..., None], axis=-1)[..., 0]
    return -jnp.sum(chosen * learned) / jnp.sum(learned)


def next_token_cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Each position is asked for the label of the next: both [B, L], L > 1."""
    return cross_entropy(logits[:, :-1], labels[:, 1:])


def span_cross_entropy(
    start_logits: jax.Array, end_logits: jax.Array, start: jax.Array, end: jax.Array
) -> jax.Array:
    """The mean of both ends' losses; positions beyond the sequence are not learned, those before it mean its start."""
    length = start_logits.shape[-1]

    def one(logits: jax.Array, positions: jax.Array) -> jax.Array:
        return cross_entropy(logits, jnp.where(positions < length, jnp.maximum(positions, 0), IGNORED))

    return (one(start_logits, start) + one(end_logits, end)) / 2


def classification_loss(logits: jax.Array, labels: jax.Array, problem_type: str | None) -> jax.Array:
    """Logits [B, C]. Without a ``problem_type``, one class means regression, and whole numbers a single label."""
    num_classes = logits.shape[-1]
    if problem_type is None:
        whole = jnp.issubdtype(labels.dtype, jnp.integer)
        problem_type = "regression" if num_classes == 1 else "single_label" if whole else "multi_label"
    if problem_type == "regression":
        return jnp.mean((logits.reshape(labels.shape) - labels) ** 2)
    if problem_type == "single_label":
        return cross_entropy(logits, labels)
    return jnp.mean(binary_cross_entropy(logits, labels))


def binary_cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Of each entry: minus log sigmoid of the logit where the label is 1, of its negative where it is 0."""
    return jnp.maximum(logits, 0) - logits * labels + jnp.log1p(jnp.exp(-jnp.abs(logits)))


def replaced_tokens_loss(logits: jax.Array, labels: jax.Array, real: jax.Array | None) -> jax.Array:
    """ELECTRA's: the mean over tokens that are not padding, all [B, L]."""
    each = binary_cross_entropy(logits, labels.astype(jnp.float32))
    weights = jnp.ones(logits.shape) if real is None else real.astype(jnp.float32)
    return jnp.sum(each * weights) / jnp.sum(weights)
