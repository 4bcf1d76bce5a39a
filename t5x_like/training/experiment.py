"""The configuration of a run: everything that decides what is computed, in parts."""

import dataclasses
import functools
import inspect
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from typing import Any

import optax

from t5x_like.config_class import changeable, config_class, is_changeable, renamed_fields
from t5x_like.function_names import name_function
from t5x_like.model import parameters
from t5x_like.model.parameters import ModelConfig
from t5x_like.nested_values import is_plain, is_record, parts_of
from t5x_like.optimizers.optax_optimizer import as_optimizer
from t5x_like.optimizers.optimizers import Adafactor, Optimizer
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.initial_weights import CheckpointModel
from t5x_like.training.earlier_runs import PART_OF, described_in_parts
from t5x_like.training.methods.method import TrainingMethod
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.run_config import RunConfig
from t5x_like.training.start.fresh_weights import FreshWeights
from t5x_like.training.start.start import Start
from t5x_like.training.training_data import TrainingData
from t5x_like.training.unfreezing import GradualUnfreezing
from t5x_like.training.weight_average import WeightAverage

# Parts whose fields are described without the part's name: no two of them have a field of one name.
PARTS = ("data", "start", "method", "run")
_VARIANTS = ("start", "method")  # parts of several classes


@config_class
class Experiment:
    """One training run. The same experiment on the same code gives the same losses, bit for bit on CPU.

    Attributes:
      model: Its configuration, or ``CheckpointModel`` for the model that ``start`` names.
      data: Tasks, training batches, validations and evaluations.
      run: Directory, number of steps, intervals, hooks, guards and seed.
      start: Weights before the first step: fresh ones, a checkpoint's, or those of another ``Start``.
      method: What is minimized: the loss of targets and labels, or that of a distillation.
      optimizer: Optimizer of the trained weights; an ``optax.GradientTransformation`` becomes an ``OptaxOptimizer``.
      mesh: Devices.
      trainable: Patterns of the paths of trained weights, such as ``("heads/*",)`` for a head on a frozen encoder, or
        ``("heads/*", "encoder/layers[-2:]/*")`` to train its last two layers, too. ``None`` trains all, or of a model
        with an adapter the adapter and the task's head, or what the model names. Checkpoints hold trained weights only,
        and ``frozen.json`` says where the others come from.
      unfreezing: Steps at which groups of trained weights begin to train; ``None`` for all at once.
      average: Average of trained weights, which is evaluated and saved next to them; ``None`` for none.
    """

    model: ModelConfig | CheckpointModel
    data: TrainingData
    run: RunConfig
    start: Start = field(default_factory=FreshWeights)
    method: TrainingMethod = field(default_factory=Supervised)
    optimizer: Optimizer | optax.GradientTransformation = field(default_factory=Adafactor)
    mesh: MeshConfig = changeable(default_factory=MeshConfig)
    trainable: tuple[str, ...] | None = None
    unfreezing: GradualUnfreezing | None = None
    average: WeightAverage | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "optimizer", as_optimizer(self.optimizer))
        owners: dict[str, str] = {each.name: "the experiment" for each in dataclasses.fields(self)}
        for part in sorted(PARTS, key=_VARIANTS.count):  # parts of several classes last, to be named
            for each in dataclasses.fields(getattr(self, part)):
                if each.name in owners:
                    raise ValueError(
                        f"{type(getattr(self, part)).__name__}.{each.name} has the name of a field of "
                        f"{owners[each.name]}; rename it, since records name fields without their part"
                    )
                owners[each.name] = f"the part {part!r}"
        if self.trainable == ():
            raise ValueError(
                "trainable is empty; give patterns of weights to train, or leave it out to train all"
            )
        ramp, unfreezing = self.data.batch_size_ramp, self.unfreezing
        if ramp is not None and unfreezing is not None and unfreezing.every_epochs is not None:
            raise ValueError(
                f"unfreezing has every_epochs={unfreezing.every_epochs:g}, and with batch_size_ramp epochs have "
                "different numbers of steps; give every_steps or at_steps"
            )

    def with_fields(self, **changes: Any) -> "Experiment":
        """Return the experiment with other values of its own fields, or of fields of its parts.

        >>> experiment.with_fields(total_steps=2000, mesh=MeshConfig(model=8))

        Raises:
          TypeError: No part has a field of that name.
        """
        kept = {
            each.name: changes.pop(each.name) for each in dataclasses.fields(self) if each.name in changes
        }
        for name in PARTS:
            part = kept.get(name, getattr(self, name))
            inner = {each: changes.pop(each) for each in vars(part) if each in changes}
            kept[name] = dataclasses.replace(part, **inner)
        if changes:
            hints = [f"give {PART_OF[name]}" for name in changes if name in PART_OF]
            raise TypeError(
                f"an Experiment and its parts have no field {', '.join(changes)}"
                + "".join(f"; {hint}" for hint in dict.fromkeys(hints))
            )
        return dataclasses.replace(self, **kept)


