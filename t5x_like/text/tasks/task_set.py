"""Tasks of a mixture as values, by the names that a registry has for them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from t5x_like.text.heads.head_answers import UNSCALED, Head, OutputScale
from t5x_like.text.heads.head_format import HeadFormat
from t5x_like.text.objectives.objective import Objective
from t5x_like.text.tasks.file_task import FileTask
from t5x_like.text.tasks.foreign_tasks import ForeignTask, ForeignTasks, require_connected
from t5x_like.text.tasks.mixtures import Mixture
from t5x_like.text.tasks.pretraining import PretrainingTask

Task = FileTask[Any] | ForeignTask


@dataclass(frozen=True, kw_only=True)
class LabelSpace:
    """Meaning of a head's outputs.

    Attributes:
      head: Head that the tasks need; None if they need none.
      class_names: Names of the classes, in the order of the outputs.
      scale: Scale of predicted numbers; that of plain numbers if the tasks have several.
    """

    head: Head | None = None
    class_names: tuple[str, ...] = ()
    scale: OutputScale = UNSCALED


NO_LABELS = LabelSpace()


@dataclass(frozen=True, kw_only=True)
class TaskSet:
    """Tasks of a mixture, or a single one.

    Attributes:
      name: Name of the mixture or of the task.
      tasks: Tasks by name, in the order of the mixture.
      mixture: Our definition of the mixture; None for a single task, or a mixture of another library.
      library: Connected library of other tasks; None if none is connected.
    """

    name: str
    tasks: Mapping[str, Task]
    mixture: Mixture | None = None
    library: ForeignTasks | None = None

    @property
    def names(self) -> list[str]:
        """Names of the tasks."""
        return list(self.tasks)

    @property
    def is_pretraining(self) -> bool:
        """True if no task has targets of its own."""
        return all(task.is_pretraining for task in self.tasks.values())

    @property
    def objectives(self) -> dict[str, Objective]:
        """Objectives of the pretraining tasks by name."""
        tasks = self.tasks.items()
        return {name: task.objective for name, task in tasks if isinstance(task, PretrainingTask)}

    @property
    def head_formats(self) -> dict[str, HeadFormat]:
        """Formats in which a head reads the tasks, by name.

        Raises:
          ValueError: No head reads one of them.
        """
        return {name: task.head_format() for name, task in self.tasks.items()}

    @property
    def labels(self) -> LabelSpace:
        """Meaning of the outputs of the head that reads the tasks.

        Raises:
          ValueError: No head reads one of them, or they need different heads or classes.
        """
        if self.is_pretraining:
            return NO_LABELS
        formats = list(self.head_formats.values())
        names = ", ".join(self.tasks)
        if len({each.head for each in formats}) > 1:
            raise ValueError(
                f"{names} are for different heads, which can't share batches; train on one of them"
            )
        classes = dict.fromkeys(each.class_names for each in formats)
        if len(classes) > 1:
            listed = "; ".join(", ".join(each) or "none" for each in classes)
            raise ValueError(
                f"{names} can't share a head, whose classes would mean different things: {listed}; train on one of them"
            )
        scales = {each.output_scale for each in formats}
        scale = scales.pop() if len(scales) == 1 else UNSCALED
        return LabelSpace(head=formats[0].head, class_names=formats[0].class_names, scale=scale)

    def only_task(self) -> Task:
        """Return the only task.

        Raises:
          ValueError: It is a mixture.
        """
        if list(self.tasks) != [self.name]:
            raise ValueError(f"{self.name!r} is a mixture of {', '.join(self.tasks)}; name one task")
        return self.tasks[self.name]

    def with_split(self, split: str) -> "TaskSet":
        """Return the tasks that have a split.

        Args:
          split: Name of the split.

        Raises:
          ValueError: No task has it.
        """
        tasks = {name: task for name, task in self.tasks.items() if split in task.splits}
        if not tasks:
            splits = sorted({each for task in self.tasks.values() for each in task.splits})
            raise ValueError(f"{self.name!r} has no split {split!r}; there are {', '.join(splits)}")
        return replace(self, tasks=tasks)

    def rates(self, count: Callable[[str], int] | None = None) -> list[float]:
        """Return the rates of the tasks in the mixture.

        Args:
          count: Returns the number of training examples of a task; the default counts them by reading.

        Raises:
          ValueError: A rate depends on an unknown number of examples.
        """
        return [self._rate(name, task, count) for name, task in self.tasks.items()]

    def _rate(self, name: str, task: Task, count: Callable[[str], int] | None) -> float:
        if isinstance(task, ForeignTask) or (self.mixture is None and name != self.name):
            return require_connected(self.library).rate_of(self.name, name)
        if self.mixture is None:
            return 1.0

        def num_rows() -> int:
            number = count(name) if count else num_training_rows(task)
            limit = task.limit_of("train")
            return number if limit is None else min(number, limit)

        return self.mixture.rate(name, num_rows)

    def stream_library(self, what: str) -> ForeignTasks:
        """Return the library that reads tasks as streams.

        Args:
          what: Subject of the error message.

        Raises:
          ValueError: None is connected.
        """
        return require_connected(self.library, what)


def num_training_rows(task: FileTask[Any]) -> int:
    """Return the number of valid training rows of a task, counted by reading them."""
    return sum(1 for _ in task.read("train")) if "train" in task.splits else 0
