"""GloVe: word vectors from counts of co-occurrences (Pennington et al. 2014, https://aclanthology.org/D14-1162)."""

import functools
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jaxtyping import Array, Bool, Float, Int

from t5x_like.ancestors.word_vectors.training_batches import check_loss, check_settings, stacked_batches
from t5x_like.ancestors.word_vectors.word_text import WordText
from t5x_like.ancestors.word_vectors.word_vectors import WordVectors
from t5x_like.io.progress import Progress

_WORDS_AT_ONCE = 1_000_000  # whose co-occurrences are counted together
_FIRST_SQUARES = 1.0  # as in the authors' program, so that no step is larger than rate times gradient


class Cooccurrences(NamedTuple):
    """Nonzero entries of the matrix of co-occurrences, sorted by word and context word.

    Attributes:
      words: Rows of words, int32 [E].
      contexts: Rows of words in their context, int32 [E].
      counts: Occurrences, each divided by the distance, float32 [E].
    """

    words: np.ndarray
    contexts: np.ndarray
    counts: np.ndarray


class GloveTables(NamedTuple):
    """Weights: a vector and a bias for each word, and for each word as context; float32."""

    words: Float[Array, "W D"]
    contexts: Float[Array, "W D"]
    word_biases: Float[Array, "W"]
    context_biases: Float[Array, "W"]


@dataclass(frozen=True, kw_only=True)
class Glove:
    """GloVe with AdaGrad.

    Attributes:
      dim: Dimensions of the vectors.
      window: Largest distance of context words, on both sides (§4.2: 10).
      epochs: Times that all entries are visited (§4.2: 50 for fewer than 300 dimensions, else 100).
      learning_rate: Learning rate of AdaGrad (§4.2: 0.05).
      batch_size: Entries whose gradients are added up to one step.
      count_limit: ``x_max`` of §3: entries of at least this weigh 1.
      power: ``α`` of §3: entries below weigh this power of their share of the limit.
      seed: Seed of fresh vectors and of the order.
    """

    dim: int = 100
    window: int = 10
    epochs: int = 50
    learning_rate: float = 0.05
    batch_size: int = 1024
    count_limit: float = 100.0
    power: float = 0.75
    seed: int = 0

    def __post_init__(self) -> None:
        check_settings(
            dim=self.dim,
            window=self.window,
            epochs=self.epochs,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            count_limit=self.count_limit,
            power=self.power,
        )

    def train(self, text: WordText, *, progress: bool = False) -> tuple[WordVectors, list[float]]:
        """Return the sums of word and context vectors (§4.2), and the mean loss of an entry in each epoch.

        Args:
          text: Training text.
          progress: Show a progress bar.

        Raises:
          ValueError: No word has a neighbor, or training diverged.
        """
        entries = count_cooccurrences(text, self.window)
        if not len(entries.counts):
            raise ValueError("no word of the text has a neighbor; give longer lines")
        rng = np.random.default_rng(self.seed)
        tables = _fresh_tables(jax.random.key(self.seed), len(text.words), self.dim)
        squares = jax.tree.map(lambda table: jnp.full_like(table, _FIRST_SQUARES), tables)
        losses, size = [], len(entries.counts)
        with Progress("GloVe", self.epochs * size, "entries", shown=progress) as bar:
            for epoch in range(self.epochs):
                total = 0.0
                for share, batches, is_real in stacked_batches(entries, self.batch_size, rng):
                    tables, squares, loss = _train_steps(
                        tables, squares, batches, is_real, self.learning_rate, self.count_limit, self.power
                    )
                    total += float(loss)
                    bar.reach(epoch * size + int(share * size))
                check_loss(total)
                losses.append(total / size)
                bar.relabel(f"GloVe, loss {losses[-1]:.4f}")
            bar.reach(self.epochs * size)
        return WordVectors(text.words, np.asarray(tables.words + tables.contexts)), losses


def count_cooccurrences(text: WordText, window: int) -> Cooccurrences:
    """Count the words in each other's context, ``1 / d`` for a distance of ``d`` words (§4.2).

    Args:
      text: Rows of words; no context crosses a line. Unknown words, which were left out, keep no distance.
      window: Largest distance, on both sides.
    """
    size = len(text.words)
    counts = scipy.sparse.csr_array((size, size), dtype=np.float64)
    for start in range(0, len(text.rows), _WORDS_AT_ONCE):
        for distance in range(1, window + 1):  # pairs are counted where the left word begins them
            rows = text.rows[start : start + _WORDS_AT_ONCE + distance]
            lines = text.lines[start : start + _WORDS_AT_ONCE + distance]
            if len(rows) <= distance:
                break
            is_line = lines[:-distance] == lines[distance:]
            left, right = rows[:-distance][is_line], rows[distance:][is_line]
            weights = np.full(len(left), 1 / distance)
            counts = counts + scipy.sparse.coo_array((weights, (left, right)), shape=(size, size)).tocsr()
    counts = (counts + counts.T).tocoo()
    order = np.lexsort((counts.col, counts.row))
    return Cooccurrences(
        counts.row[order].astype(np.int32),
        counts.col[order].astype(np.int32),
        counts.data[order].astype(np.float32),
    )


