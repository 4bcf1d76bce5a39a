"""Other settings of a recipe on the same devices: meshes, rematerialization policies, microbatches."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple, get_args

import jax

from t5x_like.model.layers.remat import Remat
from t5x_like.model.model_traits import traits_of
from t5x_like.partitioning.mesh import MESH_AXES, MeshConfig, mesh_text, sizes_of_slices
from t5x_like.planning.step_plan import (
    StepPlan,
    bytes_per_device,
    plan_step,
    remat_of,
    resolved,
    state_plan,
)
from t5x_like.planning.topology import Topology
from t5x_like.text.tasks.task_set import TaskSet
from t5x_like.training.experiment import Experiment
from t5x_like.training.model_checks import row_lengths

_MAX_MODEL_AXIS = 16  # more would leave too little work for each chip between two all-reduces
_MIN_TOKENS_OF_PART = 4096  # rows are not split along context into shorter parts, unless the recipe does
_MORE_MICROBATCHES = (1, 2, 4)  # times the recipe's
# The time of copies to the host is unknown, so its rank would be too good.
_NOT_RANKED = ("minimal_offloaded",)


class StepSettings(NamedTuple):
    """Settings that change memory and time of a step, and not its result."""

    mesh: tuple[int, ...]
    remat: str
    num_microbatches: int

    def of(self, experiment: Experiment) -> Experiment:
        """Return the experiment with these settings."""
        model: Any = experiment.model
        if self.remat and self.remat != remat_of(experiment):
            model = replace(model, remat=self.remat)
        mesh = MeshConfig(**dict(zip(MESH_AXES, self.mesh, strict=True)))
        return experiment.with_fields(model=model, mesh=mesh, num_microbatches=self.num_microbatches)

    def __str__(self) -> str:
        mesh = mesh_text(dict(zip(MESH_AXES, self.mesh, strict=True)))
        remat = f", REMAT={self.remat}" if self.remat else ""
        return f"mesh {mesh}{remat}, NUM_MICROBATCHES={self.num_microbatches}"


class SearchResult(NamedTuple):
    """Plans of a search.

    Attributes:
      plans: Those that were compiled, best first: those that fit by their serial time, then the others by their peak.
      not_compiled: Settings beyond the limit of programs.
      too_large: Settings whose state alone is larger than the chip's memory.
      failed: Settings that the compiler refused for another reason than memory, with its message.
    """

    plans: list[tuple[StepSettings, StepPlan]]
    not_compiled: list[StepSettings]
    too_large: list[StepSettings]
    failed: list[tuple[StepSettings, str]]


def search(
    experiment: Experiment,
    tasks: TaskSet,
    topology: Topology,
    devices: Sequence[Any],
    *,
    max_programs: int,
    stop_at_fit: bool = False,
    known: StepPlan | None = None,
) -> SearchResult:
    """Compile the step with other settings, nearest to the recipe's first.

    Args:
      experiment: The recipe.
      tasks: Tasks that it trains on.
      topology: The devices.
      devices: Devices from ``topology.devices()``.
      max_programs: The most programs to compile.
      stop_at_fit: Compile no more once one fits.
      known: The plan of the recipe's own settings, if it is there already.
    """
    experiment = resolved(experiment, tasks)
    own = _own_setting(experiment, topology)
    plans = [] if known is None else [(own, known)]
    waiting, too_large, failed = [], [], []
    for setting in settings(experiment, tasks, topology.num_devices):
        if (known is not None and setting == own) or not _joins_slices(setting.mesh, topology.num_slices):
            continue
        mesh = setting.of(experiment).mesh.build(devices)
        state = bytes_per_device(state_plan(experiment, tasks, mesh).abstract)
        (too_large if state > (topology.chip.memory_bytes or math.inf) else waiting).append(setting)
    num_compiled = 0
    for setting in waiting[:max_programs]:
        num_compiled += 1
        try:
            plan = plan_step(setting.of(experiment), tasks, topology, devices)
        except jax.errors.JaxRuntimeError as error:
            failed.append((setting, str(error).splitlines()[0]))
            continue
        plans.append((setting, plan))
        if stop_at_fit and plan.memory.fits:
            break
    return SearchResult(sorted(plans, key=_rank), waiting[num_compiled:], too_large, failed)


def _own_setting(experiment: Experiment, topology: Topology) -> StepSettings:
    """Return the recipe's own settings on a topology."""
    sizes = experiment.mesh.sizes(topology.num_devices)
    return StepSettings(sizes, remat_of(experiment), experiment.data.num_microbatches)


