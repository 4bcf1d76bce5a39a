"""Gradients of a loss that compares all rows of a batch, with the memory of a microbatch (Gao et al. 2021, GradCache).

Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup, https://arxiv.org/abs/2101.06983.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from t5x_like.training.metrics import Totals
from t5x_like.training.microbatches import Microbatch, join_rows, split_rows


def cached_gradients(
    represent: Callable[[PyTree, Microbatch, jax.Array], tuple[PyTree, jax.Array, Totals]],
    compare: Callable[[PyTree], tuple[jax.Array, Totals]],
    trained: PyTree,
    whole: Microbatch,
    dropout_key: jax.Array,
    *,
    num_parts: int,
) -> tuple[PyTree, Totals]:
    """Return the gradients of ``whole``, and the sums to log.

    All microbatches are represented without their gradients, and the loss is differentiated by these representations.
    Then each microbatch is represented again, with the same dropout, and passes these gradients on to the weights.

    Args:
      represent: ``(trained, microbatch, dropout_key) -> (representations, loss, totals)``: float32 arrays with one
        entry for each row, and what the microbatch costs by itself.
      compare: Returns loss and totals of the representations of the whole batch.
      trained: Weights to differentiate by.
      whole: Batch to cut; ``num_parts`` divides its rows.
      dropout_key: Key that is split into one for each part.
      num_parts: Number of microbatches.
    """
    split = partial(split_rows, num_parts=num_parts)
    batch, weights, outputs = jax.tree.map(split, (whole.batch, whole.weights, dict(whole.outputs)))
    parts = (Microbatch(batch, weights, {}, outputs), jax.random.split(dropout_key, num_parts))
    representations = jax.lax.map(lambda part: represent(trained, *part)[0], parts)
    by_row, of_comparison = jax.grad(compare, has_aux=True)(jax.tree.map(join_rows, representations))

    def passed_on(trained: PyTree, part: PyTree, by_row: PyTree) -> tuple[jax.Array, Totals]:
        own, loss, totals = represent(trained, *part)
        products = jax.tree.map(lambda vectors, slope: jnp.sum(vectors * slope), own, by_row)
        return sum(jax.tree.leaves(products), loss), totals

    def body(sums: PyTree, part: PyTree) -> tuple[PyTree, None]:
        return jax.tree.map(jnp.add, sums, jax.grad(passed_on, has_aux=True)(trained, *part)), None

    slopes = jax.tree.map(split, by_row)
    first = jax.tree.map(lambda array: array[0], (parts, slopes))
    shapes = jax.eval_shape(jax.grad(passed_on, has_aux=True), trained, *first)
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    (gradients, totals), _ = jax.lax.scan(body, nothing, (parts, slopes))
    own = totals._replace(measures={})
    added = jax.tree.map(jnp.add, own, of_comparison._replace(measures={}))
    return gradients, added._replace(measures={**totals.measures, **of_comparison.measures})
