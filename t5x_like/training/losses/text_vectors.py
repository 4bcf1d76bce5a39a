"""Losses of vectors of texts: each example has several, of which the first two belong together."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

_NEVER = -1e9  # score of a text that is not there


class TextVectors(NamedTuple):
    """Vectors of the texts of each example.

    Attributes:
      vectors: Vectors of any length.
      is_real: False for the texts of rows that fill up a batch.
    """

    vectors: Float[Array, "B C D"]
    is_real: Bool[Array, "B C"]

    @property
    def is_example(self) -> Bool[Array, " B"]:
        """True for examples whose first two texts are there."""
        return self.is_real[:, 0] & self.is_real[:, 1]

    def first(self, dimensions: int) -> "TextVectors":
        """Return the vectors' first dimensions."""
        return self._replace(vectors=self.vectors[..., :dimensions])

    def units(self) -> "TextVectors":
        """Return the vectors with length 1, and those of missing texts with length 0."""
        squares = jnp.sum(jnp.square(self.vectors), axis=-1)
        is_vector = self.is_real & (squares > 0)
        scales = jnp.where(is_vector, jax.lax.rsqrt(jnp.where(is_vector, squares, 1.0)), 0.0)
        return self._replace(vectors=self.vectors * scales[..., None])


def in_batch_losses(
    texts: TextVectors, *, temperature: float, margin: float = 0.0, symmetric: bool = False
) -> Float[Array, " B"]:
    """Return the cross entropy of each example's own second text, among all texts of the batch but the first ones.

    Args:
      texts: Vectors of length 1.
      temperature: Divides the cosines.
      margin: Number that own cosines are lowered by before (Yang et al. 2019, https://arxiv.org/abs/1902.08564).
      symmetric: Average with the cross entropy of each second text's own first text among all first ones.
    """
    cosines, own = _cosines(texts)
    scores = (cosines - margin * own) / temperature
    losses = -jnp.sum(jnp.where(own, jax.nn.log_softmax(scores), 0.0), axis=-1)
    if not symmetric:
        return losses
    num_others = texts.vectors.shape[1] - 1
    among_first = jnp.where(texts.is_real[:, :1], scores[:, ::num_others], _NEVER)
    backward = -jnp.diagonal(jax.nn.log_softmax(among_first, axis=0))
    return 0.5 * (losses + backward)


def triplet_losses(texts: TextVectors, *, margin: float) -> Float[Array, " B"]:
    """Return by how much the first text is not nearer to the second than to each further one, by ``margin``.

    Args:
      texts: Vectors of length 1.
      margin: Difference of cosines that costs nothing.
    """
    cosines = jnp.einsum("bd,bcd->bc", texts.vectors[:, 0], texts.vectors[:, 1:])
    return jnp.mean(jax.nn.relu(margin - cosines[:, :1] + cosines[:, 1:]), axis=-1)


def cosine_losses(texts: TextVectors, scores: Float[Array, " B"]) -> Float[Array, " B"]:
    """Return the squared difference of the cosine of both texts and its target (Reimers and Gurevych 2019, section 3).

    Args:
      texts: Vectors of length 1.
      scores: Target cosines.
    """
    return jnp.square(jnp.sum(texts.vectors[:, 0] * texts.vectors[:, 1], axis=-1) - scores)


def margin_mse_losses(texts: TextVectors, margins: Float[Array, " B"]) -> Float[Array, " B"]:
    """Return the squared difference of the margin between second and third text and a teacher's.

    Scores are inner products (Hofstätter et al. 2020, https://arxiv.org/abs/2010.02666).

    Args:
      texts: Vectors of any length.
      margins: The teacher's score of the second text minus that of the third.
    """
    scores = jnp.einsum("bd,bcd->bc", texts.vectors[:, 0], texts.vectors[:, 1:])
    return jnp.square(scores[:, 0] - scores[:, 1] - margins)


def is_nearest(texts: TextVectors) -> Float[Array, " B"]:
    """Return 1 where no other text of the batch is nearer to an example's first text than its second one.

    Args:
      texts: Vectors of length 1.
    """
    cosines, _ = _cosines(texts)
    own = jnp.arange(len(cosines)) * (texts.vectors.shape[1] - 1)
    return (jnp.argmax(cosines, axis=-1) == own).astype(jnp.float32)


def _cosines(texts: TextVectors) -> tuple[Float[Array, "B N"], Bool[Array, "B N"]]:
    """Return the cosines of first texts with all others, and True at each example's own second text."""
    num_examples, num_texts, width = texts.vectors.shape
    others = texts.vectors[:, 1:].reshape(-1, width)
    cosines = jnp.where(texts.is_real[:, 1:].reshape(-1), texts.vectors[:, 0] @ others.T, _NEVER)
    own = jnp.arange(num_examples)[:, None] * (num_texts - 1) == jnp.arange(len(others))[None]
    return cosines, own
