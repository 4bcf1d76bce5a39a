"""Everything that ``train`` would refuse, found without training: ``t5x-like config validate``."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax

from t5x_like.checkpoints.steps import absolute
from t5x_like.gin_config.user_error import message_of
from t5x_like.model import parameters
from t5x_like.optimizers.optax_optimizer import as_optimizer
from t5x_like.optimizers.schedules import as_schedule
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.initial_weights import CheckpointModel
from t5x_like.pretrained.run_weights import steps_of
from t5x_like.pretrained.weight_sources import checkpoint_format
from t5x_like.text.batches.in_memory import TooManyTokens, load_in_memory
from t5x_like.text.batches.loader import Loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.foreign_tasks import ForeignTask
from t5x_like.text.tasks.task_set import Task, TaskSet
from t5x_like.training.experiment import Experiment
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.model_checks import check_model, check_split, check_vocabulary
from t5x_like.training.opening_lines import epoch_lines
from t5x_like.training.resolution import plan_experiment, resolve_experiment
from t5x_like.training.run_directory import refuse_another_run
from t5x_like.training.state import StateLayout
from t5x_like.training.training_data import ResolvedTasks
from t5x_like.value_types import fits

# Tasks with more tokens than these are read up to here only.
_MAX_TOKENS = 5_000_000
_MAX_LEARNING_RATE = 10.0


class Findings(NamedTuple):
    """Results of the checks.

    Attributes:
      problems: Messages about what ``train`` would refuse, and about rates that can't be meant.
      notes: What was checked in part only, or may differ on the machine that trains.
      num_parameters: Size of the model; 0 if there is none.
    """

    problems: list[str]
    notes: list[str]
    num_parameters: int = 0


def preflight(value: Any, *, reads_data: bool = True) -> Findings:
    """Check everything that a configured value needs.

    Args:
      value: An ``Experiment``; of others, such as a ``RunEvaluation``, only the checkpoint is looked for.
      reads_data: Also read the rows of all splits.
    """
    if isinstance(value, Experiment):
        checks = _ExperimentChecks(value)
        checks.run(reads_data=reads_data)
        return Findings(list(dict.fromkeys(checks.problems)), checks.notes, checks.num_parameters)
    try:
        if hasattr(value, "checkpoint"):
            checkpoint_format(value.checkpoint)
    except ValueError as error:
        return Findings([str(error)], [])
    return Findings([], [])


class _ExperimentChecks:
    """Checks of an experiment, one part after the other, so that one mistake doesn't hide the next."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.num_parameters = 0
        self._tasks: dict[str, TaskSet] = {}  # those whose names are known

    def run(self, *, reads_data: bool) -> None:
        """Run all checks."""
        self.problems += _strange_rates(self.experiment)
        data = self.experiment.data
        for part in (data.train, *data.validations, *data.evaluations):
            self._try(self._resolve_tasks, part.mixture)
        if data.train.mixture in self._tasks:
            self._check_mesh(self._tasks[data.train.mixture])
        if self._try(self._resolve_model):
            self._try(refuse_another_run, self.experiment)
            self._try(self._check_weights)
        if reads_data:
            for config in (data.train, *data.validations):
                if config.mixture in self._tasks:
                    self._try(self._check_data, config, self._tasks[config.mixture])
            for evaluation in data.evaluations if self.num_parameters else ():
                if evaluation.mixture in self._tasks:
                    tasks = self._tasks[evaluation.mixture]
                    self._try(evaluation.evaluator, tasks, self.experiment.model, _one_device())

    def _try(self, check: Callable[..., object], *arguments: object) -> bool:
        """Run a check and keep its refusal; return True if there was none."""
        try:
            check(*arguments)
        except (ValueError, OSError) as error:
            self.problems.append(message_of(error))
            return False
        return True

    def _resolve_tasks(self, mixture: str) -> None:
        self._tasks[mixture] = self.experiment.data.tasks_of(mixture)

    @property
    def _train_tasks(self) -> TaskSet:
        """Tasks to train on; none if their name is unknown."""
        mixture = self.experiment.data.train.mixture
        return self._tasks.get(mixture, TaskSet(name=mixture, tasks={}))

    def _check_mesh(self, tasks: TaskSet) -> None:
        """Note a mesh for other devices than there are here."""
        try:
            mesh = self.experiment.mesh.build()
        except ValueError as error:
            self.notes.append(str(error))
            return
        self._try(check_split, self.experiment, tasks, mesh)

    def _resolve_model(self) -> None:
        """Take the model of ``start_from`` where the experiment has none, and plan the state.

        Raises:
          ValueError: The model can't be built, or a pattern of ``trainable`` matches nothing.
        """
        self.experiment = resolve_experiment(self.experiment, self._train_tasks)
        plan = self._plan(lambda: 1.0)  # _check_data counts the steps of an epoch
        weights = (plan.abstract["params"], plan.abstract["frozen"])
        self.num_parameters = parameters.count(weights)

    def _plan(self, steps_per_epoch: Callable[[], float]) -> StateLayout:
        return plan_experiment(self.experiment, _one_device(), num_tasks=1, steps_per_epoch=steps_per_epoch)

    def _check_weights(self) -> None:
        """Find the weights to start from; they are not read.

        Raises:
          ValueError: There are none, they are another model's, or don't fit its vocabulary.
        """
        home = self.experiment.run.model_dir
        if absolute(home).is_dir() and steps_of(home):  # it resumes
            return
        tasks = self._train_tasks.with_split(self.experiment.data.train.split)
        tokenizers = (task.tokenizer for task in tasks.tasks.values())
        tokenizer = next(filter(None, tokenizers), None)  # the model has one vocabulary
        self.notes += self.experiment.start.check_weights(self.experiment.model, tokenizer)

    def _check_data(self, config: LoaderConfig, tasks: TaskSet) -> None:
        """Read a split as ``train`` does, or the first tokens of large tasks.

        Args:
          config: Configuration of the loader.
          tasks: Tasks of its mixture.

        Raises:
          ValueError: A file, split or column is missing, a row is bad, or model and data don't fit each other.
        """
        with_split = tasks.with_split(config.split).tasks.values()
        fits = [self._fits(task, config) for task in with_split]  # a note for each that doesn't
        if all(fits):
            with contextlib.closing(Loader(config, tasks)) as loader:
                if config is self.experiment.data.train:
                    self.notes += epoch_lines(loader.epochs(self.experiment.run.total_steps))
                if self.num_parameters:
                    is_train = config is self.experiment.data.train
                    unfreezing = self.experiment.unfreezing
                    if is_train and unfreezing is not None and unfreezing.every_epochs is not None:
                        self._plan(loader.steps_per_epoch)
                    method = self.experiment.method
                    method = method if is_train else Supervised(loss=method.loss)
                    checked = self.experiment.with_fields(train=config, validations=(), method=method)
                    check_model(checked, ResolvedTasks(train=tasks), loader)
        elif self.num_parameters:
            model = self.experiment.model
            assert not isinstance(model, CheckpointModel), "it was opened to count its parameters"
            for tokenizer in filter(None, (task.tokenizer for task in with_split)):
                check_vocabulary(tokenizer, model.vocab_size, needed=tokenizer.vocab_size)

    def _fits(self, task: Task, config: LoaderConfig) -> bool:
        """Return False, with a note, for a task that would take long to read in full."""
        if isinstance(task, ForeignTask):
            self.notes.append(f"task {task.name!r} is of another library; its rows were not read")
            return False
        if config.cache is not None or (config.reads_heads and not task.is_pretraining):
            return True
        try:
            load_in_memory(task.as_trained(), config.split, max_tokens_in_memory=_MAX_TOKENS)
        except TooManyTokens:
            self.notes.append(
                f"task {task.name!r}, split {config.split!r}: only its first {_MAX_TOKENS:,} tokens were read"
            )
            return False
        return True


