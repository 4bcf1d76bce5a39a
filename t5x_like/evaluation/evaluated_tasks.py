"""Tasks to evaluate: by name, with other files or vocabularies, and what is known about their splits."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from t5x_like.text import registry
from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.language_modeling import PERPLEXITY_METRICS
from t5x_like.text.benchmarks.task import BenchmarkTask
from t5x_like.text.metrics.text_preferences import preference_accuracy
from t5x_like.text.tasks.foreign_tasks import ForeignTask
from t5x_like.text.tasks.pairs import PairsTask
from t5x_like.text.tasks.task_set import Task, TaskSet


def is_perplexity_task(definition: PairsTask) -> bool:
    """Return True for a task of texts whose perplexity is measured."""
    return any(metric in PERPLEXITY_METRICS for metric in definition.metric_functions)


def is_comparison_task(definition: PairsTask) -> bool:
    """Return True for a task of texts whose likelihoods are compared."""
    return preference_accuracy in definition.metric_functions


def tasks_with_split(tasks: TaskSet, split: str) -> Mapping[str, Task]:
    """Return the tasks of a mixture that have a split, or all tasks if none has it.

    GLUE's mixture, for example, has tasks with only a test split.

    Args:
      tasks: Tasks of a mixture.
      split: Name of the split.
    """
    return {name: task for name, task in tasks.tasks.items() if split in task.splits} or tasks.tasks


def find_tasks(name: str) -> TaskSet | None:
    """Return the registered task of that name, or the tasks of a mixture; None if there is no such name."""
    try:
        return registry.resolve(name)
    except ValueError:
        return None


def find_task(
    name: str,
    *,
    vocabulary: str = "",
    num_sentinels: int = 100,
    data_dir: str | None = None,
    on_bad_row: Literal["fail", "skip"] | None = None,
) -> PairsTask:
    """Return the benchmark task of that name, or a registered task with inputs and targets.

    Args:
      name: Name of the task.
      vocabulary: Vocabulary of a benchmark task; its own by default.
      num_sentinels: Sentinel ids that are added to the vocabulary.
      data_dir: Folder of a benchmark's files; its own by default.
      on_bad_row: "fail" or "skip"; the task's own setting by default.

    Raises:
      ValueError: There is no such task, or it is of another kind.
    """
    tasks = find_tasks(name) if name not in catalogue.benchmarks() else None
    known = tasks and tasks.tasks.get(name)
    if isinstance(known, BenchmarkTask) and known.searched_files is not None:
        return replace(
            known,
            vocabulary=vocabulary or known.vocabulary,
            num_sentinels=num_sentinels,
            data_dir=data_dir or known.data_dir,
            files={},  # search the data folder again
            on_bad_row=on_bad_row or known.on_bad_row,
        )
    if isinstance(known, PairsTask):
        return replace(known, on_bad_row=on_bad_row) if on_bad_row else known
    mixture = (tasks and tasks.mixture) or catalogue.mixtures().get(name)
    if mixture is not None:
        raise ValueError(
            f"{name!r} is a mixture; name those of its tasks to evaluate on: {', '.join(mixture.tasks)}"
        )
    if known is not None and not isinstance(known, ForeignTask):
        raise ValueError(
            f"{name!r} is not a task with inputs and targets; name one that `t5x-like tasks list` shows"
        )
    return catalogue.benchmark_task(
        name,
        vocabulary=vocabulary,
        num_sentinels=num_sentinels,
        data_dir=data_dir,
        on_bad_row=on_bad_row or "fail",
    )


def training_task_of(definition: PairsTask) -> PairsTask:
    """Return the task that provides the training split.

    This is the task itself, unless it has no training split and is a part of another one (MNLI matched).
    """
    if not isinstance(definition, BenchmarkTask) or not definition.benchmark.training_task:
        return definition
    return catalogue.benchmark_task(
        name=definition.benchmark.training_task,
        vocabulary=definition.vocabulary,
        num_sentinels=definition.num_sentinels,
        data_dir=definition.data_dir,
        on_bad_row=definition.on_bad_row,
    )