_COMPUTE_DTYPE = "model.compute_dtype"


def num_parameters(experiment: Experiment) -> int | None:
    """Return the number of weights of an experiment's model; ``None`` for that of a checkpoint."""
    if isinstance(experiment.model, CheckpointModel):
        return None
    return parameters.count(parameters.abstract(experiment.model)[1])


def describe(value: Any, prefix: str = "") -> dict[str, object]:
    """Flatten a tree of dataclasses to JSON values such as ``{"optimizer.learning_rate.base": 1.0}``.

    Args:
      value: Dataclass, collection or JSON value.
      prefix: Text before all keys.
    """
    if hasattr(value, "described") and not inspect.isclass(value):  # it has parts without a text
        return {f"{prefix}is": type(value).__name__} | describe(value.described(), prefix)
    if is_record(value):
        described: dict[str, Any] = {f"{prefix}is": type(value).__name__}
        for each in dataclasses.fields(value):
            part, inner = getattr(value, each.name), f"{prefix}{each.name}."
            if type(value) is Experiment and each.name in PARTS:
                described |= describe(part) | {"is": "Experiment"}
                if each.name in _VARIANTS:
                    described |= {f"{each.name}.is": type(part).__name__}
            else:
                described |= describe(part, inner)
        return described
    if (parts := parts_of(value)) is not None:
        return {
            key: text
            for name, part in parts.items()
            for key, text in describe(part, f"{prefix}{name}.").items()
        }
    if inspect.isroutine(value) or isinstance(value, functools.partial):
        return {prefix.removesuffix("."): name_function(value)}
    return {prefix.removesuffix("."): value if is_plain(value) else repr(value)}


def _changeable_paths(value: object, prefix: str = "") -> Iterator[str]:
    """Yield the paths, as ``describe`` names them, of fields that a continued run may change."""
    if not is_record(value) or hasattr(value, "described"):
        for name, part in (parts_of(value) or {}).items():
            yield from _changeable_paths(part, f"{prefix}{name}.")
        return
    for each in dataclasses.fields(value):
        if is_changeable(each):
            yield f"{prefix}{each.name}"
        else:
            is_part = type(value) is Experiment and each.name in PARTS
            yield from _changeable_paths(
                getattr(value, each.name), prefix if is_part else f"{prefix}{each.name}."
            )


def _renamed_paths(value: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the paths of fields that had another name, as ``describe`` names them: the earlier and the present one."""
    for name, item in (parts_of(value) or {}).items():
        yield from _renamed_paths(item, f"{prefix}{name}.")
    if not is_record(value) or hasattr(value, "described"):
        return
    yield from ((f"{prefix}{old}", f"{prefix}{new}") for old, new in renamed_fields(value).items())
    for each in dataclasses.fields(value):
        is_part = isinstance(value, Experiment) and each.name in PARTS
        yield from _renamed_paths(getattr(value, each.name), prefix if is_part else f"{prefix}{each.name}.")


def differences(old: Mapping[str, object], new: Experiment) -> list[str]:
    """Return a line for every described value of a run that its continuation changes and may not.

    Args:
      old: What ``describe`` returned for the run.
      new: Configuration of the continuation.
    """
    described, free = describe(new), set(_changeable_paths(new))
    if new.data.batch_size_ramp is not None:  # which grows by microbatches
        free.discard("num_microbatches")
    old = old if "method.is" in old else described_in_parts(old)
    for earlier, present in _renamed_paths(new):
        old = {present + key[len(earlier) :] if _is_in(key, (earlier,)) else key: old[key] for key in old}
    lines = []
    for key in sorted(old.keys() | described.keys()):
        is_absent = key not in old or key not in described
        if _is_in(key, free) or (not is_absent and old[key] == described[key]):
            continue
        value = old.get(key, described.get(key))
        if is_absent and (value is None or value is False):  # what another version lacks is off there
            continue
        line = (
            f"{key}: the run has {old.get(key, 'nothing')!r}, you ask for {described.get(key, 'nothing')!r}"
        )
        if key == _COMPUTE_DTYPE:
            if new.run.allow_compute_dtype_change:
                continue
            line += "; allow_compute_dtype_change=True allows that"
        lines.append(line)
    return lines


def _is_in(key: str, paths: Collection[str]) -> bool:
    """Return whether a described value belongs to one of the paths."""
    names = key.split(".")
    return any(".".join(names[:length]) in paths for length in range(1, len(names) + 1))
