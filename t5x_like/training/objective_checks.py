"""Checks that a model can learn from the rows that pretraining objectives make."""

from collections.abc import Iterable

from t5x_like.model.model_traits import traits_of
from t5x_like.text.batches.loader import empty_row
from t5x_like.text.objectives.unilm import NUM_PATTERN_TYPES, UniLM
from t5x_like.text.tasks.task_set import TaskSet
from t5x_like.training.experiment import Experiment
from t5x_like.training.training_data import ResolvedTasks


def check_objectives(experiment: Experiment, tasks: ResolvedTasks) -> None:
    """Check that the model has what its objectives need: memory, token types, and targets that it doesn't read.

    Args:
      experiment: Resolved configuration.
      tasks: Tasks of its training data and validations.

    Raises:
      ValueError: It lacks one of them.
    """
    _check_memory(experiment, tasks.train)
    _check_shown_targets(experiment.model, tasks.train)
    _check_token_types(experiment.model, (tasks.train, *tasks.validations))


def _check_memory(experiment: Experiment, tasks: TaskSet) -> None:
    """Check that a model that remembers the batch before is pretrained on rows that continue it, from where they do.

    Raises:
      ValueError: rows don't continue, their memory has tokens that they predict, or they have the other direction.
    """
    memory = traits_of(experiment.model).carried_memory
    if memory is None:
        return
    is_contiguous = empty_row(experiment.data.train, tasks).continues is not None
    for name, objective in tasks.objectives.items():
        if not is_contiguous:
            raise ValueError(
                f"{memory.setting}, but rows of task {name!r} don't continue it; take gin/objectives/contiguous_lm.gin "
                f"(XLNet: contiguous_permutation_lm.gin), or {memory.without}"
            )
        is_backward = getattr(objective, "backward", False)
        if is_backward != memory.is_backward:
            direction = "backward" if memory.is_backward else "forward"
            raise ValueError(
                f"the objective of task {name!r} has backward={is_backward}, and the model direction={direction!r}; "
                "give both the same direction"
            )
        wanted = getattr(objective, "reuse_length", None)
        if wanted is not None and memory.reuse_length != wanted:
            raise ValueError(
                f"rows of task {name!r} are continued after {wanted} tokens (reuse_length), and the model's memory has "
                f"reuse_length={memory.reuse_length}; give both the same (REUSE_LENGTH in recipes)"
            )


def _check_shown_targets(model: object, tasks: TaskSet) -> None:
    """Check that a model which predicts tokens without reading them, and no other, has inputs that show its targets.

    Raises:
      ValueError: it has another objective, or another model would see what it predicts.
    """
    hides_targets = traits_of(model).hides_targets
    for name, objective in tasks.objectives.items():
        if hides_targets != objective.spec.shows_targets:
            raise ValueError(
                f"task {name!r} has the objective {type(objective).__name__}, and the model is a "
                f"{type(model).__name__} for {traits_of(model).task!r}; objectives whose "
                "inputs show the targets (gin/objectives/bidirectional_lm.gin) and models that predict tokens "
                "without reading them need each other"
            )


def _check_token_types(model: object, task_sets: Iterable[TaskSet]) -> None:
    """Check that the model has an embedding for each token type, in training and validation.

    Raises:
      ValueError: It has fewer, or reads no token types.
    """
    num_types = traits_of(model).num_token_types
    for tasks in task_sets:
        for name, objective in tasks.objectives.items():
            if not isinstance(objective, UniLM) or not objective.types_by_pattern:
                continue
            if num_types < NUM_PATTERN_TYPES:
                raise ValueError(
                    f"the objective of task {name!r} has types_by_pattern=True, which makes {NUM_PATTERN_TYPES} token "
                    f"types, and the model has num_token_types={num_types}; give a BertConfig "
                    f"num_token_types={NUM_PATTERN_TYPES}, or set types_by_pattern=False (UniLM.types_by_pattern in "
                    "recipes)"
                )
