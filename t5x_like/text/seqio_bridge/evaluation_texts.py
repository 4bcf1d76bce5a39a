"""Inputs and targets of tasks as plain text, to remove them from pretraining corpora."""

from collections.abc import Iterator
from typing import Any

from t5x_like.text.cells import as_text
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.tasks.foreign_tasks import ForeignTask
from t5x_like.text.tasks.pairs import PairsTask
from t5x_like.text.tasks.task_set import Task

# Of tasks registered with seqio, the features that hold text after preprocessing.
_WRITTEN = ("inputs_pretokenized", "targets_pretokenized")


def evaluation_texts(task: Task, split: str) -> Iterator[dict[str, str]]:
    """Yield the ``text`` of every row of a split: its input and its target, as the task words them.

    Args:
      task: The task.
      split: Name of the split.

    Raises:
      ValueError: No such split, bad rows, or a task whose rows aren't text.
    """
    if split not in task.splits:
        raise ValueError(f"task {task.name!r} has no split {split!r}; there are {', '.join(task.splits)}")
    if isinstance(task, PairsTask):
        for row in task.read(split):
            yield {"text": f"{row.inputs} {row.targets}"}
        return
    if not isinstance(task, ForeignTask):
        raise ValueError(f"task {task.name!r} has no inputs and targets to keep out; name one that has")
    for row in _of_seqio(task.name, split):
        texts = [as_text(row[name], "replace") for name in _WRITTEN if name in row]
        if not texts:
            raise ValueError(f"task {task.name!r} keeps no text next to its tokens ({', '.join(_WRITTEN)})")
        yield {"text": " ".join(texts)}


def _of_seqio(task: str, split: str) -> Iterator[dict[str, Any]]:
    from t5x_like.text.seqio_bridge.data_sources import numpy_examples  # imports TensorFlow

    seqio_task = registration.get_task(task)
    lengths = dict.fromkeys(seqio_task.output_features, 2**20)
    return numpy_examples(seqio_task.get_dataset(lengths, split, shuffle=False, seed=0))
