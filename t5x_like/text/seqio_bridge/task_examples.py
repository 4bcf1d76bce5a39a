"""Inspection of a task by name: its description, and examples raw, worded and tokenized."""

from typing import Any

from t5x_like.text import registry
from t5x_like.text.batches.first_examples import TaskExample, first_task_examples
from t5x_like.text.batches.task_description import TaskDescription, describe_task
from t5x_like.text.seqio_bridge import registration


def describe(name: str) -> TaskDescription:
    """Describe a registered task or mixture; its files are read to count their rows.

    Raises:
      ValueError: Unknown name, bad rows, or a mixture whose rates depend on an unknown number of rows.
    """
    registration.connect()
    names = registry.names_of_tasks(name)
    tasks = {task: _describe_task(task) for task in names}
    first = tasks[names[0]]
    if names == [name]:
        return first
    splits: dict[str, int | None] = {}
    for task in tasks.values():
        for split, number in task.splits.items():
            known = splits.get(split, 0)
            splits[split] = None if number is None or known is None else known + number

    def num_training_rows(task: str) -> int:
        number = tasks[task].splits.get("train", 0)
        if number is None:
            raise ValueError(
                f"mixture {name!r}: its rates depend on the number of training rows of {task!r}, which isn't known "
                "without its files; t5x-like data status says where they belong"
            )
        return number

    return TaskDescription(
        name=name,
        kind="mixture",
        splits=splits,
        vocabulary=first.vocabulary,
        vocab_size=first.vocab_size,
        metrics=list(dict.fromkeys(metric for task in tasks.values() for metric in task.metrics)),
        rates={task: registry.rate_of(name, task, num_training_rows) for task in names},
        definition=registry.definition(name),
    )


def show(
    name: str,
    num_examples: int = 3,
    *,
    split: str = "train",
    inputs_length: int = 512,
    targets_length: int = 512,
) -> list[TaskExample]:
    """Return the first examples of a task, or of each task of a mixture.

    Args:
      name: Name of the task or mixture.
      num_examples: Examples of each task.
      split: Name of the split.
      inputs_length: Tokens of inputs.
      targets_length: Tokens of targets.

    Raises:
      ValueError: Unknown name or split, or bad rows.
    """
    registration.connect()
    shown: list[TaskExample] = []
    for task in registry.names_of_tasks(name):
        splits = registry.splits_of(task)
        if split not in splits:
            raise ValueError(f"task {task!r} has no split {split!r}; there are {', '.join(splits)}")
        definition = registry.task(task)
        lengths = {"inputs_length": inputs_length, "targets_length": targets_length}
        if definition is not None:
            shown += first_task_examples(definition, split, num_examples=num_examples, **lengths)
        else:
            seqio_task = registration.get_task(task)
            shown += _of_seqio().first_seqio_examples(seqio_task, split, num_examples=num_examples, **lengths)
    return shown


def _describe_task(name: str) -> TaskDescription:
    definition = registry.task(name)
    if definition is not None:
        return describe_task(definition)
    task = registration.get_task(name)
    return _of_seqio().describe_seqio_task(task)


def _of_seqio() -> Any:
    from t5x_like.text.seqio_bridge import seqio_task_examples  # imports TensorFlow

    return seqio_task_examples
