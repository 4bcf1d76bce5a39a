"""Checks that a model can learn from the rows that pretraining objectives make."""

from typing import Any

from t5x_like.ancestors.bidirectional_lm import BidirectionalLM
from t5x_like.text import registry
from t5x_like.text.batches.loader import empty_row
from t5x_like.text.objectives.unilm import NUM_PATTERN_TYPES, UniLM
from t5x_like.training.experiment import Experiment


def check_objectives(experiment: Experiment) -> None:
    """Check that the model has the memory, the directions and the token types that its objectives need.

    Raises:
      ValueError: It lacks one of them.
    """
    _check_memory(experiment)
    _check_directions(experiment)
    _check_token_types(experiment)


def _check_memory(experiment: Experiment) -> None:
    """Check that a model that remembers the batch before is pretrained on rows that continue it, from where they do.

    Raises:
      ValueError: rows don't continue, their memory has tokens that they predict, or they have the other direction.
    """
    model: Any = experiment.model
    if getattr(model, "memory_length", None):
        memory = f"the model remembers {model.memory_length} positions of the batch before (memory_length)"
        without = "memory_length=0 (XLNet: None)"
    elif getattr(model, "carries_state", False):
        memory = "the model's state continues from the batch before (carries_state)"
        without = "carries_state=False"
    else:
        return
    is_contiguous = empty_row(experiment.data.train).continues is not None
    for name in registry.names_of_tasks(experiment.data.train.mixture):
        task = registry.task(name)
        if task is None or not task.is_pretraining:
            continue
        if not is_contiguous:
            raise ValueError(
                f"{memory}, but rows of task {name!r} don't continue it; take gin/objectives/contiguous_lm.gin (XLNet: "
                f"contiguous_permutation_lm.gin), or {without}"
            )
        objective: Any = getattr(task, "objective", None)
        is_backward = getattr(objective, "backward", False)
        if is_backward != (getattr(model, "direction", None) == "backward"):
            raise ValueError(
                f"the objective of task {name!r} has backward={is_backward}, and the model "
                f"direction={getattr(model, 'direction', 'forward')!r}; give both the same direction"
            )
        wanted = getattr(objective, "reuse_length", None)
        if wanted is not None and model.reuse_length != wanted:
            raise ValueError(
                f"rows of task {name!r} are continued after {wanted} tokens (reuse_length), and the model's memory has "
                f"reuse_length={model.reuse_length}; give both the same (REUSE_LENGTH in recipes)"
            )


def _check_directions(experiment: Experiment) -> None:
    """Check that a bidirectional language model, and no other model, learns what both directions predict.

    Raises:
      ValueError: it has another objective, or another model would see what it predicts.
    """
    predicts_both = getattr(experiment.model, "task", None) == "bidirectional_lm"
    for name in registry.names_of_tasks(experiment.data.train.mixture):
        task = registry.task(name)
        if task is None or not task.is_pretraining:
            continue
        objective = getattr(task, "objective", None)
        if predicts_both != isinstance(objective, BidirectionalLM):
            raise ValueError(
                f"task {name!r} has the objective {type(objective).__name__}, and the model is a "
                f"{type(experiment.model).__name__} for {getattr(experiment.model, 'task', None)!r}; BidirectionalLM "
                "(gin/objectives/bidirectional_lm.gin) and models such as ELMo for 'bidirectional_lm' need each other"
            )


def _check_token_types(experiment: Experiment) -> None:
    """Check that the model has an embedding for each token type, in training and validation.

    Raises:
      ValueError: It has fewer, or reads no token types.
    """
    num_types = getattr(experiment.model, "num_token_types", 0)
    for loader in (experiment.data.train, *experiment.data.validations):
        for name in registry.names_of_tasks(loader.mixture):
            objective = getattr(registry.task(name), "objective", None)
            if not isinstance(objective, UniLM) or not objective.types_by_pattern:
                continue
            if num_types < NUM_PATTERN_TYPES:
                raise ValueError(
                    f"the objective of task {name!r} has types_by_pattern=True, which makes {NUM_PATTERN_TYPES} token "
                    f"types, and the model has num_token_types={num_types}; give a BertConfig "
                    f"num_token_types={NUM_PATTERN_TYPES}, or set types_by_pattern=False (UniLM.types_by_pattern in "
                    "recipes)"
                )
