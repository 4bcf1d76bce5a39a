"""Inspection of tasks: their description, and examples raw, formatted and tokenized."""

from types import ModuleType

from t5x_like.text.batches.first_examples import TaskExample, first_task_examples
from t5x_like.text.batches.task_description import TaskDescription, describe_task
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.tasks.foreign_tasks import ForeignTask
from t5x_like.text.tasks.task_set import Task, TaskSet


def describe(task_set: TaskSet) -> TaskDescription:
    """Describe a task or mixture; its files are read to count their rows.

    Args:
      task_set: The task, or the tasks of the mixture.

    Raises:
      ValueError: Bad rows, or a mixture whose rates depend on an unknown number of rows.
    """
    name = task_set.name
    tasks = {each: _describe_task(task) for each, task in task_set.tasks.items()}
    first = next(iter(tasks.values()))
    if list(tasks) == [name]:
        return first
    splits: dict[str, int | None] = {}
    for task in tasks.values():
        for split, num_rows in task.splits.items():
            known = splits.get(split, 0)
            splits[split] = None if num_rows is None or known is None else known + num_rows

    def num_training_rows(task: str) -> int:
        num_rows = tasks[task].splits.get("train", 0)
        if num_rows is None:
            raise ValueError(
                f"mixture {name!r}: its rates depend on the number of training rows of {task!r}, which isn't known "
                "without its files; t5x-like data status says where they belong"
            )
        return num_rows

    return TaskDescription(
        name=name,
        kind="mixture",
        splits=splits,
        vocabulary=first.vocabulary,
        vocab_size=first.vocab_size,
        metrics=list(dict.fromkeys(metric for task in tasks.values() for metric in task.metrics)),
        rates=dict(zip(tasks, task_set.rates(num_training_rows), strict=True)),
        definition=task_set.mixture,
    )


def show(
    tasks: TaskSet,
    num_examples: int = 3,
    *,
    split: str = "train",
    inputs_length: int = 512,
    targets_length: int = 512,
) -> list[TaskExample]:
    """Return the first examples of a task, or of each task of a mixture.

    Args:
      tasks: The task, or the tasks of the mixture.
      num_examples: Examples of each task.
      split: Name of the split.
      inputs_length: Tokens of inputs.
      targets_length: Tokens of targets.

    Raises:
      ValueError: Unknown split, or bad rows.
    """
    shown: list[TaskExample] = []
    for name, task in tasks.tasks.items():
        if split not in task.splits:
            raise ValueError(f"task {name!r} has no split {split!r}; there are {', '.join(task.splits)}")
        lengths = {"inputs_length": inputs_length, "targets_length": targets_length}
        if not isinstance(task, ForeignTask):
            shown += first_task_examples(task, split, num_examples=num_examples, **lengths)
        else:
            seqio_task = registration.get_task(name)
            shown += _of_seqio().first_seqio_examples(seqio_task, split, num_examples=num_examples, **lengths)
    return shown


def _describe_task(task: Task) -> TaskDescription:
    if not isinstance(task, ForeignTask):
        return describe_task(task)
    return _of_seqio().describe_seqio_task(registration.get_task(task.name))


def _of_seqio() -> ModuleType:
    from t5x_like.text.seqio_bridge import seqio_task_examples  # imports TensorFlow

    return seqio_task_examples
