"""word2vec: skip-gram with negative sampling (Mikolov et al. 2013b, https://arxiv.org/abs/1310.4546)."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.ancestors.word_vectors.training_batches import check_loss, check_settings, stacked_batches
from t5x_like.ancestors.word_vectors.word_text import WordText
from t5x_like.ancestors.word_vectors.word_vectors import WordVectors
from t5x_like.io.progress import Progress

NOISE_POWER = 0.75  # of word counts (§2.2)
_WORDS_AT_ONCE = 1_000_000  # whose pairs are made and shuffled together
_LEAST_RATE = 1e-4  # of the first, as in the authors' program


class SkipGramTables(NamedTuple):
    """Weights: a vector for each word as the center of a window, and one as its context; float32 [W, D] each."""

    centers: Float[Array, "W D"]
    contexts: Float[Array, "W D"]


@dataclass(frozen=True, kw_only=True)
class SkipGram:
    """Skip-gram with negative sampling.

    Attributes:
      dim: Dimensions of the vectors.
      window: Largest distance of context words. That of each word is drawn evenly from 1 to it (Mikolov et al. 2013a,
        §3.2, https://arxiv.org/abs/1301.3781).
      epochs: Times that the text is read.
      learning_rate: First rate of gradient descent; it falls linearly to almost 0.
      batch_size: Pairs whose gradients are added up to one step. Large batches over few words diverge.
      num_negatives: Noise words for each pair.
      subsample: Threshold of frequent words, ``t`` of §2.3; 0 keeps all. The paper has 1e-5 for a billion words.
      seed: Seed of fresh vectors, windows, subsampling, order and noise.
    """

    dim: int = 100
    window: int = 5
    epochs: int = 5
    learning_rate: float = 0.025
    batch_size: int = 256
    num_negatives: int = 5
    subsample: float = 1e-3
    seed: int = 0

    def __post_init__(self) -> None:
        check_settings(
            dim=self.dim,
            window=self.window,
            epochs=self.epochs,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            num_negatives=self.num_negatives,
        )
        if not 0 <= self.subsample <= 1:
            raise ValueError(
                f"subsample is {self.subsample}; give a share of at most 1, or 0 to keep all words"
            )

    def train(self, text: WordText, *, progress: bool = False) -> tuple[WordVectors, list[float]]:
        """Return the vectors of words as centers, and the mean loss of a pair in each epoch.

        Args:
          text: Training text.
          progress: Show a progress bar.

        Raises:
          ValueError: No word has a neighbor, or training diverged.
        """
        rng = np.random.default_rng(self.seed)
        first_key, noise_key = jax.random.split(jax.random.key(self.seed))
        shape = len(text.words), self.dim
        tables = SkipGramTables(  # as in the authors' program
            jax.random.uniform(first_key, shape, minval=-0.5, maxval=0.5) / self.dim, jnp.zeros(shape)
        )
        cumulative = jnp.asarray(np.cumsum(noise_distribution(text.counts)), jnp.float32)
        losses, total = [], self.epochs * len(text.rows)
        with Progress("word2vec", total, "words", shown=progress) as bar:
            for epoch in range(self.epochs):
                epoch_loss, num_pairs = 0.0, 0
                for before, size, pairs in self._pairs(text, rng):
                    num_pairs += len(pairs[0])
                    for share, batches, is_real in stacked_batches(pairs, self.batch_size, rng):
                        done = epoch * len(text.rows) + before + int(share * size)
                        rate = self.learning_rate * max(1 - done / total, _LEAST_RATE)
                        noise_key, key = jax.random.split(noise_key)
                        tables, loss = _train_steps(
                            tables, batches, is_real, key, rate, cumulative, num_negatives=self.num_negatives
                        )
                        epoch_loss += float(loss)
                        bar.reach(done)
                if not num_pairs:
                    raise ValueError(
                        "no word of the text has a neighbor; give longer lines, or a larger subsample"
                    )
                check_loss(epoch_loss)
                losses.append(epoch_loss / num_pairs)
                bar.relabel(f"word2vec, loss {losses[-1]:.3f}")
            bar.reach(total)
        return WordVectors(text.words, np.asarray(tables.centers)), losses

    def _pairs(
        self, text: WordText, rng: np.random.Generator
    ) -> Iterator[tuple[int, int, tuple[np.ndarray, np.ndarray]]]:
        """Yield for each part of the text the words before it, its number of words, and its pairs."""
        kept = keep_probabilities(text.counts, self.subsample)
        for start in range(0, len(text.rows), _WORDS_AT_ONCE):
            rows = text.rows[start : start + _WORDS_AT_ONCE]
            lines = text.lines[start : start + _WORDS_AT_ONCE]
            is_kept = rng.random(len(rows)) < kept[rows]
            yield start, len(rows), window_pairs(rows[is_kept], lines[is_kept], self.window, rng)


def noise_distribution(counts: np.ndarray) -> np.ndarray:
    """Return the probability of each word as noise: its count to the power of 3/4, normalized (§2.2)."""
    weights = counts.astype(np.float64) ** NOISE_POWER
    return weights / weights.sum()


def keep_probabilities(counts: np.ndarray, subsample: float) -> np.ndarray:
    """Return the probability that an occurrence of each word is kept: the root of ``t / f``, at most 1 (§2.3, eq. 5).

    The authors' program keeps a little more, ``sqrt(t / f) + t / f``.

    Args:
      counts: Occurrences of each word.
      subsample: The threshold ``t``; 0 keeps all.
    """
    if subsample == 0:
        return np.ones(len(counts))
    return np.minimum(1.0, np.sqrt(subsample * counts.sum() / np.maximum(counts, 1)))


def window_pairs(
    rows: np.ndarray, lines: np.ndarray, window: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the words in the centers of windows, and a word in the context of each.

    Args:
      rows: Words of a text [N].
      lines: Their lines, which no window crosses [N].
      window: Largest reach; that of each center is drawn evenly from 1 to it.
      rng: Draws the reaches.
    """
    reach = rng.integers(1, window + 1, size=len(rows))
    centers, contexts = [rows[:0]], [rows[:0]]
    for distance in range(1, min(window, len(rows) - 1) + 1):
        left, right = slice(None, -distance), slice(distance, None)
        is_line = lines[left] == lines[right]
        for center, context in ((left, right), (right, left)):
            chosen = is_line & (reach[center] >= distance)
            centers.append(rows[center][chosen])
            contexts.append(rows[context][chosen])
    return np.concatenate(centers), np.concatenate(contexts)


def negative_sampling_loss(
    centers: Float[Array, "B D"],
    contexts: Float[Array, "B D"],
    noise: Float[Array, "B K D"],
    is_noise: Bool[Array, "B K"],
) -> Float[Array, "B"]:
    """Return ``-log σ(u·v) - Σ_k log σ(-n_k·v)`` of each pair (§2.2, eq. 4).

    Args:
      centers: ``v``, vectors of center words.
      contexts: ``u``, vectors of their context words.
      noise: ``n``, context vectors of noise words.
      is_noise: False leaves a noise word out.
    """
    positive = jnp.einsum("bd,bd->b", contexts, centers)
    negative = jnp.einsum("bkd,bd->bk", noise, centers)
    return -jax.nn.log_sigmoid(positive) - jnp.sum(jax.nn.log_sigmoid(-negative) * is_noise, axis=1)


def sample_noise(
    key: Key[Array, ""], cumulative: Float[Array, "W"], shape: tuple[int, ...]
) -> Int[Array, "..."]:
    """Draw words from a cumulative distribution.

    Args:
      key: Random key.
      cumulative: Sums of the words' probabilities, rising to 1.
      shape: Shape of the drawn ids.
    """
    drawn = jnp.searchsorted(cumulative, jax.random.uniform(key, shape), side="right")
    return jnp.minimum(drawn, len(cumulative) - 1)  # the last sum may be a little below 1


def descend(
    tables: SkipGramTables,
    centers: Int[Array, "B"],
    contexts: Int[Array, "B"],
    noise: Int[Array, "B K"],
    is_real: Bool[Array, "B"],
    rate: Float[Array, ""],
) -> tuple[SkipGramTables, Float[Array, ""]]:
    """Return the tables after a step of gradient descent on the sum of losses, and this sum.

    Noise that is the context word itself is left out, as in the authors' program.

    Args:
      tables: Vectors of words as centers and as contexts.
      centers: Center word of each pair.
      contexts: Context word of each pair.
      noise: Noise words of each pair.
      is_real: False for padding.
      rate: Learning rate.
    """
    is_noise = noise != contexts[:, None]

    def total(v: Array, u: Array, n: Array) -> Array:
        return jnp.sum(jnp.where(is_real, negative_sampling_loss(v, u, n, is_noise), 0))

    gathered = tables.centers[centers], tables.contexts[contexts], tables.contexts[noise]
    loss, gradients = jax.value_and_grad(total, argnums=(0, 1, 2))(*gathered)
    # An optimizer of optax would update all rows in each step; a batch has a few of them.
    return SkipGramTables(
        tables.centers.at[centers].add(-rate * gradients[0]),
        tables.contexts.at[contexts].add(-rate * gradients[1]).at[noise].add(-rate * gradients[2]),
    ), loss


@functools.partial(jax.jit, donate_argnums=0, static_argnames="num_negatives")
def _train_steps(
    tables: SkipGramTables,
    pairs: tuple[Int[Array, "S B"], Int[Array, "S B"]],
    is_real: Bool[Array, "S B"],
    key: Key[Array, ""],
    rate: Float[Array, ""],
    cumulative: Float[Array, "W"],
    *,
    num_negatives: int,
) -> tuple[SkipGramTables, Float[Array, ""]]:
    def step(tables: SkipGramTables, batch: tuple) -> tuple[SkipGramTables, Array]:
        (centers, contexts), is_real, key = batch
        noise = sample_noise(key, cumulative, (len(centers), num_negatives))
        return descend(tables, centers, contexts, noise, is_real, rate)

    tables, losses = jax.lax.scan(step, tables, (pairs, is_real, jax.random.split(key, len(is_real))))
    return tables, jnp.sum(losses)
