"""The teacher of a distillation: checked against the student and its data, opened onto the mesh, and recorded."""

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh

from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.files import as_path, read_json, write_json
from t5x_like.model import parameters
from t5x_like.model.families.generator_discriminator import GeneratorDiscriminator
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.fresh_heads import in_class_order
from t5x_like.pretrained.head_classes import order_by_name
from t5x_like.pretrained.initial_weights import check_head, check_length
from t5x_like.pretrained.open_checkpoint import open_checkpoint, open_unread
from t5x_like.pretrained.output_scale import as_trained
from t5x_like.text.batches.head_source import classes_for
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.heads.head_format import UNSCALED, OutputScale
from t5x_like.text.vocabularies.tokenizer import Tokenizer
from t5x_like.training.losses.distillation import Distillation

_FILE = "teacher.json"  # in the student's run
# Tasks whose models predict the same words.
_SAME_WORDS = ({"masked_lm", "pretraining"},)

log = logging.getLogger(__name__)


class Teacher(NamedTuple):
    """An opened teacher.

    Attributes:
      distillation: the losses against its predictions.
      graphdef: its structure.
      params: its weights, on the mesh.
      step: the step of a run; ``None`` for what has no steps.
      identity: hash of its weights' files.
    """

    distillation: Distillation
    graphdef: Any
    params: parameters.Parameters
    step: int | None
    identity: str

    def write(self, directory: str) -> None:
        """Write ``teacher.json``, by which a continued run finds the same weights."""
        if jax.process_index() == 0:
            record = {"teacher": self.distillation.teacher, "step": self.step, "identity": self.identity}
            write_json(as_path(directory) / _FILE, record)


def open_teacher(
    distillation: Distillation,
    model: Any,
    *,
    mesh: Mesh,
    classes: Sequence[str],
    scale: OutputScale = UNSCALED,
    model_dir: str,
) -> Teacher:
    """Open a teacher that ``check_teacher`` has accepted. It computes in the student's type.

    Args:
      distillation: says where it is.
      model: the student's configuration.
      mesh: the devices.
      classes: the class names of the tasks' head, in order.
      scale: the scale in which the tasks' head predicts numbers.
      model_dir: the student's run. If that has begun, it continues with the same weights.

    Raises:
      ValueError: its weights can't be read, or have changed since the run began.
    """
    path, where = as_path(model_dir) / _FILE, distillation.teacher
    step, identity = distillation.teacher_step, None
    if path.exists():
        with refusing_damage(path):
            begun = read_json(path, dict)
            step, identity = begun["step"], begun["identity"]
    checkpoint = open_checkpoint(where, mesh=mesh, step=step)
    if identity not in (None, checkpoint.identity):
        raise ValueError(
            f"the teacher {where} has other weights than when {model_dir} was started; put the earlier ones back, or "
            "start a new run"
        )
    checkpoint = checkpoint.computing_in(model.compute_dtype)
    params, note = in_class_order(checkpoint.params, checkpoint.class_names, classes, where)
    if note is not None:
        log.warning("%s", note)
    params = as_trained(params, checkpoint.fields, scale)
    return Teacher(distillation, checkpoint.graphdef, params, checkpoint.step, checkpoint.identity)


def check_teacher(distillation: Distillation, model: Any, loader: Any, train: LoaderConfig) -> None:
    """Check that the teacher's predictions can be compared with the student's; its weights are not read.

    Args:
      distillation: says where it is.
      model: the student's configuration.
      loader: of the training data: its vocabulary and head.
      train: the configuration of that data.

    Raises:
      ValueError: there is no teacher, or it differs in family, head, classes, width or vocabulary.
    """
    where, mixture = distillation.teacher, f"mixture {train.mixture!r}"
    with open_unread(where, step=distillation.teacher_step) as teacher:
        _check_family(teacher, model)
        check_same_vocabulary("the teacher", teacher, loader)
        if train.layout == "encoder":
            check_length(teacher.config, train.inputs_length, what=f"{mixture}, by teacher {where},")
        if distillation.soft_targets_weight:
            if loader.head is not None:
                check_head(teacher.config, loader.head, what=f"{mixture}, with teacher {where},")
                _check_classes(teacher, classes_for(train))
            else:
                _check_task(teacher, model)
        if distillation.hidden_states_weight and teacher.config.model_dim != model.model_dim:
            raise ValueError(
                f"the teacher {where} is {teacher.config.model_dim} wide and the student {model.model_dim}, so their "
                "hidden states can't be compared; set hidden_states_weight=0, or make both equally wide"
            )


