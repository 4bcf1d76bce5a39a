"""The state that a run trains from: its own newest checkpoint, or that of its start."""

import logging
from typing import Any

from jax.sharding import Mesh

from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.checkpoints.local_steps import refuse_several_writers
from t5x_like.model.model_traits import traits_of
from t5x_like.pretrained.frozen_weights import (
    FrozenRecord,
    fresh_params,
    read_frozen_record,
    record_frozen,
    with_vocabulary_weights,
)
from t5x_like.pretrained.open_checkpoint import open_frozen
from t5x_like.training.experiment import Experiment
from t5x_like.training.repeat_loader import TrainingLoader
from t5x_like.training.start.start import StartingWeights
from t5x_like.training.state import State, StateLayout, fine_tuning_state, new_state, saved_part

log = logging.getLogger(__name__)


def starting_state(
    experiment: Experiment,
    plan: StateLayout,
    mesh: Mesh,
    checkpoints: Checkpoints,
    loader: TrainingLoader,
    from_step: int | None = None,
) -> tuple[State, int, FrozenRecord | None]:
    """Return the state to train from, its step, and where frozen weights come from (``None`` if all are trained).

    Weights that follow from a vocabulary are those of the data's.

    Args:
      experiment: Resolved configuration.
      plan: Shapes and shardings of the state.
      mesh: Devices.
      checkpoints: Those of the run.
      loader: Loader of training batches, which a restored run moves to its position.
      from_step: Saved step to continue from, in place of the newest; later ones are set aside.

    Raises:
      FileNotFoundError: ``from_step`` is not saved.
      ValueError: Weights can't be read, or don't fit.
    """
    refuse_several_writers(checkpoints.directory)
    model: Any = experiment.model
    has_frozen = bool(plan.abstract["frozen"])
    if checkpoints.latest_step() is not None or from_step is not None:
        restored = checkpoints.restore(saved_part(plan.abstract), from_step)
        for line in restored.skipped:
            log.warning("%s", line)
        loader.restore(restored.loader_state)
        if from_step is not None:
            checkpoints.set_aside(after=from_step)
        if not has_frozen:
            return restored.state | {"frozen": {}}, restored.step, None
        record = read_frozen_record(experiment.run.model_dir)
        frozen = open_frozen(experiment.run.model_dir, model, record, mesh=mesh)
        return restored.state | {"frozen": frozen}, restored.step, record
    checkpoints.refuse_lost_steps()
    seed = experiment.run.seed
    start = experiment.start.weights(
        model, mesh=mesh, seed=seed, labels=loader.labels, vocabulary=loader.vocabulary
    )
    if start is None:
        if not has_frozen:
            return new_state(plan, model, seed=seed), 0, None
        start = StartingWeights(fresh_params(model, mesh=mesh, seed=seed), {})
    params = start.params
    if traits_of(model).vocabulary_weights:
        params = with_vocabulary_weights(params, model, loader.vocabulary)
    state = fine_tuning_state(plan, params, start.noise)
    if not has_frozen:
        return state, 0, None
    origin = {"start_from": None, "step": None, "seed": seed} | start.origin
    return state, 0, record_frozen(state["frozen"], plan.trained, **origin)
