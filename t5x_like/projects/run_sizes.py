"""Lengths, batches, steps and rates for a table."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np

from t5x_like.projects.base_model import BaseModel
from t5x_like.text.vocabularies.tokenizer import Tokenizer

_MEASURED_ROWS = 20_000
_LONGEST = 512  # tokens; attention's cost grows with their square
_SHORTEST = 8
_WHOLE = 0.99  # share of the rows that aren't cut


@dataclass(frozen=True, kw_only=True)
class TokenLengths:
    """Lengths of the rows in tokens.

    Attributes:
      lengths: Tokens of each measured row, sorted, int64 [N].
      special: Special ids that a row has besides.
      limit: Longest rows that the model reads.
      parts_of: Tokens of the rows that all texts are cut into, one behind the other; ``None`` where each text is a row.
    """

    lengths: np.ndarray
    special: int
    limit: int
    parts_of: int | None = None

    @property
    def num_tokens(self) -> int:
        """Tokens of all measured rows."""
        return int(self.lengths.sum())

    @property
    def row_length(self) -> int:
        """Power of two that holds nearly all rows, special ids included, up to the limit."""
        needed = int(np.quantile(self.lengths, _WHOLE, method="higher")) + self.special
        length = _SHORTEST
        while length < needed:
            length *= 2
        return min(length, self.limit)

    @property
    def share_cut(self) -> float:
        """Share of the rows that are longer."""
        return float(np.mean(self.lengths + self.special > self.row_length))

    def line(self, names: Sequence[str]) -> str:
        """Return a line of a report.

        Args:
          names: Columns of the texts.
        """
        columns = " and ".join(map(repr, names))
        median, longest = int(np.median(self.lengths)), int(self.lengths[-1])
        cut = f"; {self.share_cut:.1%} of the rows are cut" if self.share_cut else ""
        read = f"in rows of {self.parts_of}" if self.parts_of else f"up to {self.row_length}{cut}"
        return (
            f"text: {'columns' if len(names) > 1 else 'column'} {columns}, {int(self.lengths[0])} to {longest} tokens, "
            f"half of the rows over {median}; read {read}"
        )


def measure_lengths(
    rows: Sequence[Sequence[str]], tokenizer: Tokenizer, *, max_length: int | None
) -> TokenLengths:
    """Measure rows of texts, of many rows a sample.

    Args:
      rows: Texts of each row.
      tokenizer: Tokenizer of the model.
      max_length: Positions of the model; None without a limit.
    """
    stride = -(-len(rows) // _MEASURED_ROWS)
    sample = rows[::stride]
    counts = iter(map(len, tokenizer.encode_all([text for texts in sample for text in texts])))
    lengths = np.array([sum(next(counts) for _ in texts) for texts in sample], np.int64)
    return TokenLengths(
        lengths=np.sort(lengths),
        special=2 * len(rows[0]) + 1,
        limit=min(_LONGEST, max_length or _LONGEST),
    )


@dataclass(frozen=True, kw_only=True)
class RunSizes:
    """Batches, steps and rates of a run.

    Attributes:
      batch_size: Rows of a batch.
      train_steps: Steps.
      learning_rate: Peak of the learning rate.
    """

    batch_size: int
    train_steps: int
    learning_rate: float

    @property
    def warmup_steps(self) -> int:
        """Steps of warm-up: a tenth."""
        return max(self.train_steps // 10, 1)

    @property
    def evaluate_every_steps(self) -> int:
        """Steps between evaluations and saved weights, about a fifth of all."""
        return max(self.train_steps // 5, 1)

    @property
    def log_every_steps(self) -> int:
        """Steps between lines of the log."""
        return max(min(self.train_steps // 10, 50), 1)

    def epochs(self, num_rows: int) -> float:
        """Return how often the rows are read."""
        return self.batch_size * self.train_steps / num_rows


def head_sizes(num_rows: int, base: BaseModel) -> RunSizes:
    """Return the sizes of training with a head.

    Pretrained weights read few rows more often (Mosbach et al. 2021, https://arxiv.org/abs/2006.04884), and 10,000 rows
    three times (Devlin et al. 2019, §4.1). Fresh ones need 500 steps; after five times they learn rows by heart.

    Args:
      num_rows: Number of training rows.
      base: Model to fine-tune.
    """
    batch_size = _shared_out(32 if num_rows >= 512 else 16 if num_rows >= 64 else 8)
    steps_of_epoch = -(-num_rows // batch_size)
    if base.checkpoint is None:
        steps = min(max(5 * steps_of_epoch, 500), 3000)
        return RunSizes(batch_size=batch_size, train_steps=steps, learning_rate=1e-3)
    epochs = 3 if num_rows >= 10_000 else 5 if num_rows >= 2000 else 10
    # Small models take higher rates than BERT's 2e-5 to 5e-5.
    rate = 1e-4 if base.width <= 384 else 5e-5 if base.width < 768 else 2e-5
    return RunSizes(batch_size=batch_size, train_steps=max(epochs * steps_of_epoch, 50), learning_rate=rate)


def text_sizes(num_rows: int, base: BaseModel, *, is_t5: bool) -> RunSizes:
    """Return the sizes of training to write texts; T5's rate is that of Raffel et al. 2020, §3.1.2.

    Args:
      num_rows: Number of training rows.
      base: Model to fine-tune.
      is_t5: The model is a T5.
    """
    batch_size = _shared_out(32 if num_rows >= 512 else 16 if num_rows >= 64 else 8)
    steps_of_epoch = -(-num_rows // batch_size)
    if base.checkpoint is None:
        steps = min(max(10 * steps_of_epoch, 500), 5000)
        return RunSizes(batch_size=batch_size, train_steps=steps, learning_rate=0.03)
    epochs = 3 if num_rows >= 10_000 else 5 if num_rows >= 2000 else 10
    rate = 1e-3 if is_t5 else 1e-4 if base.width <= 512 else 5e-5
    return RunSizes(batch_size=batch_size, train_steps=max(epochs * steps_of_epoch, 50), learning_rate=rate)


def pretraining_sizes(num_tokens: int, length: int, base: BaseModel) -> RunSizes:
    """Return the sizes of pretraining on a text.

    Args:
      num_tokens: Tokens of the training text.
      length: Tokens of a row.
      base: Model to begin with.
    """
    num_rows = max(num_tokens // length, 1)
    batch_size = _shared_out(16 if num_rows >= 256 else 8 if num_rows >= 32 else min(num_rows, 4))
    steps_of_epoch = -(-num_rows // batch_size)
    fewest, rate = (400, 1.0) if base.checkpoint is None else (50, 5e-5)
    steps = min(
        max(4 * steps_of_epoch, fewest), 10_000
    )  # more repeats help ever less (Muennighoff et al. 2023)
    return RunSizes(batch_size=batch_size, train_steps=steps, learning_rate=rate)


def _shared_out(batch_size: int) -> int:
    """Return the next multiple of the devices, which share a batch."""
    return -(-batch_size // jax.device_count()) * jax.device_count()
