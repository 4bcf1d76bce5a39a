"""An experiment before it runs: its names resolved, and the shapes of its state planned."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from jax.sharding import Mesh

from t5x_like.model.adapters.adapter_weights import trainable_by_default
from t5x_like.model.model_traits import ModelTask, traits_of
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.model.zoo.model_tasks import HEADLESS_TASKS
from t5x_like.optimizers.optax_optimizer import as_optimizer
from t5x_like.pretrained.initial_weights import CheckpointModel, with_lm_head
from t5x_like.text.batches.loader import empty_row
from t5x_like.text.tasks.task_set import TaskSet
from t5x_like.training.companions import Companion
from t5x_like.training.experiment import Experiment
from t5x_like.training.state import StateLayout, plan_state


def resolve_experiment(experiment: Experiment, tasks: TaskSet) -> Experiment:
    """Replace ``CheckpointModel`` by the model's configuration, and fill in ``trainable``.

    For an auxiliary language-model loss, a decoder keeps its output layer over the vocabulary next to its head. A
    checkpoint without a head gets such a layer where tokens are to predict.

    Args:
      experiment: The configuration.
      tasks: Tasks to train on.

    Raises:
      ValueError: There is no model to start from, it can't have the head that the tasks need, the adapter doesn't fit,
        or an option is for a head that the model lacks.
    """
    adds_lm_head = experiment.method.loss.auxiliary_lm_weight is not None
    needs_head = adds_lm_head or isinstance(experiment.model, CheckpointModel)
    head = experiment.data.train.labels(tasks).head if needs_head else None
    model = experiment.start.resolve(experiment.model, head and experiment.method.model_head(head))
    if adds_lm_head:
        model = with_lm_head(model, head)
    elif head is None and needs_head and traits_of(model).task in HEADLESS_TASKS:
        model = replace(model, task=_language_task(experiment, tasks))
    if experiment.method.has_value_head:
        if not isinstance(model, CommonConfig):
            raise ValueError(
                f"{type(experiment.method).__name__} needs a head for values, which a {type(model).__name__} can't "
                "have; take a model of model.zoo, or a method without values, such as RLOO"
            )
        model = replace(model, has_value_head=True)
    model = experiment.method.with_heads(model)
    return replace(experiment, model=model, trainable=experiment.trainable or trainable_by_default(model))


def _language_task(experiment: Experiment, tasks: TaskSet) -> ModelTask:
    """Return the task of a language model that reads the streams of training rows."""
    row = empty_row(experiment.data.train, tasks)
    if row.decoder_input_tokens is None:
        return "masked_lm"
    return "causal_lm" if row.encoder_input_tokens is None else "sequence_to_sequence_lm"


def plan_experiment(
    experiment: Experiment,
    mesh: Mesh,
    *,
    num_tasks: int,
    steps_per_epoch: Callable[[], float],
    companions: Mapping[str, Companion] = {},
) -> StateLayout:
    """Plan shapes and shardings of a resolved experiment's state.

    Args:
      experiment: The configuration.
      mesh: Devices.
      num_tasks: Number of tasks in the mixture, whose losses are logged apart.
      steps_per_epoch: Returns the steps of an epoch; asked only where unfreezing counts epochs.
      companions: Frozen models of the method.

    Raises:
      ValueError: A pattern of ``trainable`` matches nothing, or stages of unfreezing can't be.
    """
    unfreezing = experiment.unfreezing
    return plan_state(
        experiment.model,
        as_optimizer(experiment.optimizer),
        mesh,
        num_tasks=num_tasks,
        batch_size=experiment.data.train.batch_size,
        trainable=experiment.trainable or ("*",),
        unfreezing=unfreezing and unfreezing.in_steps(steps_per_epoch),
        total_steps=experiment.run.total_steps,
        average=experiment.average,
        measures=experiment.method.measures,
        method_numbers=experiment.method.numbers,
        companions=companions,
    )
