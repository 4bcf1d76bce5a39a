"""The hooks of a run, in their order: guards, logging, evaluation, those of the user, saving."""

from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.optimizers.optax_optimizer import as_optimizer
from t5x_like.training.divergence import StopOnSkippedSteps
from t5x_like.training.experiment import Experiment
from t5x_like.training.goodput import Goodput
from t5x_like.training.hooks import Evaluation, Every, Hook, Profile, TrainLog
from t5x_like.training.loss_spikes import WatchLossSpikes
from t5x_like.training.repeat_loader import TrainingLoader
from t5x_like.training.saving import Save
from t5x_like.training.state import StateLayout
from t5x_like.training.watchdog import EndIfHung


def hooks_of_run(
    experiment: Experiment,
    plan: StateLayout,
    loader: TrainingLoader,
    checkpoints: Checkpoints,
    evaluate: Evaluation,
    goodput: Goodput,
) -> list[Hook]:
    """Return the hooks that are called after each step.

    Args:
      experiment: The configuration.
      plan: Shapes of the state.
      loader: Loader of training batches.
      checkpoints: Where steps are saved.
      evaluate: Evaluation during training.
      goodput: Clock of the run.
    """
    run, intervals = experiment.run, experiment.run.intervals
    log = TrainLog(plan, as_optimizer(experiment.optimizer), loader, goodput)
    return [
        *(EndIfHung(each) for each in (run.watchdog,) if each),
        Profile(f"{run.model_dir}/profile", intervals.profile_steps),
        Every(intervals.log_every_steps, log),
        StopOnSkippedSteps(plan, run.max_skipped_steps),
        *(WatchLossSpikes(each, checkpoints, plan) for each in (run.loss_spikes,) if each),
        Every(intervals.evaluate_every_steps, evaluate, when_preempted=False),
        *run.hooks,
        Save(checkpoints, intervals.save_every_steps, max_failures=run.max_failed_saves),
    ]
