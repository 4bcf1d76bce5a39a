"""Losses that jump: reported, and undone if the run is configured so."""

import statistics
from typing import Literal

from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.config_class import config_class, refuse_unused
from t5x_like.training.hooks import Hook, RunProgress
from t5x_like.training.state import StateLayout, has_memory, saved_part

_FEWEST_LINES = 10


@config_class
class LossSpikes:
    """When a logged training loss is a spike, and what follows.

    Attributes:
      window: Log lines to compare with.
      threshold: Least distance from their median, in robust standard deviations: 1.4826 times the median distance.
      action: "report" prints a line. "return" also goes back to the newest checkpoint from before the spike, and
        continues with the next batches: those since that checkpoint are skipped (Chowdhery et al. 2022, PaLM, §5.1).
      max_returns: Returns after which spikes are only reported.
    """

    window: int = 50
    threshold: float = 10.0
    action: Literal["report", "return"] = "report"
    max_returns: int = 10

    def __post_init__(self) -> None:
        if self.window < _FEWEST_LINES:
            raise ValueError(f"window is {self.window}; give {_FEWEST_LINES} or more log lines")
        if self.threshold <= 0:
            raise ValueError(f"threshold is {self.threshold:g}; give a number above 0")
        if self.action == "report":
            refuse_unused(self, "max_returns", because="action='report' returns nowhere")


class WatchLossSpikes(Hook):
    """Compares each log line of the training loss with those before it.

    The newest checkpoint that was saved before a line without a spike is never deleted: a run may return there.

    Args:
      config: When a loss is a spike.
      checkpoints: Where to return to.
      plan: Shapes of the state.

    Raises:
      ValueError: The run should return, and its model has a memory of the batch before, which would not fit.
    """

    def __init__(self, config: LossSpikes, checkpoints: Checkpoints, plan: StateLayout) -> None:
        if config.action == "return" and has_memory(plan.abstract):
            raise ValueError(
                "loss_spikes.action is 'return', and this model has a memory of earlier segments, which other batches "
                "don't continue; set 'report'"
            )
        self._config, self._checkpoints, self._plan = config, checkpoints, plan
        self._num_returns = 0
        self._last_good = 0  # step of the newest log line without a spike

    def after_step(self, run: RunProgress) -> None:
        """Compare the step's log line with those before it."""
        if run.last.get("train", {}).get("step") != run.step or run.step == self._last_good:
            return
        spike = self._describe_spike(run)
        if spike is None:
            self._last_good = run.step
            self._checkpoints.protect(before=run.step)
            return
        run.say(spike)
        if self._config.action == "return" and not run.is_last:
            self._go_back(run)

    def _describe_spike(self, run: RunProgress) -> str | None:
        losses = [line["loss"] for line in run.lines if line["split"] == "train" and "loss" in line]
        *before, now = losses[-self._config.window - 1 :] or [0.0]
        if len(before) < _FEWEST_LINES:
            return None
        median = statistics.median(before)
        deviation = 1.4826 * statistics.median(abs(each - median) for each in before)
        if deviation <= 0 or now - median <= self._config.threshold * deviation:
            return None
        return (
            f"step {run.step}: loss {now:.4g} is {(now - median) / deviation:.0f} robust standard deviations above "
            f"the median of {len(before)} log lines before it, {median:.4g}"
        )

    def _go_back(self, run: RunProgress) -> None:
        try:
            with run.paused("saving"):
                self._checkpoints.wait()
        except OSError as error:
            run.say(str(error))
        steps = [step for step in self._checkpoints.all_steps() if step <= self._last_good]
        if not steps or self._num_returns >= self._config.max_returns:
            reason = (
                "no checkpoint is older" if not steps else f"the run has returned {self._num_returns} times"
            )
            run.say(f"step {run.step}: the run continues from here, because {reason}")
            return
        with run.paused("returning to a checkpoint"):
            restored = self._checkpoints.restore(saved_part(self._plan.abstract), max(steps))
        self._num_returns += 1
        spike_step = run.step
        run.return_to(restored.step, restored.state | {"frozen": run.state["frozen"]})
        run.log("events", {"returned_from_step": spike_step})
        run.say(
            f"returned to step {restored.step}; the batches of steps {restored.step + 1} to {spike_step} are skipped"
        )
