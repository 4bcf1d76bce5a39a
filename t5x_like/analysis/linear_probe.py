"""Linear probes: multinomial logistic regression, and the length of the labels' code that it gives."""

import itertools
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

# Shares of the training examples at which a probe is trained anew (Voita and Titov 2020, §3.2 and table 2).
PORTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
_MAX_ITERATIONS = 300
_FEWEST_ROWS = 1024
_TOLERANCE = 1e-4  # largest component of the gradient of the mean loss, as in scikit-learn


class LinearProbe(NamedTuple):
    """Classifier that is linear in standardized vectors.

    Attributes:
      mean: Mean of the training vectors, [D].
      scale: Their standard deviation, 1 where it is 0, [D].
      weights: Weights of the vectors and, last, the biases, [D + 1, K].
    """

    mean: np.ndarray
    scale: np.ndarray
    weights: np.ndarray

    @classmethod
    def fit(cls, vectors: np.ndarray, labels: np.ndarray, num_classes: int, *, l2: float) -> "LinearProbe":
        """Minimize the summed cross-entropy and ``l2 / 2`` times the squared weights, by L-BFGS.

        Biases count as weights, so that classes without an example keep a probability above 0.

        Args:
          vectors: Vectors to train on, [T, D].
          labels: Class of each, [T].
          num_classes: Number of classes K.
          l2: Strength of the L2 penalty.
        """
        mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
        deviation = vectors.std(axis=0, dtype=np.float64).astype(np.float32)
        scale = np.where(deviation > 1e-6 * np.abs(mean), deviation, 1.0).astype(np.float32)
        inputs = _inputs((vectors - mean) / scale)
        classes = np.pad(labels, (0, len(inputs) - len(labels)), constant_values=-1)
        return cls(
            mean, scale, np.asarray(_minimum(inputs, jnp.asarray(classes), l2, num_classes=num_classes))
        )

    def log_probs(self, vectors: np.ndarray) -> np.ndarray:
        """Return the log-probabilities of the classes, [T, K].

        Args:
          vectors: Vectors, [T, D].
        """
        inputs = _inputs((vectors - self.mean) / self.scale)
        return np.asarray(_log_softmax(inputs, jnp.asarray(self.weights, jnp.float32)))[: len(vectors)]

    def accuracy(self, vectors: np.ndarray, labels: np.ndarray) -> float:
        """Return the share of vectors whose class is the most likely one, times 100.

        Args:
          vectors: Vectors, [T, D].
          labels: Class of each, [T].
        """
        return 100 * float(np.mean(self.log_probs(vectors).argmax(axis=1) == labels))


class OnlineCode(NamedTuple):
    """Length of the code of labels, which are sent in portions and learned in between.

    Attributes:
      kilobits: Its length in 1,000 bits.
      compression: Length of a code of equal probabilities, divided by this one.
    """

    kilobits: float
    compression: float


def online_code(vectors: np.ndarray, labels: np.ndarray, num_classes: int, *, l2: float) -> OnlineCode:
    """Return the length of the code of labels whose vectors are known (Voita and Titov 2020, §2.2).

    The first portion is sent with equal probabilities. Each other one is sent with the probabilities of a probe that
    learned from all portions before it. See https://arxiv.org/abs/2003.12298.

    Args:
      vectors: Vectors in the order of sending, [T, D].
      labels: Class of each, [T].
      num_classes: Number of classes.
      l2: Strength of the probes' L2 penalty.

    Raises:
      ValueError: There are fewer examples than portions.
    """
    count = len(labels)
    if count < len(PORTIONS):
        raise ValueError(
            f"{count} training examples are fewer than the {len(PORTIONS)} portions of the online code; give more "
            "texts, or codelength=False"
        )
    ends = sorted({int(np.ceil(share * count)) for share in PORTIONS})
    bits = ends[0] * np.log2(num_classes)
    for end, next_end in itertools.pairwise(ends):
        probe = LinearProbe.fit(vectors[:end], labels[:end], num_classes, l2=l2)
        sent = probe.log_probs(vectors[end:next_end])
        bits -= np.take_along_axis(sent, labels[end:next_end, None], axis=1).sum(dtype=np.float64) / np.log(2)
    return OnlineCode(float(bits / 1000), float(count * np.log2(num_classes) / bits))


def _inputs(vectors: np.ndarray) -> jax.Array:
    """Return vectors with a 1 at their ends, and rows of zeros up to one of few counts, each of which is compiled."""
    rows = max(_FEWEST_ROWS, 1 << (len(vectors) - 1).bit_length())
    padded = np.pad(vectors, ((0, rows - len(vectors)), (0, 1)))
    padded[: len(vectors), -1] = 1
    return jnp.asarray(padded)


@jax.jit
def _log_softmax(inputs: jax.Array, weights: jax.Array) -> jax.Array:
    scores = jnp.matmul(inputs, weights, precision="float32")  # accelerators would round factors
    return jax.nn.log_softmax(scores)


# XLA in place of scikit-learn: where other processes compete for the cores, threads of BLAS wait for each other, and
# a class without an example has no weights there.
@partial(jax.jit, static_argnames="num_classes")
def _minimum(inputs: jax.Array, labels: jax.Array, l2: jax.Array | float, *, num_classes: int) -> jax.Array:
    """Return the weights of the smallest loss; rows with a negative label don't count."""
    real = labels >= 0

    def loss(weights: jax.Array) -> jax.Array:
        log_probs = jnp.take_along_axis(
            _log_softmax(inputs, weights), jnp.maximum(labels, 0)[:, None], axis=1
        )
        total = -jnp.where(real, log_probs[:, 0], 0.0).sum() + l2 / 2 * jnp.sum(weights**2)
        return total / real.sum()

    optimizer = optax.lbfgs()
    value_and_gradient: Any = optax.value_and_grad_from_state(loss)

    def step(carry: Any) -> Any:
        weights, state, iteration, _ = carry
        value, gradient = value_and_gradient(weights, state=state)
        updates, state = optimizer.update(gradient, state, weights, value=value, grad=gradient, value_fn=loss)
        return optax.apply_updates(weights, updates), state, iteration + 1, jnp.abs(gradient).max()

    start = jnp.zeros((inputs.shape[1], num_classes))
    carry = (start, optimizer.init(start), 0, jnp.inf)
    return jax.lax.while_loop(
        lambda carry: (carry[2] < _MAX_ITERATIONS) & (carry[3] > _TOLERANCE), step, carry
    )[0]
