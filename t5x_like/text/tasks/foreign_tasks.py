"""Tasks of another library (seqio), as our code asks them."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from t5x_like.text.objectives.objective import ExampleSpec
from t5x_like.text.tasks.file_task import BaseTask, FileTask
from t5x_like.text.tasks.mixtures import Mixture
from t5x_like.text.tasks.pairs import PAIRS

Definition = FileTask[Any] | Mixture


class ForeignTask(BaseTask):
    """A task of inputs and targets that another library reads and tokenizes."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    @abstractmethod
    def vocabulary(self) -> Any:
        """Vocabulary of the targets."""

    @property
    def spec(self) -> ExampleSpec:
        """Properties of the task's examples for a loader."""
        return PAIRS

    @abstractmethod
    def fingerprint(self, split: str) -> dict[str, str]:
        """Return everything that determines the tokens in a cache of a split."""

    @abstractmethod
    def open(self, config: Any) -> Any:
        """Return the ``OpenedTask`` of a ``LoaderConfig``, in memory if it fits."""


class ForeignTasks(Protocol):
    """Registry of another library, which may refer to tasks of ours."""

    def add(self, definition: Definition) -> None:
        """Register a task or mixture of ours."""
        ...

    def knows(self, name: str) -> bool:
        """Return whether a name was registered there by others."""
        ...

    def names(self) -> tuple[Sequence[str], Sequence[str]]:
        """Return the names of all tasks and of all mixtures registered there, ours included."""
        ...

    def names_of_tasks(self, name: str) -> list[str]:
        """Return the name of a task, or those of a mixture's tasks."""
        ...

    def rate_of(self, mixture: str, task: str) -> float:
        """Return the rate of a task in a mixture.

        Args:
          mixture: Name of the mixture.
          task: Name of one of its tasks.
        """
        ...

    def task(self, name: str) -> ForeignTask:
        """Return the task of that name."""
        ...

    def open_stream(self, name: str, spec: ExampleSpec, config: Any) -> Any:
        """Return the ``OpenedTask`` of a ``LoaderConfig``, read as a stream.

        Args:
          name: Name of a task of either library.
          spec: Properties of its examples.
          config: Configuration of the loader.
        """
        ...


def require_connected(tasks: ForeignTasks | None, what: str = "this") -> ForeignTasks:
    """Return the connected library.

    Args:
      tasks: The library; None if none is connected.
      what: Subject of the error message, which needs the library.

    Raises:
      ValueError: None is connected.
    """
    if tasks is None:
        raise ValueError(
            f"{what} needs seqio; connect it first: t5x_like.text.seqio_bridge.registration.connect()"
        )
    return tasks
