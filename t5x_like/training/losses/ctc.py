"""Connectionist temporal classification: the likelihood of a text over all its alignments with frames.

Graves et al. 2006, https://www.cs.toronto.edu/~graves/icml_2006.pdf.
"""

import jax
import jax.numpy as jnp
import optax


def ctc_losses(
    logits: jax.Array,
    num_frames: jax.Array,
    labels: jax.Array,
    is_label: jax.Array,
    *,
    blank_id: int,
) -> tuple[jax.Array, jax.Array]:
    """Return the negative log-likelihood of each row's labels, and how many labels it has: float32 [B] each.

    Rows with fewer frames than their labels need have no alignment. Both numbers are 0 for them.

    Args:
      logits: Scores of each frame, [B, M, V].
      num_frames: Number of real frames of each row, [B].
      labels: Ids, [B, L].
      is_label: True for the ids that are labels, [B, L]; others between them are left out.
      blank_id: Id of the frames between labels.
    """
    # Labels first, in their order.
    order = jnp.argsort(~is_label, axis=1, stable=True)
    labels, is_label = (jnp.take_along_axis(each, order, axis=1) for each in (labels, is_label))
    are_equal = (labels[:, 1:] == labels[:, :-1]) & is_label[:, 1:]
    counts = jnp.sum(is_label, axis=1)
    fits = num_frames >= counts + jnp.sum(are_equal, axis=1)  # a blank between equal labels
    after_end = jnp.arange(logits.shape[1])[None] >= num_frames[:, None]
    losses = optax.ctc_loss(
        logits.astype(jnp.float32),
        after_end.astype(jnp.float32),
        labels,
        1.0 - is_label.astype(jnp.float32),
        blank_id=blank_id,
    )
    return jnp.where(fits, losses, 0.0), jnp.where(fits, counts, 0).astype(jnp.float32)
