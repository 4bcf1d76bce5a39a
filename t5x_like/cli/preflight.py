"""Everything that ``train`` would refuse, found without training: ``t5x-like config validate``."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import jax

from t5x_like.checkpoints.state_names import describe, refuse_differences
from t5x_like.checkpoints.steps import absolute
from t5x_like.gin_config.user_error import message_of
from t5x_like.model import parameters
from t5x_like.model.adapters.adapter_weights import without_adapter
from t5x_like.optimizers.optax_optimizer import as_optimizer
from t5x_like.optimizers.schedules import as_schedule
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.initial_weights import CheckpointModel
from t5x_like.pretrained.run_weights import RunWeights, steps_of
from t5x_like.pretrained.weight_sources import checkpoint_format, find_weights
from t5x_like.text import registry
from t5x_like.text.batches.in_memory import TooManyTokens, load_in_memory
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.batches.open_tasks import tasks_and_rates
from t5x_like.training.experiment import Experiment
from t5x_like.training.model_checks import check_model, check_split, check_vocabulary
from t5x_like.training.opening_lines import epoch_lines
from t5x_like.training.run_directory import refuse_another_run
from t5x_like.training.state import StatePlan, plan_state
from t5x_like.training.train import with_model
from t5x_like.word_vectors.initial_table import match_vectors

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

    def run(self, *, reads_data: bool) -> None:
        """Run all checks."""
        self.problems += _strange_rates(self.experiment)
        self._try(registry.register, self.experiment.tasks)
        self._check_mesh()
        if self._try(self._resolve_model):
            self._try(refuse_another_run, self.experiment)
            self._try(self._check_weights)
        if reads_data:
            for config in (self.experiment.train, *self.experiment.validations):
                self._try(self._check_data, config)
            for evaluation in self.experiment.evaluations if self.num_parameters else ():
                self._try(evaluation.evaluator, self.experiment.model, _one_device())

    def _try(self, check: Callable[..., Any], *arguments: Any) -> bool:
        """Run a check and keep its refusal; return True if there was none."""
        try:
            check(*arguments)
        except (ValueError, OSError) as error:
            self.problems.append(message_of(error))
            return False
        return True

    def _check_mesh(self) -> None:
        """Note a mesh for other devices than there are here."""
        try:
            mesh = self.experiment.mesh.build()
        except ValueError as error:
            self.notes.append(str(error))
            return
        self._try(check_split, self.experiment, mesh)

    def _resolve_model(self) -> None:
        """Take the model of ``start_from`` where the experiment has none, and plan the state.

        Raises:
          ValueError: The model can't be built, or a pattern of ``trainable`` matches nothing.
        """
        self.experiment = with_model(self.experiment)
        plan = self._plan(lambda: 1.0)  # _check_data counts the steps of an epoch
        weights = (plan.abstract["params"], plan.abstract["frozen"])
        self.num_parameters = parameters.count(weights)

    def _plan(self, steps_per_epoch: Callable[[], float]) -> StatePlan:
        unfreezing = self.experiment.unfreezing
        return plan_state(
            self.experiment.model,
            as_optimizer(self.experiment.optimizer),
            _one_device(),
            num_tasks=1,
            batch_size=self.experiment.train.batch_size,
            trainable=self.experiment.trainable or ("*",),
            unfreezing=unfreezing and unfreezing.in_steps(steps_per_epoch),
            total_steps=self.experiment.total_steps,
        )

    def _check_weights(self) -> None:
        """Find the weights to start from; they are not read.

        Raises:
          ValueError: There are none, or those of another model.
        """
        model, start_from = self.experiment.model, self.experiment.start_from
        resumes = absolute(self.experiment.model_dir).is_dir() and steps_of(self.experiment.model_dir)
        if self.experiment.word_vectors and not resumes:
            self._check_word_vectors(self.experiment.word_vectors)
        if not start_from or resumes:
            return
        found = find_weights(start_from, config=model)
        if not isinstance(found, RunWeights):
            found.require_heads(draw_heads=True)
            return
        if found.step is None and not steps_of(found.directory):
            raise ValueError(f"{start_from} has no checkpoint; give a run that has saved one")
        if found.saved is not None:
            refuse_differences(_body(found.saved), _body(model), where=f"start_from: {start_from}")

    def _check_word_vectors(self, file: str) -> None:
        """Read word vectors as ``train`` does.

        Raises:
          ValueError: They can't be read, or don't fit the model or its vocabulary.
        """
        names, _ = tasks_and_rates(self.experiment.train)
        model, tasks = self.experiment.model, filter(None, map(registry.task, names))
        assert not isinstance(model, CheckpointModel), "it was opened to count its parameters"
        for task in list(tasks)[:1]:  # the model has one vocabulary
            self.notes.append(match_vectors(model, file, task.tokenizer).note)

    def _check_data(self, config: LoaderConfig) -> None:
        """Read a split as ``train`` does, or the first tokens of large tasks.

        Raises:
          ValueError: A file, split or column is missing, a row is bad, or model and data don't fit each other.
        """
        names, _ = tasks_and_rates(config)
        tasks = [registry.task(name) for name in names]
        fits = [self._fits(name, task, config) for name, task in zip(names, tasks, strict=True)]
        if all(fits):
            with contextlib.closing(build_loader(config)) as loader:
                if config is self.experiment.train:
                    self.notes += epoch_lines(loader.epochs(self.experiment.total_steps))
                if self.num_parameters:
                    is_train = config is self.experiment.train
                    unfreezing = self.experiment.unfreezing
                    if is_train and unfreezing is not None and unfreezing.every_epochs is not None:
                        self._plan(loader.steps_per_epoch)
                    taught = self.experiment.distillation if is_train else None
                    check_model(
                        replace(self.experiment, train=config, validations=(), distillation=taught), loader
                    )
        elif self.num_parameters:
            model = self.experiment.model
            assert not isinstance(model, CheckpointModel), "it was opened to count its parameters"
            for task in filter(None, tasks):
                check_vocabulary(task.tokenizer, model.vocab_size, needed=task.tokenizer.vocab_size)

    def _fits(self, name: str, task: Any, config: LoaderConfig) -> bool:
        """Return False, with a note, for a task that would take long to read in full."""
        if task is None:
            self.notes.append(f"task {name!r} is of another library; its rows were not read")
            return False
        if config.cache is not None or (config.reads_heads and not task.is_pretraining):
            return True
        try:
            load_in_memory(task.as_trained(), config.split, max_tokens_in_memory=_MAX_TOKENS)
        except TooManyTokens:
            self.notes.append(
                f"task {name!r}, split {config.split!r}: only its first {_MAX_TOKENS:,} tokens were read"
            )
            return False
        return True


def _one_device() -> jax.sharding.Mesh:
    return MeshConfig(data=1).build(jax.local_devices()[:1])


def _body(config: Any) -> dict[str, Any]:
    """Return shapes and types of a model's weights, without its heads and adapter, which may differ."""
    flat = parameters.flatten(parameters.abstract(without_adapter(config))[1])
    return describe({path: leaf for path, leaf in flat.items() if not path.startswith("heads/")})


