"""Hooks: work that the training loop does between steps, such as logging, evaluation and saving."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import jax
import optax

from t5x_like.batch import Batch
from t5x_like.evaluation.task_evaluators import Evaluator, write_results
from t5x_like.model.parameters import ModelConfig, Parameters, without_constants
from t5x_like.optimizers.optimizers import Optimizer
from t5x_like.optimizers.schedules import as_schedule
from t5x_like.training.goodput import Goodput
from t5x_like.training.metrics import summarize
from t5x_like.training.preemption import Preemption, StopRequestedError
from t5x_like.training.repeat_loader import TrainingLoader
from t5x_like.training.state import State, StateLayout, empty
from t5x_like.training.step_timer import StepTimer
from t5x_like.training.validation import Validator
from t5x_like.training.writers import Writers


class RunProgress:
    """A run between two steps, which hooks read and change.

    Attributes:
      step: Number of steps done.
      total_steps: Number of the last step.
      state: Weights, optimizer state and sums to log; a hook may replace it.
      loader_state: Position in the data just after this step.
      lines: Lines that were logged, in order; a resumed run has its earlier lines.
      model_dir: Directory of the run.
      config: Configuration of the run, flattened: ``{"optimizer.beta1": 0.9}``.
      stop_reason: Reason why the run ends at this step; ``None`` while it continues.
      preempted: True if a signal stops the run, which then is not complete.
      diverged: True if the run ends because its numbers are not finite any more.
      batch: Batch of this step, on the devices; ``None`` before the first one.
      timer: Measures training without what hooks do inside ``run.paused(…)``.
      worker_states: Returns a line about each process that prepares data.
      newest_sign: Time of the newest progress, by ``time.monotonic``, and the activity since.
      ended: Event that is set when all work of the run is done, so that threads of hooks end before the program.
    """

    def __init__(
        self,
        state: State,
        *,
        step: int,
        total_steps: int,
        writers: Writers | None = None,
        lines: Sequence[dict[str, Any]] = (),
        model_dir: str = "",
        config: Mapping[str, object] = {},
        preemption: Preemption | None = None,
        worker_states: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self.state, self.step, self.total_steps = state, step, total_steps
        self.model_dir, self.config = model_dir, config
        self.loader_state: dict[str, Any] = {}
        self.lines = list(lines)
        self.stop_reason: str | None = None
        self.preempted = False
        self.diverged = False
        self.batch: Batch | None = None
        self.timer = StepTimer()
        self.last: dict[str, dict[str, Any]] = {}
        self.worker_states = worker_states
        self.newest_sign = (time.monotonic(), "starting")
        self.ended = threading.Event()
        self._writers, self._preemption = writers, preemption

    def __enter__(self) -> "RunProgress":
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()

    @property
    def is_last(self) -> bool:
        """True if no step follows."""
        return self.stop_reason is not None or self.step >= self.total_steps

    def stop(self, reason: str) -> None:
        """End the run after this step; hooks that run at the end run now."""
        self.stop_reason = reason

    @contextlib.contextmanager
    def paused(self, activity: str) -> Iterator[None]:
        """Leave what happens inside out of the training speed, and show ``activity`` as progress."""
        jax.block_until_ready(self.state)  # steps that are still computed belong to the training
        if self._writers is not None:
            self._writers.doing(activity)
        self.sign_of_life(activity)
        try:
            with self.timer.paused(activity):
                yield
        finally:
            if self._writers is not None:
                self._writers.doing("training")
            self.sign_of_life("training")

    def sign_of_life(self, activity: str) -> None:
        """Tell the watchdog that the run makes progress, and what it does."""
        self.newest_sign = (time.monotonic(), activity)

    def return_to(self, step: int, state: State) -> None:
        """Continue after an earlier step, with the next batches; log lines of later steps are deleted.

        Args:
          step: Step to continue after.
          state: State after that step.
        """
        self.step, self.state = step, state
        self.lines = [line for line in self.lines if line["step"] <= step]
        if self._writers is not None:
            self._writers.return_to(step)

    def preempt(self) -> None:
        """End the run after this step, because a signal asks for it."""
        self.preempted = True
        self.stop(f"stopped at step {self.step} as asked; the same command continues from here")

    def continue_unless_asked_to_stop(self) -> None:
        """Call between two batches of work that can be left out, such as evaluation.

        Raises:
          StopRequestedError: a signal asks the run to stop; call ``preempt``.
        """
        self.sign_of_life("evaluating")
        if self._preemption is not None:
            self._preemption.check()

    def say(self, text: str) -> None:
        """Print one line to the terminal."""
        if self._writers is not None:
            self._writers.say(text)

    def flush_log(self) -> None:
        """Write log lines that could not be written before, so that they precede a checkpoint."""
        if self._writers is not None:
            self._writers.flush()

    def log(self, split: str, line: Mapping[str, object]) -> None:
        """Write numbers to ``metrics.jsonl``, TensorBoard and the terminal.

        Args:
          split: Source of the numbers, such as ``"train"`` or ``"validation/king_james"``.
          line: Numbers by name.
        """
        self.last[split] = {"step": self.step, "split": split, **line}
        self.lines.append(self.last[split])
        if self._writers is not None:
            self._writers.write(self.last[split])


@runtime_checkable
class Hook(Protocol):
    """Work between steps. Inherit from it and write the methods that are needed; the others do nothing."""

    def start(self, run: RunProgress) -> None:
        """Run once, before the first step."""

    def before_step(self, run: RunProgress) -> None:
        """Run before each step; ``run.step`` steps are done."""

    def after_step(self, run: RunProgress) -> None:
        """Run after each step. When a later hook stops the run, it runs again, with ``run.is_last``."""


class Every(Hook):
    """Calls a function at every so many steps, and at the last one.

    >>> Every(100, lambda run: print(run.step, run.state["totals"].loss))

    Args:
      steps: Interval in steps; with 0 only the last step counts.
      action: Function called with the ``RunProgress``.
      when_preempted: True if the last step also counts when a signal stops the run early.
    """

    def __init__(self, steps: int, action: Callable[[RunProgress], None], *, when_preempted: bool = True):
        self._steps, self._action, self._when_preempted = steps, action, when_preempted
        self._done_at: int | None = None

    def after_step(self, run: RunProgress) -> None:
        """Call the function if the step is due, once for each step."""
        if self._done_at is not None and self._done_at > run.step:  # the run has returned to an earlier step
            self._done_at = None
        due = self._steps > 0 and run.step % self._steps == 0
        at_end = run.is_last and (self._when_preempted or not run.preempted)
        if (due or at_end) and self._done_at != run.step:
            self._done_at = run.step
            self._action(run)


class TrainLog:
    """Logs the means of the steps since it was last called, and starts new sums."""

    def __init__(
        self, plan: StateLayout, optimizer: Optimizer, loader: TrainingLoader, goodput: Goodput
    ) -> None:
        self._plan, self._loader, self._goodput = plan, loader, goodput
        learning_rate = optimizer.learning_rate
        self._schedule = None if learning_rate is None else as_schedule(learning_rate)
        self._weight_norm = jax.jit(lambda weights: optax.tree.norm(without_constants(weights)))

    def __call__(self, run: RunProgress) -> None:
        totals = run.state["totals"]
        rates = run.timer.rates(float(totals.tokens))
        run.log(
            "train",
            {
                **summarize(totals, self._loader.task_names, head=self._loader.head),
                **self._learning_rate(run),
                "weight_norm": float(self._weight_norm(self._plan.weights(run.state))),
                **rates,
                **self._goodput.measure(run.lines, rates.get("step_seconds", 0.0)),
                **peak_memory(jax.local_devices()[0]),
                "row_share_filled": self._loader.share_filled,  # of this process's rows, since it began
            },
        )
        run.state = run.state | {"totals": empty(self._plan.abstract["totals"])}

    def _learning_rate(self, run: RunProgress) -> dict[str, float]:
        """Return the rate of the last update: by its schedule, or as ``optax.inject_hyperparams`` keeps it."""
        if self._schedule is not None:
            return {"learning_rate": float(self._schedule(run.step - 1))}
        kept = optax.tree.get_all_with_path(run.state["opt_state"], "learning_rate")
        rates = [value for _, value in kept if isinstance(value, jax.Array) and not value.shape]
        return {"learning_rate": float(rates[0])} if len(rates) == 1 else {}


def peak_memory(device: Any) -> dict[str, float]:
    """Return the most memory that was in use, in GiB as ``device_peak_gib``; nothing of devices that don't count it."""
    stats = device.memory_stats() or {}
    return {"device_peak_gib": stats["peak_bytes_in_use"] / 2**30} if "peak_bytes_in_use" in stats else {}


