"""A run as one frozen value: everything that decides what is computed, and nothing else."""

import dataclasses
import re
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax

from t5x_like.evaluation.evaluator import TaskEvaluation
from t5x_like.evaluation.heads import HeadEvaluation
from t5x_like.optimizers.optimizers import Adafactor, AdamW
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.initial_weights import CheckpointModel
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.registry import Definition
from t5x_like.training.losses import LossConfig


class ModelConfig(Protocol):
    """What every ``zoo/`` configuration offers."""

    vocab_size: int

    def build(self, key: jax.Array) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class Cadence:
    """How often things happen, in optimizer steps; 0 means never.

    ``profile_steps`` are the steps (first, last) recorded for TensorBoard's profiler.
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
        if self.keep_checkpoints < 1:
            raise ValueError(
                f"keep_checkpoints is {self.keep_checkpoints}; keep at least 1 to be able to resume"
            )


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One training run.

    ``tasks`` are registered at start-up; ``train.mixture`` and the evaluations name them or any task that a user's
    module registered. ``validations`` are splits whose teacher-forced loss is measured during training,
    ``evaluations`` those that are decoded and scored, or told by a head. ``start_from`` is another run's directory,
    whose newest weights are taken and whose optimizer state is not, or a Hugging Face directory; ``CheckpointModel`` is
    the model that it holds. The same experiment on the same code gives the same losses, bit for bit on CPU.
    """

    model: ModelConfig | CheckpointModel
    train: LoaderConfig
    model_dir: str
    total_steps: int
    tasks: tuple[Definition, ...] = ()
    validations: tuple[LoaderConfig, ...] = ()
    evaluations: tuple[TaskEvaluation | HeadEvaluation, ...] = ()
    optimizer: Adafactor | AdamW = field(default_factory=Adafactor)
    loss: LossConfig = field(default_factory=LossConfig)
    mesh: MeshConfig = field(default_factory=MeshConfig)
    cadence: Cadence = field(default_factory=Cadence)
    num_microbatches: int = 1
    start_from: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.total_steps < 1:
            raise ValueError(f"total_steps is {self.total_steps}; a run needs at least 1 step")
        if self.num_microbatches < 1 or self.train.batch_size % self.num_microbatches:
            raise ValueError(
                f"a batch of {self.train.batch_size} rows can't be cut into num_microbatches={self.num_microbatches} "
                "equal parts; choose a divisor of the batch size"
            )


# What may differ between a run and its continuation: how long, how often, on which machines, where, how tasks are mixed
# and how their tokens are come by. (The loader sees to it that they are the same tokens.)
FREE_ON_RESUME = re.compile(
    r"(total_steps|cadence|mesh|model_dir|validations|evaluations|tasks\.\d+\.rates"
    r"|train\.(num_workers|cache|max_tokens_in_memory|on_corruption))(\.|$)"
)


def describe(value: Any, prefix: str = "") -> dict[str, Any]:
    """Flattens a tree of dataclasses to ``{"optimizer.learning_rate.base": 1.0, …}``, JSON values only."""
    if hasattr(value, "described") and not isinstance(value, type):  # it has parts that no text stands for
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
    plain = value if isinstance(value, str | int | float | bool | type(None)) else repr(value)
    return {prefix.removesuffix("."): plain}


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """One line for every described value that a continued run may not change."""
    lines = []
    for key in sorted(old.keys() | new.keys()):
        if FREE_ON_RESUME.match(key) or (key in old and key in new and old[key] == new[key]):
            continue
        if key not in old and (
            new[key] is None or new[key] is False
        ):  # an earlier version lacked it; it is off
            continue
        lines.append(
            f"{key}: the run has {old.get(key, 'nothing')!r}, you ask for {new.get(key, 'nothing')!r}"
        )
    return lines
