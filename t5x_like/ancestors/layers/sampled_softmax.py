"""Softmax over a target and sampled words, for training with large vocabularies.

Jean et al. 2015, §3, https://arxiv.org/abs/1412.2007; Jozefowicz et al. 2016, §3.1, https://arxiv.org/abs/1602.02410.
Words are sampled without replacement from a log-uniform distribution, as TensorFlow's ``sampled_softmax_loss`` does by
default. Ids must therefore be sorted by falling frequency.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from t5x_like.config_class import config_class
from t5x_like.model.layers.linear import Linear
from t5x_like.model.layers.masks import MASKED

_BISECTIONS = 60  # as many as float64 has bits, and some


@config_class
class SampledSoftmax:
    """A softmax over all words that is trained on samples. Evaluation uses all words.

    Attributes:
      num_samples: Words that each step samples for a direction; all its targets share them.
    """

    num_samples: int = 8192

    def __post_init__(self) -> None:
        if self.num_samples < 1:
            raise ValueError(f"num_samples is {self.num_samples}; give a positive number")


class SampledLogits(NamedTuple):
    """Inputs of an output layer, and the sample that its loss is computed on.

    Attributes:
      hidden: Inputs of the layer.
      layer: Output layer, whose columns are words and maybe padding after them.
      key: Random key of the sample.
      num_samples: Words to sample.
      vocab_size: Number of words.
    """

    hidden: Float[Array, "B L D"]
    layer: Linear
    key: Key[Array, ""]
    num_samples: int
    vocab_size: int

    def whole(self) -> Float[Array, "B L V"]:
        """Return the logits of all words."""
        return self.layer(self.hidden, output_dtype=jnp.dtype(jnp.float32))[..., : self.vocab_size]

    def of_candidates(self, targets: Int[Array, "B L"]) -> Float[Array, "B L C"]:
        """Return logits of each position's target, then of the samples.

        The logarithm of the expected count is subtracted from each. A sample that is the target has the score of
        masked words.

        Args:
          targets: Ids to predict.
        """
        kernel, bias = self.layer.merged()
        kernel = kernel.astype(self.hidden.dtype)
        sampled = sample_words(self.key, vocab_size=self.vocab_size, num_samples=self.num_samples)
        of_target = jnp.einsum(
            "bld,dbl->bl", self.hidden, kernel[:, targets], preferred_element_type=jnp.float32
        )
        of_sample = jnp.matmul(self.hidden, kernel[:, sampled], preferred_element_type=jnp.float32)
        if bias is not None:
            of_target, of_sample = of_target + bias[targets], of_sample + bias[sampled][None, None]
        of_target = of_target - self._log_expected(targets)
        of_sample = of_sample - self._log_expected(sampled)[None, None]
        of_sample = jnp.where(sampled[None, None] == targets[..., None], MASKED, of_sample)
        return jnp.concatenate([of_target[..., None], of_sample], axis=-1)

    def _log_expected(self, ids: Int[Array, "*dims"]) -> Float[Array, "*dims"]:
        return jnp.log(expected_counts(ids, vocab_size=self.vocab_size, num_samples=self.num_samples))


def sample_words(key: Key[Array, ""], *, vocab_size: int, num_samples: int) -> Int[Array, " S"]:
    """Draw different ids, each next one from the log-uniform distribution over those that are left.

    The highest sums of a log-probability and Gumbel noise are such a sample (Kool et al. 2019, §2.3,
    https://arxiv.org/abs/1903.06059).

    Args:
      key: Random key.
      vocab_size: Ids to draw from, the most frequent words first.
      num_samples: Number of different ids.
    """
    log_probs = jnp.log(_probabilities(jnp.arange(vocab_size), vocab_size))
    noise = jax.random.gumbel(key, (vocab_size,), jnp.float32)
    return jax.lax.top_k(log_probs + noise, num_samples)[1]


def expected_counts(ids: Int[Array, "*dims"], *, vocab_size: int, num_samples: int) -> Float[Array, "*dims"]:
    """Return the probability that a sample has each id.

    TensorFlow counts the draws with replacement that the sample took. Here their number is the one that gives
    ``num_samples`` different words on average.

    Args:
      ids: Ids, the most frequent words first.
      vocab_size: Ids that are drawn from.
      num_samples: Number of different ids in a sample.
    """
    num_tries = _num_tries(vocab_size, num_samples)
    if num_tries is None:
        return jnp.ones(ids.shape, jnp.float32)
    return -jnp.expm1(num_tries * jnp.log1p(-_probabilities(ids, vocab_size)))


def _probabilities(ids: Int[Array, "*dims"], vocab_size: int) -> Float[Array, "*dims"]:
    """Return ``log((k + 2) / (k + 1)) / log(V + 1)`` for each id ``k``."""
    return jnp.log1p(1.0 / (ids.astype(jnp.float32) + 1.0)) / np.float32(np.log(vocab_size + 1.0))


@functools.lru_cache
def _num_tries(vocab_size: int, num_samples: int) -> float | None:
    """Return the draws with replacement that give ``num_samples`` words on average; ``None`` if that is all words."""
    if num_samples >= vocab_size:
        return None
    log_misses = np.log1p(-np.log1p(1.0 / np.arange(1.0, vocab_size + 1.0)) / np.log(vocab_size + 1.0))
    low, high = 0.0, float(num_samples)
    while -np.expm1(high * log_misses).sum() < num_samples:
        low, high = high, 2.0 * high
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        if -np.expm1(middle * log_misses).sum() < num_samples:
            low = middle
        else:
            high = middle
    return high
