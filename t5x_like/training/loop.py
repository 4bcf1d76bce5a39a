"""The loop, and what is done at a step where something is due."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import optax
from jax.sharding import Mesh

from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.evaluation.evaluator import Evaluator, write_results
from t5x_like.partitioning.shard import place
from t5x_like.text.batches.loader import Loader
from t5x_like.training.experiment import Experiment
from t5x_like.training.metrics import summarise
from t5x_like.training.preemption import Interruption
from t5x_like.training.prefetch import Feed
from t5x_like.training.profiling import Profiler
from t5x_like.training.state import State, StatePlan, empty
from t5x_like.training.step_timer import Clock
from t5x_like.training.validation import Validator
from t5x_like.training.writers import Writers


class Finished(NamedTuple):
    """Where a run ended."""

    step: int
    completed: bool  # False when it was interrupted; it was saved
    last: dict[str, Any]  # the newest line of each split: {"train": {...}, "validation/king_james": {...}}


class Loop:
    """Feeds batches to the compiled step, and logs, evaluates and saves when due."""

    def __init__(
        self,
        experiment: Experiment,
        *,
        plan: StatePlan,
        mesh: Mesh,
        loader: Loader,
        step: Callable[[State, Any], State],
        checkpoints: Checkpoints,
        writers: Writers,
        validators: list[Validator],
        evaluators: list[Evaluator],
    ):
        self._experiment, self._plan, self._mesh, self._loader = experiment, plan, mesh, loader
        self._step, self._checkpoints, self._writers = step, checkpoints, writers
        self._validators, self._evaluators = validators, evaluators
        self._weight_norm = jax.jit(optax.tree.norm)
        self._clock = Clock()
        self._last: dict[str, Any] = {}

    def run(self, state: State, start_step: int) -> Finished:
        """Goes from ``start_step`` to the experiment's last step, or to the step at which it was asked to stop."""
        cadence, total_steps = self._experiment.cadence, self._experiment.total_steps
        profiler = Profiler(f"{self._experiment.model_dir}/profile", cadence.profile_steps)
        with (
            Feed(self._loader, functools.partial(place, mesh=self._mesh)) as feed,
            Interruption() as interruption,
        ):
            for step in range(start_step + 1, total_steps + 1):
                with profiler.at(step):
                    fed = next(feed)
                    state = self._step(state, fed.batch)
                    self._clock.tick(state["step"], fed.waited_seconds)
                self._writers.step()
                stopping = interruption.requested_at(step)
                ending = stopping or step == total_steps
                if ending or _due(step, cadence.log_every_steps):
                    state = self._log(step, state)
                with self._clock.paused():
                    if _due(step, cadence.evaluate_every_steps) or (step == total_steps and not stopping):
                        self._evaluate(step, state)
                    if ending or _due(step, cadence.save_every_steps):
                        self._checkpoints.save(step, state, loader_state=fed.loader_state)
                if stopping:
                    self._writers.say(f"stopped at step {step} as asked; the same command goes on from here")
                    return Finished(step, completed=False, last=self._last)
        return Finished(total_steps, completed=True, last=self._last)

    def _log(self, step: int, state: State) -> State:
        totals = state["totals"]
        line = {
            **summarise(totals, tuple(self._loader.task_names)),
            "learning_rate": float(self._experiment.optimizer.learning_rate(step - 1)),
            "weight_norm": float(self._weight_norm(state["params"])),
            **self._clock.rates(float(totals.tokens)),
            "row_share_filled": self._loader.share_filled,  # of this process's rows, since it began
        }
        self._write(step, "train", line)
        return state | {"totals": empty(self._plan.abstract["totals"])}

    def _evaluate(self, step: int, state: State) -> None:
        for validator in self._validators:
            self._write(step, f"validation/{validator.name}", validator.measure(state["params"]))
        for evaluator in self._evaluators:
            results = evaluator.run(state["params"])
            if jax.process_index() == 0:
                write_results(
                    results,
                    f"{self._experiment.model_dir}/evaluations/step_{step}",
                    checkpoint=self._experiment.model_dir,
                    step=step,
                    config=self._experiment.model,
                    params=state["params"],
                )
            for name, result in results.items():
                self._write(step, f"evaluation/{name}", result.scores)

    def _write(self, step: int, split: str, line: dict[str, Any]) -> None:
        self._last[split] = {"step": step, "split": split, **line}
        self._writers.write(self._last[split])


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0
