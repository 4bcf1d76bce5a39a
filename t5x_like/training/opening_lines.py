"""Lines printed before training: size of the model, devices, origin of the weights, repeated text."""

from collections.abc import Mapping

from jax.sharding import Mesh

from t5x_like.model import parameters
from t5x_like.model.layers.mixture_of_experts import parameters_text
from t5x_like.partitioning.mesh import shown_sizes
from t5x_like.training.experiment import Experiment
from t5x_like.training.run_record import unrecorded_fields
from t5x_like.training.state import StateLayout

_USEFUL_EPOCHS = 4  # Muennighoff et al. 2023, https://arxiv.org/abs/2305.16264, §6


def thawing_lines(plan: StateLayout) -> list[str]:
    """Return the steps at which weights begin to train, with their number, to print before training."""
    if not plan.stages:
        return []
    shapes = plan.weights(plan.abstract)
    trained = [parameters.partition(shapes, stage.thawed)[0] for stage in plan.stages]
    sizes = [parameters.count(tree) for tree in trained]
    steps = [f"{stage.start} ({size:,})" for stage, size in zip(plan.stages, sizes, strict=True)]
    return [f"weights thaw at step (parameters that train from it on): {', '.join(steps)}"]


def record_lines(experiment: Experiment) -> list[str]:
    """Return a line that names the values which ``experiment.json`` can't hold; none if it holds all."""
    names = unrecorded_fields(experiment)
    if not names:
        return []
    return [
        f"experiment.json can't hold {', '.join(names)}, only the name: to continue this run, call train() with the "
        "same values in Python; dataclasses and functions of a module can be recorded"
    ]


def epoch_lines(epochs: Mapping[str, float]) -> list[str]:
    """Return a line for each corpus that is read more than once.

    Args:
      epochs: How often the run reads each corpus.
    """
    advice = (
        "; more than 4 times help ever less (Muennighoff et al. 2023): a larger corpus, or fewer TRAIN_STEPS"
    )
    return [
        f"the run reads {name} about {num_epochs:.1f} times{advice if num_epochs > _USEFUL_EPOCHS else ''}"
        for name, num_epochs in epochs.items()
        if num_epochs > 1
    ]


def opening_lines(
    experiment: Experiment, plan: StateLayout, mesh: Mesh, start_step: int, epochs: Mapping[str, float]
) -> str:
    """Return the size of the model, the devices, the origin of the weights, and repeated text.

    Args:
      experiment: The run's.
      plan: Shapes of its state.
      mesh: Devices.
      start_step: Step at which training begins or resumes.
      epochs: How often the run reads each corpus.
    """
    num_trained, num_frozen = (parameters.count(plan.abstract[name]) for name in ("params", "frozen"))
    model = parameters.merge(plan.graphdef, plan.weights(plan.abstract))
    frozen = f", of which {num_trained:,} are trained," if num_frozen else ""
    total_steps = experiment.run.total_steps
    steps = f"{experiment.start.description}, {total_steps} steps in all"
    if start_step >= total_steps:
        steps = f"complete at step {start_step}"
        if start_step > total_steps:
            steps += f", {total_steps} were asked for; give more than {start_step} total_steps to go on"
    elif start_step:
        steps = f"resumed at step {start_step}, {total_steps} steps in all"
    sizes = " x ".join(f"{name} {size}" for name, size in shown_sizes(mesh.shape).items())
    devices = f"{mesh.size} {mesh.devices.flat[0].platform} device{'s' * (mesh.size > 1)} ({sizes})"
    return "\n".join(
        [
            f"{experiment.run.model_dir}: {steps}",
            f"{parameters_text(model, num_trained + num_frozen)}{frozen} on {devices}",
            *thawing_lines(plan),
            *record_lines(experiment),
            *epoch_lines(epochs),
            *plan.notes,
        ]
    )
