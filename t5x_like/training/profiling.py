"""Recording chosen steps for TensorBoard's profiler."""

import contextlib
from collections.abc import Iterator

import jax


class Profiler:
    """Traces the steps from ``steps[0]`` to ``steps[1]`` into ``directory``; with ``None`` it does nothing."""

    def __init__(self, directory: str, steps: tuple[int, int] | None):
        self._directory = directory
        self._steps = steps

    @contextlib.contextmanager
    def at(self, step: int) -> Iterator[None]:
        """Surrounds one step of training."""
        if self._steps and step == self._steps[0]:
            jax.profiler.start_trace(self._directory)
        yield
        if self._steps and step == self._steps[1]:
            jax.effects_barrier()
            jax.profiler.stop_trace()