def weighting(
    counts: Float[Array, "B"], count_limit: float | Array, power: float | Array
) -> Float[Array, "B"]:
    """Return ``f(x)``: ``(x / x_max) ** α`` below ``x_max``, else 1 (§3, eq. 9).

    Args:
      counts: Co-occurrence counts.
      count_limit: ``x_max``, above which all counts weigh the same.
      power: Exponent ``α``.
    """
    return jnp.minimum(counts / count_limit, 1.0) ** power


def _glove_loss(
    words: Float[Array, "B D"],
    contexts: Float[Array, "B D"],
    word_biases: Float[Array, "B"],
    context_biases: Float[Array, "B"],
    counts: Float[Array, "B"],
    weights: Float[Array, "B"],
) -> Float[Array, "B"]:
    """Return ``f(x) (w·c + b + b' - log x)²`` of each entry ``x`` (§3, eq. 8); ``weights`` are ``f(x)``."""
    products = jnp.einsum("bd,bd->b", words, contexts)
    return weights * (products + word_biases + context_biases - jnp.log(counts)) ** 2


def adagrad_step(
    tables: GloveTables,
    squares: GloveTables,
    words: Int[Array, "B"],
    contexts: Int[Array, "B"],
    counts: Float[Array, "B"],
    weights: Float[Array, "B"],
    rate: float | Array,
) -> tuple[GloveTables, GloveTables, Float[Array, ""]]:
    """Return tables and sums of squared gradients after a step on some entries, and the entries' total loss.

    Each entry adds its own squared gradients, as if entries came one by one (Duchi et al. 2011, §1.1).

    Args:
      tables: Vectors and biases.
      squares: Sums of squared gradients.
      words: Row of each entry in the table of words.
      contexts: Row of each entry in the table of contexts.
      counts: Co-occurrence count of each entry.
      weights: Weight of each entry in the loss.
      rate: Learning rate.
    """
    rows = GloveTables(words, contexts, words, contexts)

    def total(w: Array, c: Array, b: Array, d: Array) -> Array:
        return jnp.sum(_glove_loss(w, c, b, d, counts, weights))

    gathered = [table[row] for table, row in zip(tables, rows, strict=True)]
    loss, gradients = jax.value_and_grad(total, argnums=(0, 1, 2, 3))(*gathered)
    # An optimizer of optax would update all rows in each step; a batch has a few of them.
    squares = GloveTables(
        *(
            square.at[row].add(gradient**2)
            for square, row, gradient in zip(squares, rows, gradients, strict=True)
        )
    )
    tables = GloveTables(
        *(
            table.at[row].add(-rate * gradient / jnp.sqrt(square[row]))
            for table, square, row, gradient in zip(tables, squares, rows, gradients, strict=True)
        )
    )
    return tables, squares, loss


def _fresh_tables(key: jax.Array, num_words: int, dim: int) -> GloveTables:
    shapes = (num_words, dim), (num_words, dim), (num_words,), (num_words,)
    drawn = [
        jax.random.uniform(each, shape, minval=-0.5, maxval=0.5) / dim  # as in the authors' program
        for each, shape in zip(jax.random.split(key, 4), shapes, strict=True)
    ]
    return GloveTables(*drawn)


@functools.partial(jax.jit, donate_argnums=(0, 1))
def _train_steps(
    tables: GloveTables,
    squares: GloveTables,
    entries: tuple[Array, Array, Array],
    is_real: Bool[Array, "S B"],
    rate: float | Array,
    count_limit: float | Array,
    power: float | Array,
) -> tuple[GloveTables, GloveTables, Float[Array, ""]]:
    def step(state: tuple[GloveTables, GloveTables], batch: tuple) -> tuple[tuple, Array]:
        (words, contexts, counts), is_real = batch
        weights = jnp.where(is_real, weighting(counts, count_limit, power), 0)
        tables, squares, loss = adagrad_step(*state, words, contexts, counts, weights, rate)
        return (tables, squares), loss

    (tables, squares), losses = jax.lax.scan(step, (tables, squares), (entries, is_real))
    return tables, squares, jnp.sum(losses)
