"""Directory, length, intervals, guards and seed of a run."""

from t5x_like.config_class import changeable, config_class
from t5x_like.training.hooks import Hook
from t5x_like.training.loss_spikes import LossSpikes
from t5x_like.training.watchdog import Watchdog


@config_class
class Intervals:
    """Steps between logging, evaluating and saving; with 0 each happens at the last step only.

    Attributes:
      keep_checkpoints: Number of the newest checkpoints to keep.
      profile_steps: Steps (first, last) to record for TensorBoard's profiler.
    """

    log_every_steps: int = 100
    evaluate_every_steps: int = 1000
    save_every_steps: int = 1000
    keep_checkpoints: int = 3
    profile_steps: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        for name in ("log_every_steps", "evaluate_every_steps", "save_every_steps"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; give a number of steps, or 0 for never")
        if self.profile_steps is not None and not 1 <= self.profile_steps[0] <= self.profile_steps[1]:
            raise ValueError(
                f"profile_steps is {self.profile_steps}; give the first and the last step, such as (10, 12)"
            )
        if self.keep_checkpoints < 1:
            raise ValueError(
                f"keep_checkpoints is {self.keep_checkpoints}; keep at least 1 to be able to resume"
            )


@config_class
class RunConfig:
    """Directory, length, logging, saving and guards of a run.

    Attributes:
      model_dir: Directory of the run.
      total_steps: Number of the last step.
      intervals: Steps between logging, evaluating and saving.
      hooks: Hooks that run between evaluation and saving, after each step, such as ``EarlyStopping``.
      max_skipped_steps: Number of steps in a row without finite loss, gradients and update after which the run stops.
        Such steps change no weight.
      max_failed_saves: Number of failed saves in a row after which the run stops.
      loss_spikes: Reports losses that jump, or goes back to before the jump; ``None`` does neither.
      watchdog: Ends a run that hangs; ``None`` waits forever.
      seed: Seed of fresh weights and dropout.
      allow_compute_dtype_change: Let a continued run compute in another type than before. Mesh, microbatches and remat
        may always change.
    """

    model_dir: str = changeable()
    total_steps: int = changeable()
    intervals: Intervals = changeable(default_factory=Intervals)
    hooks: tuple[Hook, ...] = changeable(default=())
    max_skipped_steps: int = changeable(default=20)
    max_failed_saves: int = changeable(default=5)
    loss_spikes: LossSpikes | None = changeable(default_factory=LossSpikes)
    watchdog: Watchdog | None = changeable(default_factory=Watchdog)
    seed: int = 0
    allow_compute_dtype_change: bool = changeable(default=False)

    def __post_init__(self) -> None:
        if self.total_steps < 1:
            raise ValueError(f"total_steps is {self.total_steps}; a run needs at least 1 step")
        for name in ("max_skipped_steps", "max_failed_saves"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give at least 1")
