"""Description of a task: splits and their sizes, vocabulary and metrics."""

from typing import Any, NamedTuple

from t5x_like.text.benchmarks.shipped_vocabulary import with_vocabulary_in_reach
from t5x_like.text.benchmarks.task import BenchmarkTask
from t5x_like.text.tasks.file_task import FileTask
from t5x_like.text.tasks.foreign_tasks import Definition
from t5x_like.text.tasks.rows import RowPolicy


class TaskDescription(NamedTuple):
    """Description of a task or mixture.

    Attributes:
      name: Name in the registry.
      kind: "task" or "mixture".
      splits: Number of examples by split; ``None`` if unknown.
      vocabulary: Name of the vocabulary.
      vocab_size: Number of ids.
      metrics: Names of the metrics.
      rates: Mixing rate by task, for a mixture.
      definition: Our definition; ``None`` for tasks that are registered with seqio only.
    """

    name: str
    kind: str
    splits: dict[str, int | None]
    vocabulary: str
    vocab_size: int
    metrics: list[str]
    rates: dict[str, float]
    definition: Definition | None


def describe_task(task: FileTask[object]) -> TaskDescription:
    """Describe a task; its files are read to count their rows.

    Raises:
      ValueError: Bad rows, or no such file.
    """
    tokenizer = with_vocabulary_in_reach(task).tokenizer
    return TaskDescription(
        name=task.name,
        kind="task",
        splits={split: num_rows(task, split) for split in task.splits},
        vocabulary=f"{tokenizer.name} ({tokenizer.kind}, {tokenizer.num_sentinels} sentinels)",
        vocab_size=tokenizer.vocab_size,
        metrics=[metric.__name__ for metric in task.metric_functions],
        rates={},
        definition=task,
    )


def num_rows(task: FileTask[Any], split: str, policy: RowPolicy | None = None) -> int | None:
    """Return the number of good rows of a split, counted by reading it.

    A benchmark without files has its published number of rows, or ``None``.

    Args:
      task: The task.
      split: Name of the split.
      policy: Counter of skipped rows; by default one for ``on_bad_row``.

    Raises:
      ValueError: Bad rows, or no such file.
    """
    if not isinstance(task, BenchmarkTask):
        return sum(1 for _ in task.read(split, policy))
    try:
        task.files[split]
    except ValueError:
        return task.benchmark.source.rows.get(split) or None
    return sum(1 for _ in task.raw_rows(split, policy))
