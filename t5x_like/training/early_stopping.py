"""Early stopping: a hook that ends a run when a metric on held-out data stops improving."""

import math
from typing import Literal

from t5x_like.config_class import config_class
from t5x_like.training.hooks import Hook, RunProgress


@config_class
class EarlyStopping(Hook):
    """Stops when a metric has not improved for ``patience`` evaluations in a row; the last step is saved.

    Everything is decided from the logged numbers, so a resumed run stops at the same step.

    >>> EarlyStopping(metric="validation/king_james/cross_entropy", patience=3)

    Attributes:
      metric: Logged number of held-out data, as ``<split>/<name>``: ``validation/<mixture>/loss`` or
        ``evaluation/<task>/<metric>``.
      patience: Evaluations without an improvement after which the run stops.
      min_delta: Largest change that is no improvement.
      mode: ``"min"`` for losses, ``"max"`` for scores.
    """

    metric: str
    patience: int = 3
    min_delta: float = 0.0
    mode: Literal["min", "max"] = "min"

    def __post_init__(self) -> None:
        if self.metric.count("/") < 2 or not self.metric.startswith(("validation/", "evaluation/")):
            raise ValueError(
                f"metric is {self.metric!r}; name a number of held-out data: validation/<mixture>/<name>, such as "
                "validation/king_james/loss, or evaluation/<task>/<name>"
            )
        if self.patience < 1:
            raise ValueError(f"patience is {self.patience}; give at least 1 evaluation")
        if self.min_delta < 0:
            raise ValueError(f"min_delta is {self.min_delta}; give 0 or more")

    def start(self, run: RunProgress) -> None:
        """Stop a resumed run that had stopped already."""
        self._decide(run)

    def after_step(self, run: RunProgress) -> None:
        """Decide after each evaluation.

        Raises:
          ValueError: the evaluation has no such metric.
        """
        evaluated = [line for line in run.lines if line["step"] == run.step and line["split"] != "train"]
        if not evaluated:
            return
        measured = [f"{line['split']}/{name}" for line in evaluated for name in line]
        if self.metric not in measured:
            names = [name for name in measured if not name.endswith(("/step", "/split"))]
            raise ValueError(
                f"early stopping needs {self.metric!r}, which this run doesn't measure; choose metric among: "
                f"{', '.join(names)}"
            )
        self._decide(run)

    def _decide(self, run: RunProgress) -> None:
        split, _, name = self.metric.rpartition("/")
        sign = 1.0 if self.mode == "max" else -1.0
        best, best_step, without = -math.inf, run.step, 0
        for line in run.lines:
            if line["split"] != split or name not in line:
                continue
            if sign * line[name] > best + self.min_delta:
                best, best_step, without = sign * line[name], line["step"], 0
            else:
                without += 1
        if without >= self.patience and run.stop_reason is None:
            by = f" by more than {self.min_delta:g}" if self.min_delta else ""
            run.stop(
                f"stopped at step {run.step}: {self.metric} has not improved{by} in {without} evaluations; it was "
                f"best at step {best_step}, {sign * best:.6g}"
            )
