"""Selection of the tasks that can be evaluated: their files exist and the model can answer them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flax import nnx

from t5x_like.evaluation.evaluated_tasks import training_task_of
from t5x_like.evaluation.head_predictor import list_heads, missing_head
from t5x_like.io.paths import find_files
from t5x_like.pretrained.head_classes import order_by_name
from t5x_like.text.benchmarks.split_files import data_directory
from t5x_like.text.tasks.pairs import PairsTask


class TaskSelection(NamedTuple):
    """The tasks to evaluate, and the reasons by task that is left out."""

    tasks: tuple[str, ...]
    left_out: Mapping[str, str]


def select_by_files(
    definitions: Mapping[str, PairsTask],
    split: str,
    *,
    needs_training_split: bool,
    skip_missing: bool,
    data_dir: str | None,
) -> TaskSelection:
    """Select the tasks whose files exist, before weights are read.

    Args:
      definitions: Tasks by name.
      split: Split to evaluate.
      needs_training_split: Few-shot examples are drawn from the training split.
      skip_missing: Leave out other tasks instead of raising an error.
      data_dir: Folder of the files, for messages.

    Raises:
      ValueError: Files of some tasks are missing and ``skip_missing`` is off, or files of all.
    """
    needed = {task: _needed(each, split, needs_training_split) for task, each in definitions.items()}
    without_split = {task: reason for task, each in needed.items() if (reason := _no_split(each))}
    lacking = {
        task: reason
        for task, each in needed.items()
        if task not in without_split and (reason := _no_files(each))
    }
    left_out = {**without_split, **lacking}
    there = tuple(task for task in definitions if task not in left_out)
    if not left_out or (there and skip_missing):
        return TaskSelection(there, left_out)
    if len(without_split) == len(definitions):
        task, reason = next(iter(without_split.items()))
        raise ValueError(
            f"task {task!r} has {reason}" + "; the other tasks lack it, too" * (len(definitions) > 1)
        )
    if len(definitions) == 1:
        for each, wanted in next(iter(needed.values())):
            find_files(each.files[wanted])  # raises, and says where to get the files
    command = f"t5x-like data fetch {' '.join(lacking)}"
    if data_dir:
        command = f"t5x-like data fetch {' '.join(lacking)} --data_dir {data_dir}"
    fetch = f"To get them: {command}\n" if lacking else ""
    raise ValueError(
        f"{len(left_out)} of {len(definitions)} tasks are not below {data_directory(data_dir)}; nothing was "
        f"evaluated or written:\n{_listed(left_out)}\n{fetch}"
        "(t5x-like data status shows where files come from; data_dir=DIR or $T5X_LIKE_DATA names another folder)"
        + _others(there)
    )


def select_answerable(
    selection: TaskSelection, faults: Mapping[str, ValueError], *, whose: str, skip_missing: bool
) -> TaskSelection:
    """Return the selection without the tasks that have ``faults``.

    Args:
      selection: Tasks with files.
      faults: Errors by task.
      whose: The model and its heads, for messages.
      skip_missing: Leave out tasks with faults instead of raising an error.

    Raises:
      ValueError: There are faults and ``skip_missing`` is off, or every task has one.
    """
    if not faults:
        return selection
    fitting = tuple(task for task in selection.tasks if task not in faults)
    if not fitting and len({str(error) for error in faults.values()}) == 1:
        raise next(iter(faults.values()))
    short = {task: _short(task, error) for task, error in faults.items()}
    if fitting and skip_missing:
        return TaskSelection(fitting, {**selection.left_out, **short})
    raise ValueError(
        f"{whose} can't answer {len(faults)} of {len(selection.tasks)} tasks; nothing "
        f"was evaluated or written:\n{_listed(short)}{_others(fitting)}"
    )


def check_head(
    model: nnx.Module, definition: PairsTask, *, classes_of_user: Sequence[str], own: Sequence[str]
) -> None:
    """Check that a model has the head for a task.

    Args:
      model: The model with its heads.
      definition: The task.
      classes_of_user: Class names from the user, in the order of the head's outputs.
      own: Class names from the checkpoint.

    Raises:
      ValueError: No head of the right size, other classes, or a metric that doesn't fit the head's predictions.
    """
    head_format = definition.head_format()
    definition.head_metrics()
    wanted = missing_head(model, head_format)
    if wanted:
        raise ValueError(
            f"task {definition.name!r} needs {wanted}; the model's heads: {list_heads(model)}. Fine-tune it on such a "
            "task first, or name tasks that fit"
        )
    classes, named = head_format.class_names, classes_of_user or own
    if classes and named and order_by_name(named, classes) is None:
        whose = "and was given" if classes_of_user else "the head has"
        raise ValueError(
            f"task {definition.name!r} has the classes {', '.join(classes)}, {whose} {', '.join(named)}; if these are "
            "the same, name them by classes in the task's words, each once, in the order of the head's scores"
        )


def _needed(definition: PairsTask, split: str, needs_training_split: bool) -> list[tuple[PairsTask, str]]:
    """Return the (task, split) pairs to read: the split to evaluate, and the training split for examples."""
    shown = (training_task_of(definition), "train")
    needed = [(definition, split)]
    return [*needed, shown] if needs_training_split and shown not in needed else needed


def _no_split(needed: Sequence[tuple[PairsTask, str]]) -> str:
    """Describe the first missing split; empty if all exist."""
    for each, split in needed:
        if split not in each.splits:
            return f"no split {split!r}; there are {', '.join(each.splits)}"
    return ""


def _no_files(needed: Sequence[tuple[PairsTask, str]]) -> str:
    """Describe the missing files; empty if all exist."""
    lacking = []
    for each, split in needed:
        try:
            find_files(each.files[split])
        except ValueError as error:
            wanted = each.wanted_files(split)
            lacking.append(f"no {wanted}" if wanted else str(error))
    return " and ".join(lacking)


def _short(task: str, error: ValueError) -> str:
    """Shorten an error for a list that already names the task: its first clause."""
    return str(error).removeprefix(f"task {task!r} ").partition("; ")[0]


def _listed(reasons: Mapping[str, str]) -> str:
    width = max(map(len, reasons))
    return "\n".join(f"  {task:<{width}}  {reason}" for task, reason in reasons.items())


def _others(tasks: tuple[str, ...]) -> str:
    return f"\nskip_missing=True continues with the others: {', '.join(tasks)}" if tasks else ""