class Evaluation:
    """Measures validation losses and scores tasks; predictions go to ``<model_dir>/evaluations``.

    A run that averages its weights is also measured with the average, under names that end with ``@average``.
    """

    def __init__(
        self,
        plan: StateLayout,
        validators: Sequence[Validator],
        evaluators: Sequence[Evaluator],
        *,
        model: ModelConfig,
        model_dir: str,
    ) -> None:
        self._plan, self._validators, self._evaluators = plan, validators, evaluators
        self._model, self._model_dir = model, model_dir

    def __call__(self, run: RunProgress) -> None:
        with run.paused("evaluating"):
            try:
                self._measure(run, self._plan.weights(run.state), "")
                if self._plan.average is not None:
                    self._measure(run, self._plan.weights(run.state, "average"), "@average")
            except StopRequestedError:
                run.say(f"the evaluation of step {run.step} was left")
                run.preempt()

    def _measure(self, run: RunProgress, weights: Parameters, suffix: str) -> None:
        for validator in self._validators:
            run.log(
                f"validation/{validator.name}{suffix}",
                validator.measure(weights, run.continue_unless_asked_to_stop),
            )
        for evaluator in self._evaluators:
            results = evaluator.run(weights, run.continue_unless_asked_to_stop)
            if jax.process_index() == 0:
                write_results(
                    results,
                    f"{self._model_dir}/evaluations/step_{run.step}{suffix}",
                    checkpoint=self._model_dir,
                    step=run.step,
                    config=self._model,
                    params=weights,
                )
            for name, result in results.items():
                run.log(f"evaluation/{name}{suffix}", result.scores)


class Profile(Hook):
    """Records steps ``steps[0]`` to ``steps[1]`` in ``directory`` for TensorBoard's profiler; ``None`` records none."""

    def __init__(self, directory: str, steps: tuple[int, int] | None) -> None:
        self._directory, self._steps = directory, steps
        self._tracing = contextlib.ExitStack()

    def before_step(self, run: RunProgress) -> None:
        """Start recording if the next step is the first one to record."""
        if self._steps and run.step + 1 == self._steps[0]:
            self._tracing.enter_context(jax.profiler.trace(self._directory))

    def after_step(self, run: RunProgress) -> None:
        """Stop recording after the last of the chosen steps, or of the run."""
        if self._steps and (run.step == self._steps[1] or run.is_last):
            jax.effects_barrier()
            self._tracing.close()
