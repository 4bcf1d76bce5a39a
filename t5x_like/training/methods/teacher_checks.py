"""Checks that a teacher's predictions can be compared with its student's, before weights are read."""

import logging
from typing import Any

import jax

from t5x_like.model.families.generator_discriminator import GeneratorDiscriminator
from t5x_like.model.model_traits import traits_of
from t5x_like.model.parameters import ModelConfig
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.head_classes import order_by_name
from t5x_like.pretrained.initial_weights import check_head, check_length
from t5x_like.pretrained.open_checkpoint import open_unread
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.training.vocabulary_checks import check_same_vocabulary

# Tasks whose models predict the same words.
_SAME_WORDS = ({"masked_lm", "pretraining"},)

log = logging.getLogger(__name__)


def check_teacher(
    directory: str,
    step: int | None,
    model: Any,
    loader: Any,
    train: LoaderConfig,
    *,
    compares_heads: bool,
    compares_hidden_states: bool,
) -> None:
    """Check that the teacher's predictions can be compared with the student's; its weights are not read.

    Args:
      directory: The teacher.
      step: Step of a run; its newest if not given.
      model: Configuration of the student.
      loader: Loader of the training data: its vocabulary, head and classes.
      train: Configuration of that data.
      compares_heads: Whether the student learns from scores of the teacher's head.
      compares_hidden_states: Whether the student learns from the teacher's hidden states.

    Raises:
      ValueError: There is no teacher, or it differs in family, head, classes, width or vocabulary.
    """
    mixture = f"mixture {train.mixture!r}"
    with open_unread(directory, step=step) as teacher:
        check_family("teacher", teacher, model)
        check_same_vocabulary("the teacher", teacher, loader)
        if train.layout == "encoder":
            check_length(teacher.config, train.inputs_length, what=f"{mixture}, by teacher {directory},")
        if compares_heads:
            if loader.head is not None:
                check_head(teacher.config, loader.head, what=f"{mixture}, with teacher {directory},")
                _check_classes(teacher, loader.labels.class_names)
            else:
                _check_task(teacher, model)
        if compares_hidden_states and teacher.config.model_dim != model.model_dim:
            raise ValueError(
                f"the teacher {directory} is {teacher.config.model_dim} wide and the student {model.model_dim}, so "
                "their hidden states can't be compared; set hidden_states_weight=0, or make both equally wide"
            )


def check_family(what: str, frozen: Checkpoint, model: ModelConfig) -> None:
    """Check that a frozen model reads the batches of the trained one.

    Args:
      what: The frozen model, for the message.
      frozen: Its checkpoint.
      model: Configuration of the trained model.

    Raises:
      ValueError: It is of another family, or the trained model draws its own inputs.
    """
    frozen_type, trained_type = type(frozen.model), type(jax.eval_shape(model.build, jax.random.key(0)))
    if trained_type is GeneratorDiscriminator:
        raise ValueError(
            f"a model that pretrains as ELECTRA draws its own inputs, which a {what} would not see; train the "
            "discriminator or the generator alone"
        )
    if frozen_type is not trained_type:
        raise ValueError(
            f"the {what} {frozen.directory} is a {frozen_type.__name__} and the trained model a "
            f"{trained_type.__name__}, which read batches of other forms; take a {what} of the model's family"
        )


def _check_task(teacher: Checkpoint, model: object) -> None:
    teacher_task, student_task = teacher.config.task, traits_of(model).task
    if teacher_task == student_task or any({teacher_task, student_task} <= tasks for tasks in _SAME_WORDS):
        return
    raise ValueError(
        f"the teacher {teacher.directory} has a head for {teacher_task.replace('_', ' ')}, the student one for "
        f"{str(student_task).replace('_', ' ')}; take a teacher with the student's head, or set "
        "soft_targets_weight=0 to learn from hidden states alone"
    )


def _check_classes(teacher: Checkpoint, student_classes: tuple[str, ...]) -> None:
    teacher_classes = teacher.class_names
    if student_classes and not teacher_classes:
        log.warning(
            "the classes of teacher %s have no names; they are taken for those of the task, in its order: %s",
            teacher.directory,
            ", ".join(student_classes),
        )
    elif student_classes and order_by_name(teacher_classes, student_classes) is None:
        raise ValueError(
            f"the teacher {teacher.directory} predicts {', '.join(teacher_classes)}, "
            f"the task needs {', '.join(student_classes)}; take a teacher for these "
            "classes, or name them so in its id2label (config.json)"
        )
