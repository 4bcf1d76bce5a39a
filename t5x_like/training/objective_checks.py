"""Checks that a model can learn from the rows that pretraining objectives make."""

from collections.abc import Iterable

from t5x_like.model.model_traits import traits_of
from t5x_like.text.batches.loader import empty_row
from t5x_like.text.objectives.unilm import NUM_PATTERN_TYPES, UniLM
from t5x_like.text.tasks.task_set import TaskSet
from t5x_like.training.experiment import Experiment
from t5x_like.training.training_data import ResolvedTasks

# Tasks of models without a decoder.
_ENCODER_TASKS = ("masked_lm", "pretraining", "next_sentence", "replaced_tokens", "bidirectional_lm")


def check_objectives(experiment: Experiment, tasks: ResolvedTasks) -> None:
    """Check that the model has what its rows need: streams, memory, token types, and targets of its kind.

    Args:
      experiment: Resolved configuration.
      tasks: Tasks of its training data and validations.

    Raises:
      ValueError: It lacks one of them.
    """
    _check_streams(experiment, tasks.train)
    _check_memory(experiment, tasks.train)
    _check_shown_targets(experiment.model, tasks.train)
    for each in (tasks.train, *tasks.validations):
        _check_targets(experiment.model, each)
    _check_token_types(experiment.model, (tasks.train, *tasks.validations))


def _check_streams(experiment: Experiment, tasks: TaskSet) -> None:
    """Check that rows have the streams that a language model reads: inputs, targets after them, or both in one.

    Raises:
      ValueError: Rows lack inputs, or the model would read only one of two streams.
    """
    row, task = empty_row(experiment.data.train, tasks), traits_of(experiment.model).task
    if row.decoder_input_tokens is None or task not in (
        *_ENCODER_TASKS,
        "causal_lm",
        "sequence_to_sequence_lm",
    ):
        return
    has_inputs = row.encoder_input_tokens is not None
    mixture, name = experiment.data.train.mixture, type(experiment.model).__name__
    if not has_inputs and task != "causal_lm":
        raise ValueError(
            f"rows of mixture {mixture!r} are for a decoder alone, and {name} for {task!r} reads inputs; take a "
            "decoder, such as gin/models/gpt2, or rows with inputs (gin/objectives/masked_lm.gin for encoders, "
            "span_corruption.gin for encoder-decoders)"
        )
    if has_inputs and task == "causal_lm":
        raise ValueError(
            f"rows of mixture {mixture!r} have inputs and targets apart, and {name} reads one stream; set "
            "layout='decoder' (LoaderConfig.layout in recipes)"
        )
    if has_inputs and task in _ENCODER_TASKS:
        raise ValueError(
            f"rows of mixture {mixture!r} have inputs and targets, and {name} for {task!r} writes no text after its "
            "inputs; take an encoder-decoder, or set masked_targets (gin/runs/finetune_masked_targets.gin)"
        )


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


def _check_targets(model: object, tasks: TaskSet) -> None:
    """Check that a model which detects replaced tokens, and no other, has flags for targets, and masks at its targets.

    Raises:
      ValueError: It would learn flags as ids, ids as flags, or take the token before a mask for the masked one.
    """
    traits = traits_of(model)
    detects = traits.task == "replaced_tokens" and not traits.reads_masks
    for name, objective in tasks.objectives.items():
        if objective.spec.flags_targets != detects:
            have = "flags" if objective.spec.flags_targets else "ids"
            raise ValueError(
                f"the targets of task {name!r} ({type(objective).__name__}) are {have} of tokens, and the model is a "
                f"{type(model).__name__} for {traits.task!r}; replaced tokens are detected by ElectraConfig with "
                "task='replaced_tokens' (gin/models/electra), and other models need objectives such as "
                "gin/objectives/masked_lm.gin"
            )
        if objective.spec.predicts_next and traits.reads_masks:
            raise ValueError(
                f"the objective of task {name!r} has predicted_from='previous', and {type(model).__name__} takes the "
                "positions of targets for masked ones; set predicted_from='mask' (MaskedLM.predicted_from in recipes), "
                "or take another model, such as a BertConfig"
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
