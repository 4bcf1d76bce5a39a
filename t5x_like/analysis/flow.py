"""Normalizing flow: an invertible map of vectors to a standard Gaussian, which cures anisotropy."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import ArrayLike

from t5x_like.analysis.vectors import checked_vectors

_MAX_LOG_SCALE = 2.0  # of a coupling, so that its inverse stays finite
_BATCH_SIZE = 256


class FlowWeights(NamedTuple):
    """Weights of the K steps of a flow of vectors of width D; a coupling's network has H hidden units.

    Attributes:
      log_scales: Logarithms of each step's factors, [K, D].
      offsets: Vectors that are added before, [K, D].
      rotations: Orthogonal matrices, which are not trained, [K, D, D].
      hidden: First layers of the couplings' networks, with the bias last, [K, D // 2 + 1, H].
      outputs: Last layers, with the bias last: log-scales, then offsets, of the other half, [K, H + 1, 2 (D - D // 2)].
    """

    log_scales: jax.Array
    offsets: jax.Array
    rotations: jax.Array
    hidden: jax.Array
    outputs: jax.Array


class Flow(NamedTuple):
    """Glow-like flow of sentence vectors (Li et al. 2020, https://arxiv.org/abs/2011.05864).

    Each step scales and shifts all dimensions, rotates them, and scales and shifts one half by a network of the other
    half. The model whose vectors they are stays as it is.

    >>> flow = Flow.fit(vectors, steps=500)
    >>> cosines_of = unit_vectors(flow(vectors))

    Attributes:
      mean: Mean of the vectors that it was fitted on, [D].
      scale: Their standard deviation, 1 where it is 0, [D].
      weights: Weights of the steps.
    """

    mean: np.ndarray
    scale: np.ndarray
    weights: FlowWeights

    @classmethod
    def fit(
        cls,
        vectors: ArrayLike,
        steps: int,
        *,
        seed: int = 0,
        num_layers: int = 4,
        hidden_dim: int = 64,
        learning_rate: float = 1e-3,
    ) -> "Flow":
        """Maximize the likelihood of vectors.

        Args:
          vectors: Vectors to fit on, [T, D].
          steps: Training steps of Adam, each on 256 vectors.
          seed: Seed of the weights and of the order of the vectors.
          num_layers: Number of steps of the flow.
          hidden_dim: Width of the couplings' networks.
          learning_rate: Learning rate.

        Raises:
          ValueError: There are fewer than two vectors or dimensions, or ``steps`` is negative.
        """
        array = checked_vectors(vectors)
        if min(array.shape) < 2 or steps < 0:
            raise ValueError(
                f"vectors have shape {array.shape}, and steps is {steps}; a flow needs at least two vectors of width 2 "
                "or more, and steps of 0 or more"
            )
        mean, deviation = array.mean(axis=0), array.std(axis=0)
        scale = np.where(deviation > 0, deviation, 1.0)
        inputs = jnp.asarray((array - mean) / scale, jnp.float32)
        start_key, order_key = jax.random.split(jax.random.key(seed))
        start = _initial(start_key, array.shape[1], num_layers, hidden_dim)
        return cls(mean, scale, _fitted(start, inputs, order_key, steps=steps, learning_rate=learning_rate))

    def __call__(self, vectors: ArrayLike) -> np.ndarray:
        """Return vectors that are distributed as a standard Gaussian, [T, D].

        Args:
          vectors: Vectors, [T, D].
        """
        standardized = (checked_vectors(vectors) - self.mean) / self.scale
        return np.asarray(_forward(self.weights, jnp.asarray(standardized, jnp.float32))[0], np.float64)

    def inverse(self, outputs: ArrayLike) -> np.ndarray:
        """Return the vectors that the flow maps to ``outputs``, [T, D].

        Args:
          outputs: Vectors as the flow returns them, [T, D].
        """
        inputs = _backward(self.weights, jnp.asarray(outputs, jnp.float32))
        return np.asarray(inputs, np.float64) * self.scale + self.mean

    def log_density(self, vectors: ArrayLike) -> np.ndarray:
        """Return the logarithm of each vector's density, [T].

        Args:
          vectors: Vectors, [T, D].
        """
        standardized = (checked_vectors(vectors) - self.mean) / self.scale
        density = _log_density(self.weights, jnp.asarray(standardized, jnp.float32))
        return np.asarray(density, np.float64) - np.log(self.scale).sum()


def _initial(key: jax.Array, width: int, num_layers: int, hidden_dim: int) -> FlowWeights:
    """Return a flow whose steps only rotate."""
    first, second = width // 2, width - width // 2
    rotation_key, hidden_key = jax.random.split(key)
    rotations, _ = jnp.linalg.qr(jax.random.normal(rotation_key, (num_layers, width, width)))
    hidden = jax.random.normal(hidden_key, (num_layers, first + 1, hidden_dim)) / np.sqrt(first)
    zeros = jnp.zeros((num_layers, width))
    return FlowWeights(zeros, zeros, rotations, hidden, jnp.zeros((num_layers, hidden_dim + 1, 2 * second)))


def _coupling(layer: FlowWeights, half: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the log-scales and the offsets of the other half."""
    hidden = jax.nn.relu(_product(half, layer.hidden[:-1]) + layer.hidden[-1:])
    log_scales, offsets = jnp.split(_product(hidden, layer.outputs[:-1]) + layer.outputs[-1:], 2, axis=-1)
    return _MAX_LOG_SCALE * jnp.tanh(log_scales / _MAX_LOG_SCALE), offsets


def _product(vectors: jax.Array, matrix: jax.Array) -> jax.Array:
    return jnp.matmul(vectors, matrix, precision="float32")  # accelerators would round factors


def _forward(weights: FlowWeights, vectors: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the outputs, [T, D], and the log-determinants of the derivative, [T]."""
    first = vectors.shape[-1] // 2

    def step(carry: tuple[jax.Array, jax.Array], layer: FlowWeights) -> tuple[Any, None]:
        x, log_det = carry
        x = _product((x + layer.offsets[None]) * jnp.exp(layer.log_scales)[None], layer.rotations)
        log_scales, offsets = _coupling(layer, x[:, :first])
        x = jnp.concatenate([x[:, :first], x[:, first:] * jnp.exp(log_scales) + offsets], axis=-1)
        return (x, log_det + layer.log_scales.sum() + log_scales.sum(axis=-1)), None

    return jax.lax.scan(step, (vectors, jnp.zeros(len(vectors))), weights)[0]


def _backward(weights: FlowWeights, outputs: jax.Array) -> jax.Array:
    """Return the inputs whose outputs these are."""
    first = outputs.shape[-1] // 2

    def step(x: jax.Array, layer: FlowWeights) -> tuple[jax.Array, None]:
        log_scales, offsets = _coupling(layer, x[:, :first])
        x = jnp.concatenate([x[:, :first], (x[:, first:] - offsets) * jnp.exp(-log_scales)], axis=-1)
        return _product(x, layer.rotations.T) * jnp.exp(-layer.log_scales)[None] - layer.offsets[None], None

    return jax.lax.scan(step, outputs, weights, reverse=True)[0]


def _log_density(weights: FlowWeights, vectors: jax.Array) -> jax.Array:
    outputs, log_det = _forward(weights, vectors)
    return jax.scipy.stats.norm.logpdf(outputs).sum(axis=-1) + log_det


@partial(jax.jit, static_argnames="steps")
def _fitted(
    start: FlowWeights, vectors: jax.Array, key: jax.Array, *, steps: int, learning_rate: float
) -> FlowWeights:
    """Return the weights after training; rotations stay."""
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(learning_rate))
    batch = min(_BATCH_SIZE, len(vectors))

    def loss(weights: FlowWeights, rows: jax.Array) -> jax.Array:
        fixed = weights._replace(rotations=jax.lax.stop_gradient(weights.rotations))
        return -_log_density(fixed, vectors[rows]).mean() / vectors.shape[1]

    def step(carry: Any, each: jax.Array) -> tuple[Any, None]:
        weights, state = carry
        rows = jax.random.choice(each, len(vectors), (batch,), replace=False)
        updates, state = optimizer.update(jax.grad(loss)(weights, rows), state)
        return (optax.apply_updates(weights, updates), state), None

    keys = jax.random.split(key, steps)
    return jax.lax.scan(step, (start, optimizer.init(start)), keys)[0][0]
