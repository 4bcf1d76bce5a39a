"""Batches that grow over the first steps: linearly, as GPT-3's, or in stages, as Llama 3's."""

import itertools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from t5x_like.batch import Batch, DataField, map_streams
from t5x_like.config_class import config_class
from t5x_like.text.batches.loader import Loader


@config_class
class BatchSizeRamp:
    """Batches of ``initial_batch_size`` rows that grow linearly with the rows seen, to ``LoaderConfig.batch_size``.

    Brown et al. 2020, appendix B, https://arxiv.org/abs/2005.14165.

    Batches grow by one microbatch at a time, so ``num_microbatches`` says in how many steps. A step computes only the
    microbatches that its batch has, by one compiled program. No row is skipped.

    Attributes:
      initial_batch_size: Rows of the first batches, a multiple of a microbatch's.
      over_rows: Rows of training over which batches grow: tokens (GPT-3: 4 to 12 billion) by tokens of a row.
    """

    initial_batch_size: int
    over_rows: int

    def check(self, batch_size: int, num_microbatches: int) -> None:
        """Refuse batches that can't grow in whole microbatches.

        Args:
          batch_size: Rows of a full batch.
          num_microbatches: Parts of a full batch.

        Raises:
          ValueError: They can't.
        """
        rows = batch_size // num_microbatches
        if not 0 < self.initial_batch_size < batch_size or self.initial_batch_size % rows:
            raise ValueError(
                f"batch_size_ramp: initial_batch_size={self.initial_batch_size} must be a multiple of a microbatch's "
                f"{rows} rows (batch_size={batch_size} by num_microbatches={num_microbatches}), and smaller than "
                "batch_size; choose other rows, or more microbatches"
            )
        if self.over_rows < 1:
            raise ValueError(
                f"batch_size_ramp: over_rows is {self.over_rows}; give the rows over which batches grow"
            )

    def growing_steps(self, batch_size: int, num_microbatches: int) -> tuple[int, ...]:
        """Return the steps from which on batches have one microbatch more, in ascending order.

        Args:
          batch_size: Rows of a full batch.
          num_microbatches: Parts of a full batch.
        """
        rows = batch_size // num_microbatches
        first = parts = self.initial_batch_size // rows
        seen, step, steps = 0, 0, list[int]()
        while parts < num_microbatches:
            grown = first + (num_microbatches - first) * min(seen, self.over_rows) // self.over_rows
            steps += [step] * (grown - parts)
            # Batches keep this size until the rows of the next one are seen.
            parts, next_size = grown, -(-(grown + 1 - first) * self.over_rows // (num_microbatches - first))
            num_steps = -(-(next_size - seen) // (parts * rows))
            seen, step = seen + num_steps * parts * rows, step + num_steps
        return tuple(steps)


@config_class
class BatchSizeStages:
    """Batches that keep one size for a stage, then jump to the next, and in the end to ``LoaderConfig.batch_size``.

    Llama 3's batches doubled twice (Dubey et al. 2024, section 3.4.1, https://arxiv.org/abs/2407.21783). A step
    computes only the microbatches that its batch has, by one compiled program. No row is skipped.

    Attributes:
      batch_sizes: Rows of a batch in each stage before the last, ascending; multiples of a microbatch's.
      until_rows: Rows of training after which each of these stages ends: tokens by tokens of a row, ascending.
    """

    batch_sizes: tuple[int, ...]
    until_rows: tuple[int, ...]

    @property
    def initial_batch_size(self) -> int:
        """Rows of the first batches."""
        return self.batch_sizes[0]

    def check(self, batch_size: int, num_microbatches: int) -> None:
        """Refuse stages that don't grow in whole microbatches.

        Args:
          batch_size: Rows of a full batch.
          num_microbatches: Parts of a full batch.

        Raises:
          ValueError: They don't.
        """
        rows, sizes = batch_size // num_microbatches, (*self.batch_sizes, batch_size)
        if len(self.batch_sizes) != len(self.until_rows) or not self.batch_sizes:
            raise ValueError(
                f"batch_size_ramp: batch_sizes={self.batch_sizes} and until_rows={self.until_rows} must have a number "
                "for each stage before the last"
            )
        if any(size % rows for size in sizes) or not _ascend((0, *sizes)):
            raise ValueError(
                f"batch_size_ramp: batch_sizes={self.batch_sizes} must ascend to batch_size={batch_size} by multiples "
                f"of a microbatch's {rows} rows; choose other sizes, or more microbatches"
            )
        if not _ascend((0, *self.until_rows)):
            raise ValueError(
                f"batch_size_ramp: until_rows={self.until_rows} must ascend from more than 0 rows"
            )

    def growing_steps(self, batch_size: int, num_microbatches: int) -> tuple[int, ...]:
        """Return the steps from which on batches have one microbatch more; see ``BatchSizeRamp``."""
        rows = batch_size // num_microbatches
        seen, step, steps = 0, 0, list[int]()
        for size, grown, until in zip(
            self.batch_sizes, (*self.batch_sizes[1:], batch_size), self.until_rows, strict=True
        ):
            num_steps = -(-(until - seen) // size)
            seen, step = seen + num_steps * size, step + num_steps
            steps += [step] * ((grown - size) // rows)
        return tuple(steps)


def _ascend(numbers: tuple[int, ...]) -> bool:
    return all(first < second for first, second in itertools.pairwise(numbers))


class RampSchedule:
    """Number of microbatches of each step.

    Args:
      ramp: Its configuration.
      batch_size: Rows of a full batch.
      num_microbatches: Parts of a full batch.
    """

    def __init__(
        self, ramp: BatchSizeRamp | BatchSizeStages, *, batch_size: int, num_microbatches: int
    ) -> None:
        rows = batch_size // num_microbatches
        self.first, self.full = ramp.initial_batch_size // rows, num_microbatches
        self.growing_steps = ramp.growing_steps(batch_size, num_microbatches)

    def parts_of(self, num_steps: int) -> int:
        """Return the microbatches of the step after ``num_steps`` steps."""
        return self.first + int(np.searchsorted(self.growing_steps, num_steps, side="right"))

    def traced_parts_of(self, num_steps: jax.Array) -> jax.Array:
        """Return ``parts_of`` inside a compiled function, int32 []."""
        return self.first + jnp.sum(jnp.asarray(self.growing_steps, jnp.int32) <= num_steps, dtype=jnp.int32)


class RampLoader:
    """Batches that grow, filled up with empty rows to the full size, so that one program fits all.

    Args:
      loader: Loader of single microbatches.
      schedule: Microbatches of each step.
    """

    def __init__(self, loader: Loader, schedule: RampSchedule) -> None:
        if loader.head is not None:
            raise ValueError(
                "batch_size_ramp is for batches of one length; those of encoders' heads are as long as they need, so "
                "leave it out"
            )
        self._loader, self._schedule, self._num_steps = loader, schedule, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        """Return the rows of the next step's batch, and empty ones after the last of its microbatches."""
        num_parts = self._schedule.parts_of(self._num_steps)
        parts = [next(self._loader) for _ in range(num_parts)]
        parts += [self._loader.padding()] * (self._schedule.full - num_parts)
        self._num_steps += 1
        # Part k of n has every n-th row from k on, as in ``microbatches.accumulate``.
        return map_streams(_interleave, *parts)

    def epochs(self, num_steps: int) -> dict[str, float]:
        """Return how often so many steps read each corpus; see ``Loader.epochs``."""
        return self._loader.epochs(sum(self._schedule.parts_of(step) for step in range(num_steps)))

    def close(self) -> None:
        """Stop the worker processes, if there are any."""
        self._loader.close()

    def state(self) -> dict[str, object]:
        """Return the position after the last batch, as JSON values."""
        return {"num_steps": self._num_steps, "loader": self._loader.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue after the batch at which ``state`` was called."""
        self._num_steps = state["num_steps"]
        self._loader.restore(state["loader"])


def _interleave(_: DataField, *streams: np.ndarray) -> np.ndarray:
    return np.stack(streams, axis=1).reshape(-1, *streams[0].shape[1:])
