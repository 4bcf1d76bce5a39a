"""Product quantization with learned codebooks, chosen by Gumbel softmax (Baevski et al. 2020, §2).

https://arxiv.org/abs/2006.11477. Shape letters here: B rows, L vectors of a row, D width, C codebooks, E entries.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.config_class import config_class
from t5x_like.model.layers.linear import Linear, Normal

_SMALLEST = 1e-7  # added to probabilities in logarithms


@config_class
class VectorQuantizerConfig:
    """Codebooks.

    Attributes:
      num_codebooks: Codebooks, each with its part of the vectors' width.
      num_entries: Entries of a codebook.
    """

    num_codebooks: int = 2
    num_entries: int = 100

    def __post_init__(self) -> None:
        for name in ("num_codebooks", "num_entries"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a positive number")


@config_class
class GumbelTemperature:
    """Temperature that falls with the steps: ``max(first * decay**step, last)``.

    Attributes:
      first: Temperature of the first step.
      last: Lowest temperature, which held-out rows have, too.
      decay: Factor of each step.
    """

    first: float = 2.0
    last: float = 0.5
    decay: float = 0.999995

    def __post_init__(self) -> None:
        if not 0 < self.last <= self.first:
            raise ValueError(
                f"temperatures fall from first={self.first} to last={self.last}; give positive numbers, last the "
                "smaller one"
            )
        if not 0 < self.decay <= 1:
            raise ValueError(f"decay is {self.decay}; give a factor above 0 and at most 1, such as 0.999995")

    def at(self, step: Int[Array, ""] | int | None) -> Float[Array, ""]:
        """Return the temperature at a step; ``None`` is after the last one."""
        if step is None:
            return jnp.float32(self.last)
        return jnp.maximum(self.first * jnp.float32(self.decay) ** step, self.last)


class Quantized(NamedTuple):
    """Vectors of a product of codebooks.

    Attributes:
      vectors: Entries of all codebooks side by side.
      entries: Index of the entry in each codebook.
      probabilities: Probabilities of entries before noise and temperature, float32.
    """

    vectors: Float[Array, "B L D"]
    entries: Int[Array, "B L C"]
    probabilities: Float[Array, "B L C E"]


class VectorQuantizer(nnx.Module):
    """Replaces vectors by entries of codebooks, which a linear layer scores.

    Forward, each vector has one entry of each codebook. Backward, it has the mean of all entries by their probability,
    so that scores get a gradient (Jang et al. 2017, https://arxiv.org/abs/1611.01144, §2.2).

    Args:
      config: Codebooks.
      model_dim: Width of the vectors.
      key: Random key of fresh weights: normally distributed scores and uniform entries, as in wav2vec 2.0.
    """

    def __init__(self, config: VectorQuantizerConfig, model_dim: int, *, key: Key[Array, ""]):
        if model_dim % config.num_codebooks:
            raise ValueError(
                f"model_dim={model_dim} doesn't divide among num_codebooks={config.num_codebooks}; give a multiple"
            )
        scores_key, entries_key = jax.random.split(key)
        num_scores = config.num_codebooks * config.num_entries
        self.scores = Linear(
            model_dim, num_scores, axes=("embed", "classes"), key=scores_key, init=Normal(1.0), bias=True
        )
        shape = config.num_codebooks, config.num_entries, model_dim // config.num_codebooks
        self.entries = nnx.Param(jax.random.uniform(entries_key, shape), axes=("norm", "norm", "norm"))
        self.config = config

    def __call__(
        self,
        x: Float[Array, "B L D"],
        *,
        temperature: Float[Array, ""] | float = 1.0,
        key: Key[Array, ""] | None = None,
    ) -> Quantized:
        """Return the entries of each vector.

        Args:
          x: Vectors.
          temperature: Temperature of the softmax that the gradient is of.
          key: Random key of Gumbel noise; ``None`` takes the entries with the highest scores.
        """
        scores = self.scores(x, output_dtype=jnp.dtype(jnp.float32))
        scores_BLCE = scores.reshape(*x.shape[:2], self.config.num_codebooks, self.config.num_entries)
        noise = 0.0 if key is None else jax.random.gumbel(key, scores_BLCE.shape)
        soft = jax.nn.softmax((scores_BLCE + noise) / temperature, axis=-1)
        entries = jnp.argmax(soft, axis=-1)
        hard = jax.nn.one_hot(entries, self.config.num_entries, dtype=soft.dtype)
        chosen = hard + soft - jax.lax.stop_gradient(soft)
        vectors = jnp.einsum("blce,ced->blcd", chosen, self.entries[...]).reshape(x.shape)
        return Quantized(vectors.astype(x.dtype), entries, jax.nn.softmax(scores_BLCE, axis=-1))


class CodebookUse(NamedTuple):
    """Use of the entries of codebooks by a batch.

    Attributes:
      diversity_loss: Share of all entries that is not used, where an entry counts by the perplexity of the mean
        probabilities: 0 if all are equally probable, nearly 1 if a single one is.
      perplexity: Perplexity of the entries that were chosen, summed over codebooks.
    """

    diversity_loss: Float[Array, ""]
    perplexity: Float[Array, ""]


def codebook_use(quantized: Quantized, real: Bool[Array, "B L"]) -> CodebookUse:
    """Return how evenly the vectors of a batch use the codebooks (Baevski et al. 2020, eq. 4, as a perplexity).

    Args:
      quantized: Entries and their probabilities.
      real: True for vectors that count.
    """
    num_codebooks, num_entries = quantized.probabilities.shape[-2:]
    chosen = jax.nn.one_hot(quantized.entries, num_entries)
    total = num_codebooks * num_entries
    return CodebookUse(
        (total - _perplexity(quantized.probabilities, real)) / total, _perplexity(chosen, real)
    )


def _perplexity(shares: Float[Array, "B L C E"], real: Bool[Array, "B L"]) -> Float[Array, ""]:
    sums = jnp.sum(jnp.where(real[..., None, None], shares, 0.0), axis=(0, 1))
    mean_CE = sums / jnp.maximum(jnp.sum(real), 1)
    return jnp.sum(jnp.exp(-jnp.sum(mean_CE * jnp.log(mean_CE + _SMALLEST), axis=-1)))


def draw_positions(key: Key[Array, ""], real: Bool[Array, "B L"], rate: float) -> Bool[Array, "B L"]:
    """Return True at a share of each row's real positions, drawn at random.

    A row has ``rate * its length`` of them, rounded up or down at random, the same way in all rows.

    Args:
      key: Random key.
      real: True for real positions.
      rate: Share in [0, 1].
    """
    round_key, place_key = jax.random.split(key)
    lengths = jnp.sum(real, axis=1, keepdims=True)
    wanted = jnp.floor(rate * lengths + jax.random.uniform(round_key))
    draws = jnp.where(real, jax.random.uniform(place_key, real.shape), -1.0)
    rank = jnp.argsort(jnp.argsort(-draws, axis=1), axis=1)
    return real & (rank < wanted)
