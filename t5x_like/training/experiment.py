"""The configuration of a run: everything that decides what is computed."""

import dataclasses
import functools
import inspect
import re
from dataclasses import field
from typing import Any

import optax

from t5x_like.config_class import config_class
from t5x_like.evaluation.evaluator import HeadEvaluation, TaskEvaluation
from t5x_like.function_names import name_function
from t5x_like.model import parameters
from t5x_like.model.parameters import ModelConfig
from t5x_like.optimizers.optax_optimizer import as_optimizer
from t5x_like.optimizers.optimizers import Adafactor, Optimizer
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.initial_features import CheckpointFeatures
from t5x_like.pretrained.initial_weights import CheckpointModel
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.registry import Definition
from t5x_like.training.batch_ramp import BatchSizeRamp, BatchSizeStages
from t5x_like.training.hooks import Hook
from t5x_like.training.loss_spikes import LossSpikes
from t5x_like.training.losses import LossConfig
from t5x_like.training.losses.distillation import Distillation
from t5x_like.training.noisy_tune import NoisyTune
from t5x_like.training.unfreezing import GradualUnfreezing
from t5x_like.training.watchdog import Watchdog
from t5x_like.training.weight_average import WeightAverage


@config_class
class Intervals:
    """Steps between logging, evaluating and saving; with 0 each happens at the last step only.

    Attributes:
      keep_checkpoints: the newest checkpoints to keep.
      profile_steps: the steps (first, last) to record for TensorBoard's profiler.
    """

    log_every_steps: int = 100
    evaluate_every_steps: int = 1000
    save_every_steps: int = 1000
    keep_checkpoints: int = 3
    profile_steps: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        for name in ("log_every_steps", "evaluate_every_steps", "save_every_steps"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; give a number of steps, or 0 for never")
        if self.profile_steps is not None and not 1 <= self.profile_steps[0] <= self.profile_steps[1]:
            raise ValueError(
                f"profile_steps is {self.profile_steps}; give the first and the last step, such as (10, 12)"
            )
        if self.keep_checkpoints < 1:
            raise ValueError(
                f"keep_checkpoints is {self.keep_checkpoints}; keep at least 1 to be able to resume"
            )


@config_class
class Experiment:
    """One training run. The same experiment on the same code gives the same losses, bit for bit on CPU.

    Attributes:
      model: its configuration, or ``CheckpointModel`` for the model that ``start_from`` holds.
      train: the data to train on; ``train.mixture`` names a registered task or mixture.
      model_dir: the run's directory.
      total_steps: the last step.
      tasks: definitions to register at start-up.
      validations: splits whose teacher-forced loss is measured during training.
      evaluations: tasks whose answers are generated, or predicted by a head, and scored.
      optimizer: of the trained weights; an ``optax.GradientTransformation`` becomes an ``OptaxOptimizer``.
      loss: options of the loss over target tokens.
      mesh: the devices.
      intervals: of logging, evaluating and saving.
      hooks: run between evaluation and saving, after each step; such as ``EarlyStopping``.
      num_microbatches: parts that a batch is cut into to save memory; the step stays that of the whole batch.
      batch_size_ramp: smaller batches at first, which grow to ``train.batch_size`` linearly or in stages.
      start_from: weights to begin with: a run (its newest step; not the optimizer state) or a Hugging Face directory.
      word_vectors: a file of GloVe's or word2vec's vectors for the fresh word embeddings to begin with. Words that it
        lacks keep fresh ones. The vocabulary must be of whole words.
      features: a pretrained model whose hidden states join the word embeddings of ``model`` (CoVe); ``None`` for none.
      trainable: patterns of the paths of trained weights, such as ``("heads/*",)`` for a head on a frozen encoder, or
        ``("heads/*", "encoder/layers[-2:]/*")`` to train its last two layers, too. ``None`` trains all, or of a model
        with an adapter the adapter and the task's head, or with ``features`` the others. Checkpoints hold trained
        weights only, and ``frozen.json`` says where the others come from.
      unfreezing: steps at which groups of trained weights begin to train; ``None`` for all at once.
      noisy_tune: noise on the weights of ``start_from`` before the first step; ``None`` for none.
      average: an average of trained weights, which is evaluated and saved next to them; ``None`` for none.
      distillation: a teacher whose predictions the model learns too; ``None`` for none.
      max_skipped_steps: steps in a row without finite loss, gradients and update after which the run stops. Such steps
        change no weight.
      max_failed_saves: failed saves in a row after which the run stops.
      loss_spikes: reports losses that jump, or goes back to before the jump; ``None`` does neither.
      watchdog: ends a run that hangs; ``None`` waits forever.
      seed: of fresh weights and dropout.
      allow_compute_dtype_change: let a continued run compute in another type than before. Mesh, microbatches and remat
        may always change.
    """

    model: ModelConfig | CheckpointModel
    train: LoaderConfig
    model_dir: str
    total_steps: int
    tasks: tuple[Definition, ...] = ()
    validations: tuple[LoaderConfig, ...] = ()
    evaluations: tuple[TaskEvaluation | HeadEvaluation, ...] = ()
    optimizer: Optimizer | optax.GradientTransformation = field(default_factory=Adafactor)
    loss: LossConfig = field(default_factory=LossConfig)
    mesh: MeshConfig = field(default_factory=MeshConfig)
    intervals: Intervals = field(default_factory=Intervals)
    hooks: tuple[Hook, ...] = ()
    num_microbatches: int = 1
    batch_size_ramp: BatchSizeRamp | BatchSizeStages | None = None
    start_from: str | None = None
    word_vectors: str | None = None
    features: CheckpointFeatures | None = None
    trainable: tuple[str, ...] | None = None
    unfreezing: GradualUnfreezing | None = None
    noisy_tune: NoisyTune | None = None
    average: WeightAverage | None = None
    distillation: Distillation | None = None
    max_skipped_steps: int = 20
    max_failed_saves: int = 5
    loss_spikes: LossSpikes | None = field(default_factory=LossSpikes)
    watchdog: Watchdog | None = field(default_factory=Watchdog)
    seed: int = 0
    allow_compute_dtype_change: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "optimizer", as_optimizer(self.optimizer))
        if self.total_steps < 1:
            raise ValueError(f"total_steps is {self.total_steps}; a run needs at least 1 step")
        for name in ("max_skipped_steps", "max_failed_saves"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give at least 1")
        if self.trainable == ():
            raise ValueError(
                "trainable is empty; give patterns of weights to train, or leave it out to train all"
            )
        if self.num_microbatches < 1 or self.train.batch_size % self.num_microbatches:
            raise ValueError(
                f"a batch of {self.train.batch_size} rows can't be cut into num_microbatches={self.num_microbatches} "
                "equal parts; choose a divisor of the batch size"
            )
        if self.noisy_tune is not None and not self.start_from:
            raise ValueError(
                "noisy_tune adds noise to pretrained weights; say whose by start_from (INITIAL_CHECKPOINT='…'), or "
                "leave it out"
            )
        if self.word_vectors is not None and self.start_from:
            raise ValueError(
                f"word_vectors={self.word_vectors!r} replaces fresh word embeddings, and "
                f"start_from={self.start_from!r} has trained ones; give one of the two"
            )
        if self.features is not None and self.start_from:
            raise ValueError(
                f"features={self.features.start_from!r} are of a fresh model, and start_from={self.start_from!r} has "
                "its own; give one of the two"
            )
        if self.batch_size_ramp is not None:
            self.batch_size_ramp.check(self.train.batch_size, self.num_microbatches)
            if self.unfreezing is not None and self.unfreezing.every_epochs is not None:
                raise ValueError(
                    f"unfreezing has every_epochs={self.unfreezing.every_epochs:g}, and with batch_size_ramp epochs "
                    "have different numbers of steps; give every_steps or at_steps"
                )
            if self.train.alternate_tasks:
                raise ValueError(
                    "alternate_tasks gives each batch examples of one task, and with batch_size_ramp a batch has as "
                    "many microbatches as its step asks for; leave one of them out"
                )


# Fields that may differ between a run and its continuation: those of hardware, logging and evaluation. The loader
# checks that a cache has the same tokens.
FREE_ON_RESUME = re.compile(
    r"(total_steps|max_skipped_steps|max_failed_saves|loss_spikes|watchdog|distillation\.logits_dir|features\.start_from|intervals|hooks|mesh|model_dir|validations|evaluations|tasks\.\d+\.rates|num_microbatches"
    r"|allow_compute_dtype_change|model\.(remat|scan_layers|float32_gradients|attention_implementation)|loss\.logits_chunk_length|train\.(num_workers|cache|max_tokens_in_memory|on_corruption))(\.|$)"
)
_COMPUTE_DTYPE = "model.compute_dtype"


def num_parameters(experiment: Experiment) -> int | None:
    """Return the number of weights of an experiment's model; ``None`` for that of a checkpoint."""
    if isinstance(experiment.model, CheckpointModel):
        return None
    return parameters.count(parameters.abstract(experiment.model)[1])


def describe(value: Any, prefix: str = "") -> dict[str, Any]:
    """Flatten a tree of dataclasses to JSON values such as ``{"optimizer.learning_rate.base": 1.0}``."""
    if hasattr(value, "described") and not isinstance(value, type):  # it has parts without a text
        return {f"{prefix}is": type(value).__name__} | describe(value.described(), prefix)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        described: dict[str, Any] = {}
        for part in dataclasses.fields(value):
            described |= describe(getattr(value, part.name), f"{prefix}{part.name}.")
        return {f"{prefix}is": type(value).__name__} | described
    if isinstance(value, tuple | list):
        items = {f"{prefix}{index}.": item for index, item in enumerate(value)}
        return {key: text for name, item in items.items() for key, text in describe(item, name).items()}
    if isinstance(value, dict):
        return {
            key: text
            for name, item in value.items()
            for key, text in describe(item, f"{prefix}{name}.").items()
        }
    if inspect.isroutine(value) or isinstance(value, functools.partial):
        return {prefix.removesuffix("."): name_function(value)}
    plain = value if isinstance(value, str | int | float | bool | type(None)) else repr(value)
    return {prefix.removesuffix("."): plain}


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return a line for every described value that a continued run may not change."""
    lines = []
    for key in sorted(old.keys() | new.keys()):
        grows = key == "num_microbatches" and "batch_size_ramp.is" in new
        if (FREE_ON_RESUME.match(key) and not grows) or (key in old and key in new and old[key] == new[key]):
            continue
        if key not in old and (
            new[key] is None or new[key] is False
        ):  # an earlier version lacked it; it is off
            continue
        line = f"{key}: the run has {old.get(key, 'nothing')!r}, you ask for {new.get(key, 'nothing')!r}"
        if key == _COMPUTE_DTYPE:
            if new.get("allow_compute_dtype_change"):
                continue
            line += "; allow_compute_dtype_change=True allows that"
        lines.append(line)
    return lines
