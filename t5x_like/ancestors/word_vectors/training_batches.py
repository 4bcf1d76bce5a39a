"""Shuffled batches for training word vectors, stacked so that one compiled call takes many steps."""

from collections.abc import Iterator, Sequence

import numpy as np

STEPS_AT_ONCE = 64


def check_settings(**values: float) -> None:
    """Check that numbers are positive.

    Raises:
      ValueError: One isn't.
    """
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} is {value}; give a positive number")


def stacked_batches(
    columns: Sequence[np.ndarray], batch_size: int, rng: np.random.Generator
) -> Iterator[tuple[float, tuple[np.ndarray, ...], np.ndarray]]:
    """Yield batches of examples in random order, ``STEPS_AT_ONCE`` together.

    Args:
      columns: Arrays [N] whose places with the same index are an example.
      batch_size: Examples of a batch.
      rng: Draws the order.

    Yields:
      The share of examples before, the columns [S, B], and which examples are real, bool [S, B]. Others fill up the
      last batches.
    """
    order = rng.permutation(len(columns[0]))
    group = STEPS_AT_ONCE * batch_size
    for start in range(0, len(order), group):
        chosen = order[start : start + group]
        indices = np.resize(chosen, group)
        is_real = np.arange(group) < len(chosen)
        shape = STEPS_AT_ONCE, batch_size
        yield (
            start / len(order),
            tuple(column[indices].reshape(shape) for column in columns),
            is_real.reshape(shape),
        )


def check_loss(loss: float) -> None:
    """Check that training can continue.

    Raises:
      ValueError: The loss is NaN or infinite.
    """
    if not np.isfinite(loss):
        raise ValueError(
            f"the loss of word vectors became {loss}: training diverged; lower learning_rate or batch_size"
        )
