"""The training loop: batches through the compiled step, hooks between the steps."""

import functools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from t5x_like.batch import Batch
from t5x_like.model.automatic_choices import noted_choices
from t5x_like.partitioning.process_watch import READING_DATA
from t5x_like.partitioning.processes import report_activity
from t5x_like.partitioning.shard import place
from t5x_like.training.hooks import Hook, RunProgress
from t5x_like.training.preemption import Preemption, StopRequestedError
from t5x_like.training.prefetch import PrefetchedBatch, Prefetcher
from t5x_like.training.repeat_loader import TrainingLoader
from t5x_like.training.state import State
from t5x_like.training.writers import Writers

# Steps that the devices may be behind the loop. JAX alone would let it run ahead by dozens, which all delay a signal.
_STEPS_AHEAD = 2

TrainStep: TypeAlias = Callable[[State, Batch], State]


class Finished(NamedTuple):
    """Result of a run: its last step and newest log lines.

    Attributes:
      step: Last step that was done.
      completed: False when a signal stopped the run before its last step; it was saved.
      last: Newest line of each split, such as ``{"train": {...}, "validation/king_james": {...}}``.
      stop_reason: Reason why it ended before its last step; ``None`` if it did not.
      diverged: True if it ended because its numbers were not finite any more.
    """

    step: int
    completed: bool
    last: dict[str, Any]
    stop_reason: str | None = None
    diverged: bool = False


class Loop:
    """Passes batches to the compiled step, and calls hooks between the steps, in their order.

    >>> Loop(step, loader, mesh=mesh, total_steps=1000, hooks=[Every(100, evaluate), Every(500, save)]).run(state)

    Args:
      step: ``(state, batch) -> state``, compiled; for a run in stages, one for each, by the number of its first step.
      loader: Iterates over NumPy batches, and returns its position by ``state()``.
      mesh: Devices that batches are placed on.
      total_steps: Number of the last step.
      hooks: Hooks called after each step. A hook that stops the run makes those before it run once more.
      writers: Progress bar, log files and terminal; none if not given.
      lines: Lines that a resumed run logged before.
      model_dir: Directory of the run, for hooks.
      config: Configuration of the run, flattened, for hooks.
    """

    def __init__(
        self,
        step: TrainStep | Mapping[int, TrainStep],
        loader: TrainingLoader,
        *,
        mesh: Mesh,
        total_steps: int,
        hooks: Sequence[Hook] = (),
        writers: Writers | None = None,
        lines: Sequence[dict[str, object]] = (),
        model_dir: str = "",
        config: Mapping[str, object] = {},
    ):
        self._steps = step if isinstance(step, Mapping) else {0: step}
        self._loader, self._mesh = loader, mesh
        self._hooks, self._writers = hooks, writers
        self._dispatched: deque[jax.Array] = deque()
        self._facts: dict[str, Any] = {
            "total_steps": total_steps,
            "writers": writers,
            "lines": lines,
            "model_dir": model_dir,
            "config": config,
            "worker_states": getattr(loader, "worker_states", tuple),
        }

    def run(self, state: State, start_step: int = 0) -> Finished:
        """Train to the last step, to a hook's stop, or to the step at which a signal asks to stop.

        Args:
          state: State to continue from.
          start_step: Number of steps that the state has made.
        """
        if self._writers is not None:
            self._writers.doing("compiling")
        with (
            Preemption() as preemption,
            RunProgress(state, step=start_step, preemption=preemption, **self._facts) as run,
        ):
            del state  # its memory is the step's to reuse
            for hook in self._hooks:
                hook.start(run)
            self._do_steps(run, preemption)
        if run.stop_reason is not None and self._writers is not None:
            self._writers.say(run.stop_reason)
        return Finished(run.step, not run.preempted, run.last, run.stop_reason, run.diverged)

    def _do_steps(self, run: RunProgress, preemption: Preemption) -> None:
        start_step, place_batch = run.step, functools.partial(place, mesh=self._mesh)
        with Prefetcher(self._loader, place_batch, preemption.check_alone) as batches:
            while not run.is_last:
                for hook in self._hooks:
                    hook.before_step(run)
                self._report_reading(run.step + 1, is_first=run.step == start_step)
                try:
                    prefetched = next(batches)
                except StopRequestedError:
                    run.preempt()
                else:
                    self._do_step(run, prefetched, start_step)
                    preemption.listen()
                    if preemption.poll():
                        run.preempt()
                self._call_hooks(run)

    def _do_step(self, run: RunProgress, prefetched: PrefetchedBatch, start_step: int) -> None:
        report_activity(f"at step {run.step + 1}")
        if run.step > start_step and run.step in self._steps:
            run.timer.begin_compiling(run.state["step"])
        with noted_choices() as choices:
            run.state = self._step_after(run.step)(run.state, prefetched.batch)
        run.batch = prefetched.batch
        run.step, run.loader_state = run.step + 1, prefetched.loader_state
        compile_seconds = run.timer.tick(run.state["step"], prefetched.waited_seconds)
        self._dispatched.append(jnp.copy(run.state["step"]))
        if len(self._dispatched) > _STEPS_AHEAD:
            self._dispatched.popleft().block_until_ready()
        run.sign_of_life("training")
        if self._writers is not None:
            self._writers.step()
            if compile_seconds is not None:
                self._writers.compiled(compile_seconds, choices)
                self._writers.doing("training")

    def _report_reading(self, step: int, *, is_first: bool) -> None:
        # The first batch may take one process much longer than others: its caches may be empty.
        report_activity("preparing the first batch" if is_first else f"{READING_DATA} of step {step}")

    def _step_after(self, num_steps: int) -> TrainStep:
        return self._steps[max(start for start in self._steps if start <= num_steps)]

    def _call_hooks(self, run: RunProgress) -> None:
        was_last = run.is_last
        for hook in self._hooks:
            hook.after_step(run)
            if (
                run.is_last and not was_last
            ):  # this hook stopped the run: those before it have work at the end, too
                self._call_hooks(run)
                return