def _one_device() -> jax.sharding.Mesh:
    return MeshConfig(data=1).build(jax.local_devices()[:1])


def _strange_rates(experiment: Experiment) -> Iterator[str]:
    """Yield messages about rates that no training can mean."""
    for path, value in _numbers(experiment, ""):
        name = path.rpartition(".")[2]
        if name.endswith("dropout_rate") and not 0 <= value < 1:
            yield f"{path} is {value}; give a probability of at least 0 and below 1"
        elif name.endswith("weight_decay_rate") and not 0 <= value < 1:
            yield f"{path} is {value}; give a share of at least 0 and below 1, such as 0.01"
    learning_rate, last = as_optimizer(experiment.optimizer).learning_rate, experiment.run.total_steps - 1
    if learning_rate is None:
        return
    schedule = as_schedule(learning_rate)
    rates = [float(schedule(step)) for step in sorted({0, 1, last // 10, last // 2, last})]
    if not all(map(math.isfinite, rates)) or min(rates) < 0 or not any(rates):
        shown = ", ".join(f"{rate:g}" for rate in rates)
        yield f"the learning rate of {schedule} is {shown} along the run; give positive numbers"
    elif max(rates) > _MAX_LEARNING_RATE:
        yield f"the learning rate of {schedule} reaches {max(rates):g}; usual rates are between 1e-6 and 1"


def _numbers(value: object, path: str) -> Iterator[tuple[str, float]]:
    """Yield the numbers in a tree of dataclasses with their paths."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _numbers(getattr(value, field.name), f"{path}.{field.name}" if path else field.name)
    elif fits(value, float):
        yield path, value
