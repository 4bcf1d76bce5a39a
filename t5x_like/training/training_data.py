"""The data of a run: tasks, training batches, and what is measured on held-out rows."""

from dataclasses import dataclass, replace

from jax.sharding import Mesh

from t5x_like.config_class import changeable, config_class
from t5x_like.evaluation.evaluator import HeadEvaluation, TaskEvaluation
from t5x_like.partitioning.shard import row_share
from t5x_like.text import registry
from t5x_like.text.batches.loader import Loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.foreign_tasks import Definition
from t5x_like.text.tasks.task_set import TaskSet
from t5x_like.training.batch_ramp import BatchSizeRamp, BatchSizeStages, RampLoader, RampSchedule


@config_class
class TrainingData:
    """Tasks, training batches, validations and evaluations of a run.

    Attributes:
      train: Batches to train on; ``train.mixture`` names a registered task or mixture.
      tasks: Definitions to register at start-up.
      validations: Splits whose teacher-forced loss is measured during training.
      evaluations: Tasks whose answers are generated, or predicted by a head, and scored.
      num_microbatches: Number of parts that a batch is cut into to save memory. The step stays that of the whole batch.
      batch_size_ramp: Smaller batches at first, which grow to ``train.batch_size`` linearly or in stages.
    """

    train: LoaderConfig
    tasks: tuple[Definition, ...] = ()
    validations: tuple[LoaderConfig, ...] = changeable(default=())
    evaluations: tuple[TaskEvaluation | HeadEvaluation, ...] = changeable(default=())
    num_microbatches: int = changeable(default=1)
    batch_size_ramp: BatchSizeRamp | BatchSizeStages | None = None

    def __post_init__(self) -> None:
        if self.num_microbatches < 1 or self.train.batch_size % self.num_microbatches:
            raise ValueError(
                f"a batch of {self.train.batch_size} rows can't be cut into num_microbatches={self.num_microbatches} "
                "equal parts; choose a divisor of the batch size"
            )
        if self.batch_size_ramp is not None:
            self.batch_size_ramp.check(self.train.batch_size, self.num_microbatches)
            if self.train.alternate_tasks:
                raise ValueError(
                    "alternate_tasks gives each batch examples of one task, and with batch_size_ramp a batch has as "
                    "many microbatches as its step asks for; leave one of them out"
                )

    @property
    def ramp_schedule(self) -> RampSchedule | None:
        """The microbatches of each step if batches grow."""
        ramp, rows = self.batch_size_ramp, self.train.batch_size
        return ramp and RampSchedule(ramp, batch_size=rows, num_microbatches=self.num_microbatches)

    def resolve(self) -> "ResolvedTasks":
        """Register ``tasks``, and find the tasks that all names of mixtures stand for.

        Raises:
          ValueError: A name is unknown or taken by another definition.
        """
        parts = (self.train, *self.validations, *self.evaluations)
        tasks = {part.mixture: self.tasks_of(part.mixture) for part in parts}
        return ResolvedTasks(
            train=tasks[self.train.mixture],
            validations=tuple(tasks[part.mixture] for part in self.validations),
            evaluations=tuple(tasks[part.mixture] for part in self.evaluations),
        )

    def tasks_of(self, mixture: str) -> TaskSet:
        """Register ``tasks``, and return those of a name.

        Args:
          mixture: Name of a task or mixture.

        Raises:
          ValueError: There is no such name, or a name is taken by another definition.
        """
        return registry.resolve(mixture, self.tasks)

    def open_loader(self, tasks: TaskSet, mesh: Mesh) -> Loader | RampLoader:
        """Return the loader of this process' training batches.

        Args:
          tasks: Tasks of ``train``.
          mesh: Devices.

        Raises:
          ValueError: The data can't be read, or its batches can't grow.
        """
        ramp = self.ramp_schedule
        if ramp is None:
            return open_share(self.train, tasks, mesh)
        config = replace(self.train, batch_size=self.train.batch_size // self.num_microbatches)
        return RampLoader(open_share(config, tasks, mesh), ramp)


@dataclass(frozen=True, kw_only=True)
class ResolvedTasks:
    """Tasks that the names in a run's configuration stand for.

    Attributes:
      train: Tasks to train on.
      validations: Tasks of each validation.
      evaluations: Tasks of each evaluation.
    """

    train: TaskSet
    validations: tuple[TaskSet, ...] = ()
    evaluations: tuple[TaskSet, ...] = ()


def open_share(config: LoaderConfig, tasks: TaskSet, mesh: Mesh) -> Loader:
    """Return the loader of this process' rows.

    Args:
      config: Configuration of the loader.
      tasks: Tasks of its mixture.
      mesh: Devices.

    Raises:
      ValueError: The data can't be read.
    """
    process_index, process_count = row_share(mesh)
    return Loader(config, tasks, process_index=process_index, process_count=process_count)