def _check_family(teacher: Checkpoint, model: Any) -> None:
    theirs, ours = type(teacher.model), type(jax.eval_shape(model.build, jax.random.key(0)))
    if ours is GeneratorDiscriminator:
        raise ValueError(
            "a student that pretrains as ELECTRA draws its own inputs, which a teacher would not see; distil the "
            "discriminator or the generator alone"
        )
    if theirs is not ours:
        raise ValueError(
            f"the teacher {teacher.directory} is a {theirs.__name__} and the student a {ours.__name__}, which read "
            "batches of other forms; take a teacher of the student's family"
        )


def _check_task(teacher: Checkpoint, model: Any) -> None:
    theirs, ours = teacher.config.task, getattr(model, "task", None)
    if theirs == ours or any({theirs, ours} <= tasks for tasks in _SAME_WORDS):
        return
    raise ValueError(
        f"the teacher {teacher.directory} has a head for {theirs.replace('_', ' ')}, the student one for "
        f"{str(ours).replace('_', ' ')}; take a teacher with the student's head, or set soft_targets_weight=0 to learn "
        "from hidden states alone"
    )


def _check_classes(teacher: Checkpoint, ours: tuple[str, ...]) -> None:
    theirs = teacher.class_names
    if ours and not theirs:
        log.warning(
            "the classes of teacher %s have no names; they are taken for those of the task, in its order: %s",
            teacher.directory,
            ", ".join(ours),
        )
    elif ours and order_by_name(theirs, ours) is None:
        raise ValueError(
            f"the teacher {teacher.directory} predicts {', '.join(theirs)}, the task needs {', '.join(ours)}; take a "
            "teacher for these classes, or name them so in its id2label (config.json)"
        )


def check_same_vocabulary(what: str, checkpoint: Checkpoint, loader: Any) -> None:
    """Check that a model's ids mean what they mean in the data; numbers of sentinels and of padding may differ.

    Args:
      what: The model, for the message.
      checkpoint: The model.
      loader: Loader of the data.

    Raises:
      ValueError: It has another vocabulary, or fewer embeddings than the data has ids.
    """
    theirs, ours, where = checkpoint.found_tokenizer, loader.vocabulary, checkpoint.directory
    if theirs is None or not isinstance(ours, Tokenizer):
        log.warning("%s %s has no vocabulary to compare; it is taken for that of the tasks", what, where)
    elif difference := vocabulary_difference(theirs, ours):
        raise ValueError(
            f"{what} {where} has another vocabulary than the tasks ({ours.name}): {difference}. Take a model with "
            "the tasks' vocabulary, or give the tasks the model's"
        )
    if checkpoint.config.vocab_size < loader.num_ids:
        raise ValueError(
            f"{what} {where} has {checkpoint.config.vocab_size:,} embedding rows, the tasks need {loader.num_ids:,}; "
            "take a model with the tasks' vocabulary"
        )


def vocabulary_difference(theirs: Tokenizer, ours: Tokenizer) -> str:
    """Return the difference between two vocabularies in words; an empty string if their ids mean the same.

    Sentinels, which follow the other ids, may be missing in one of them.
    """
    if theirs == ours:
        return ""
    sizes = [each.vocab_size - each.num_sentinels for each in (theirs, ours)]
    if sizes[0] != sizes[1]:
        return f"{sizes[0]:,} ids without sentinels there, {sizes[1]:,} here"
    common = (
        min(theirs.vocab_size, ours.vocab_size) if theirs.num_sentinels == ours.num_sentinels else sizes[0]
    )
    differing = [number for number in range(common) if theirs.piece(number) != ours.piece(number)]
    if not differing:
        return ""
    first = differing[0]
    others = f", and {len(differing) - 1:,} more differ" if len(differing) > 1 else ""
    return f"id {first} is {theirs.piece(first)!r} there and {ours.piece(first)!r} here{others}"