def settings(experiment: Experiment, tasks: TaskSet, num_devices: int) -> list[StepSettings]:
    """Return all settings that divide the batch, those with the fewest changes first.

    Args:
      experiment: Experiment whose batch and model are kept.
      tasks: Tasks that it trains on.
      num_devices: Number of devices to share the work.
    """
    try:
        own_mesh = experiment.mesh.sizes(num_devices)
    except ValueError:  # the recipe is for other devices
        own_mesh = (1, num_devices, 1, 1, 1)
    own_remat, own_parts = remat_of(experiment), experiment.data.num_microbatches
    remats = [each for each in get_args(Remat) if each not in _NOT_RANKED or each == own_remat]
    remats = remats if _has_remat(experiment) else [""]

    def distance(setting: StepSettings) -> tuple[int, float, int, int]:
        changes = (
            (setting.mesh != own_mesh)
            + (setting.remat != own_remat)
            + (setting.num_microbatches != own_parts)
        )
        far = sum(abs(math.log2(new / old)) for new, old in zip(setting.mesh, own_mesh, strict=True))
        parts = setting.num_microbatches // own_parts
        return changes, far, parts, abs(remats.index(setting.remat) - remats.index(own_remat))

    candidates = [
        StepSettings(mesh, remat, own_parts * factor)
        for factor in _MORE_MICROBATCHES
        if experiment.data.train.batch_size % (own_parts * factor) == 0
        for mesh in meshes(experiment.with_fields(num_microbatches=own_parts * factor), tasks, num_devices)
        for remat in remats
    ]
    return sorted(candidates, key=distance)


def meshes(experiment: Experiment, tasks: TaskSet, num_devices: int) -> Iterator[tuple[int, ...]]:
    """Yield the sizes of meshes of all devices that divide the batch, with a model axis of at most 16.

    Args:
      experiment: The recipe.
      tasks: Tasks that it trains on.
      num_devices: Number of devices.
    """
    divisors = [size for size in range(1, num_devices + 1) if num_devices % size == 0]
    lengths, rows = (
        row_lengths(experiment, tasks),
        experiment.data.train.batch_size // experiment.data.num_microbatches,
    )
    max_context = max(experiment.mesh.context, max(lengths) // _MIN_TOKENS_OF_PART)
    num_experts = num_experts_of(experiment, tasks)
    experts = [size for size in divisors if size == 1 or (num_experts and num_experts % size == 0)]
    for model, context, data, expert in itertools.product(divisors, divisors, divisors, experts):
        fsdp, left = divmod(num_devices, model * context * data * expert)
        if left or model > _MAX_MODEL_AXIS or (context > 1 and context > max_context):
            continue
        if expert > 1 and expert != experiment.mesh.expert and num_experts % (fsdp * expert) == 0:
            continue  # fsdp alone shares the experts out
        divides_lengths = context == 1 or not any(length % (context * model) for length in lengths)
        if rows % (data * fsdp * expert) == 0 and divides_lengths:
            yield data, fsdp, expert, context, model


def num_experts_of(experiment: Experiment, tasks: TaskSet) -> int:
    """Return the number of experts in a layer; 0 without experts.

    Args:
      experiment: Experiment of the model.
      tasks: Tasks that it trains on.
    """
    return traits_of(resolved(experiment, tasks).model).num_experts


def _joins_slices(sizes: tuple[int, ...], num_slices: int) -> bool:
    try:
        sizes_of_slices(sizes, num_slices)
    except ValueError:
        return False
    return True


def _has_remat(experiment: Experiment) -> bool:
    model: Any = experiment.model
    return any(part.name == "remat" for part in fields(model))


def _rank(candidate: tuple[StepSettings, StepPlan]) -> tuple[bool, float, int]:
    plan = candidate[1]
    seconds = plan.roofline.serial_seconds if plan.roofline else 0.0
    return not plan.memory.fits, seconds if plan.memory.fits else 0.0, plan.memory.peak