def _strange_rates(experiment: Experiment) -> Iterator[str]:
    """Yield messages about rates that no training can mean."""
    for path, value in _numbers(experiment, ""):
        name = path.rpartition(".")[2]
        if name.endswith("dropout_rate") and not 0 <= value < 1:
            yield f"{path} is {value}; give a probability of at least 0 and below 1"
        elif name.endswith("weight_decay_rate") and not 0 <= value < 1:
            yield f"{path} is {value}; give a share of at least 0 and below 1, such as 0.01"
    learning_rate, last = as_optimizer(experiment.optimizer).learning_rate, experiment.total_steps - 1
    if learning_rate is None:
        return
    schedule = as_schedule(learning_rate)
    rates = [float(schedule(step)) for step in sorted({0, 1, last // 10, last // 2, last})]
    if not all(map(math.isfinite, rates)) or min(rates) < 0 or not any(rates):
        shown = ", ".join(f"{rate:g}" for rate in rates)
        yield f"the learning rate of {schedule} is {shown} along the run; give positive numbers"
    elif max(rates) > _MAX_LEARNING_RATE:
        yield f"the learning rate of {schedule} reaches {max(rates):g}; usual rates are between 1e-6 and 1"


def _numbers(value: Any, path: str) -> Iterator[tuple[str, float]]:
    """Yield the numbers in a tree of dataclasses with their paths."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _numbers(getattr(value, field.name), f"{path}.{field.name}" if path else field.name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value
