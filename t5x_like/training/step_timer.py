"""Training speed, without compilation, evaluation and saving."""

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator

import jax


class StepTimer:
    """Counts steps and seconds between log lines."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._compiling_since: float | None = self._start
        self._compile_seconds = 0.0
        self._steps = 0
        self._uncounted_steps = 0
        self._waited = 0.0
        self._paused: defaultdict[str, float] = defaultdict(float)

    def tick(self, step: jax.Array, waited_seconds: float) -> float | None:
        """Count one step, just dispatched; returns the seconds that it took if it was compiled, else ``None``.

        Args:
          step: Output of the step, to wait for.
          waited_seconds: Time that the step waited for its batch.
        """
        if self._compiling_since is not None:
            step.block_until_ready()
            self._compile_seconds = time.perf_counter() - self._compiling_since
            self._start += self._compile_seconds
            self._compiling_since, self._uncounted_steps = None, self._uncounted_steps + 1
            return self._compile_seconds
        self._steps += 1
        self._waited += waited_seconds
        return None

    def begin_compiling(self, step: jax.Array) -> None:
        """Leave the next step out of the speed, as it compiles a program; waits for ``step``, the last one done."""
        step.block_until_ready()
        self._compiling_since = time.perf_counter()

    @contextlib.contextmanager
    def paused(self, activity: str) -> Iterator[None]:
        """Leave the time spent inside out of the training time, and count it as that of ``activity``."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._paused[activity] += time.perf_counter() - start

    def rates(self, tokens: float) -> dict[str, float]:
        """Return steps and ``tokens`` per second since the last call, their seconds, waiting and pauses."""
        rates = {f"pause_seconds/{activity}": seconds for activity, seconds in self._paused.items()}
        if self._uncounted_steps:
            rates["compile_seconds"] = self._compile_seconds
        if self._steps:
            seconds = time.perf_counter() - self._start - sum(self._paused.values())
            counted = self._steps / (self._steps + self._uncounted_steps)
            rates |= {
                "step_seconds": seconds,
                "steps_per_second": self._steps / seconds,
                "tokens_per_second": tokens * counted / seconds,
                "data_wait_fraction": self._waited / seconds,
            }
        self._start, self._steps, self._uncounted_steps = time.perf_counter(), 0, 0
        self._waited = 0.0
        self._paused.clear()
        return rates
