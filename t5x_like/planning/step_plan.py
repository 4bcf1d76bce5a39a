"""The train step of an experiment, compiled ahead of time for devices that needn't be here."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jaxtyping import PyTree

from t5x_like.batch import Batch
from t5x_like.model.automatic_choices import Choice, noted_choices
from t5x_like.model.model_traits import traits_of
from t5x_like.partitioning.shard import batch_shardings
from t5x_like.planning.chips import GIB
from t5x_like.planning.device_program import compile_program
from t5x_like.planning.program_counts import LargeArray, ProgramCounts
from t5x_like.planning.roofline import Roofline
from t5x_like.planning.topology import Topology
from t5x_like.planning.traced_flops import computed_once, traced_flops
from t5x_like.text.batches.loader import empty_row
from t5x_like.text.batches.open_tasks import spec_of_tasks
from t5x_like.text.tasks.task_set import TaskSet
from t5x_like.training.experiment import Experiment
from t5x_like.training.methods.on_policy import OnPolicyMethod
from t5x_like.training.model_checks import check_split
from t5x_like.training.resolution import plan_experiment, resolve_experiment
from t5x_like.training.state import StateLayout
from t5x_like.training.train import compiled_steps


class MemoryUse(NamedTuple):
    """Bytes of one device's memory.

    Attributes:
      parts: The state and the batch by name, from their shapes and shardings.
      peak: The most that is in use at once, as the compiler has planned it.
      capacity: Memory of the chip; ``None`` for simulated devices.
      largest: The largest arrays that the program computes.
      refusal: The compiler's words if it found no way to fit the program.
    """

    parts: dict[str, int]
    peak: int
    capacity: float | None
    largest: tuple[LargeArray, ...] = ()
    refusal: str = ""

    @property
    def temporaries(self) -> int:
        """Activations, gradients and copies at the peak."""
        return max(self.peak - sum(self.parts.values()), 0)

    @property
    def fits(self) -> bool:
        """True if the peak is within the chip's memory."""
        return not self.refusal and (self.capacity is None or self.peak <= self.capacity)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepPlan:
    """Needs of each device for one train step.

    Attributes:
      topology: The devices.
      mesh: Their arrangement.
      remat: Rematerialization policy; empty for models without one.
      num_microbatches: Parts of a batch.
      batch_size: Rows.
      num_tokens: Positions of the streams of a batch, padding included.
      total_steps: Training steps of the recipe.
      memory: Memory use of each device.
      counts: Counts of each device's program; ``None`` if it doesn't fit and the compiler gave none.
      model_flops: Operations of the step's matrix products in all devices, without what remat or attention computes
        again.
      roofline: Bounds of the step time; ``None`` without counts or without a data sheet.
      compile_seconds: Time to compile here.
      choices: What became of settings that are ``"auto"``.
      notes: Weights that the mesh can't split, and the like.
    """

    topology: Topology
    mesh: Mesh
    remat: str
    num_microbatches: int
    batch_size: int
    num_tokens: int
    total_steps: int
    memory: MemoryUse
    counts: ProgramCounts | None
    model_flops: float
    roofline: Roofline | None
    compile_seconds: float
    choices: tuple[Choice, ...] = ()
    notes: tuple[str, ...] = ()

    def utilization(self, step_seconds: float) -> float:
        """Return the model FLOPs utilization (MFU) of a step of so many seconds."""
        return self.model_flops / (step_seconds * self.topology.chip.flops_per_second * self.mesh.size)


def plan_step(experiment: Experiment, tasks: TaskSet, topology: Topology, devices: Sequence[Any]) -> StepPlan:
    """Compile an experiment's train step for a topology and count what it needs; no data and no weights are read.

    Args:
      experiment: The configuration; its mesh must fit the topology.
      tasks: Tasks that it trains on.
      topology: The devices.
      devices: Devices from ``topology.devices()``.

    Raises:
      ValueError: The mesh doesn't divide the devices or the batch, or the recipe has a teacher.
    """
    experiment = compilable(resolved(experiment, tasks), topology)
    mesh = experiment.mesh.build(devices)
    check_split(experiment, tasks, mesh)
    plan = state_plan(experiment, tasks, mesh)
    batch = abstract_batch(experiment, tasks, mesh)
    label_loss = spec_of_tasks(experiment.data.train, tasks).label_loss
    last_step = list(compiled_steps(experiment, plan, label_loss=label_loss).values())[-1]
    with noted_choices() as choices:
        program = compile_program(last_step, plan.abstract, batch, topology=topology, mesh=mesh)
    capacity = topology.chip.memory_bytes or None
    return StepPlan(
        topology=topology,
        mesh=mesh,
        remat=remat_of(experiment),
        num_microbatches=experiment.data.num_microbatches,
        batch_size=experiment.data.train.batch_size,
        num_tokens=num_tokens(batch),
        total_steps=experiment.run.total_steps,
        memory=MemoryUse(
            _bytes_of_parts(plan, batch), program.peak, capacity, program.largest, program.refusal
        ),
        counts=program.counts,
        model_flops=model_flops(experiment, tasks, mesh, batch),
        roofline=program.roofline,
        compile_seconds=program.compile_seconds,
        choices=tuple(choices),
        notes=plan.notes,
    )


def resolved(experiment: Experiment, tasks: TaskSet) -> Experiment:
    """Fill in the model of ``start_from``.

    Args:
      experiment: The configuration.
      tasks: Tasks that it trains on.

    Raises:
      ValueError: The recipe has a teacher, or a method that writes answers, whose step is not planned.
    """
    experiment = resolve_experiment(experiment, tasks)
    if isinstance(experiment.method, OnPolicyMethod):
        raise ValueError(
            f"plan has no step of {type(experiment.method).__name__}, which writes answers first; plan the supervised "
            "step of the same model (Experiment.method = @supervised.Supervised()), and the writing by decode=TOKENS"
        )
    if companions := experiment.method.companions(experiment.model):
        raise ValueError(
            f"plan has no step with a {' and a '.join(companions)} yet; leave it out (Experiment.method = "
            "@supervised.Supervised()), and add its weights and forward pass by hand"
        )
    return experiment


def compilable(experiment: Experiment, topology: Topology) -> Experiment:
    """Return an experiment with blockwise attention in place of cuDNN's where the program is one for CPUs.

    Where GPUs are meant, that is also in place of the automatic choice, which would be that of a CPU.

    Args:
      experiment: The configuration, with its model.
      topology: The devices.
    """
    model: Any = experiment.model
    replaced = {"cudnn"} if topology.chip.kind == "cpu" else set()
    if not topology.is_compiled:
        replaced = {"cudnn", "auto"}
    if traits_of(model).attention_implementation not in replaced:
        return experiment
    changes: dict[str, object] = {"attention_implementation": "blockwise"}
    if not topology.is_compiled and getattr(model, "scan_layers", None) == "auto":
        changes["scan_layers"] = False
    return replace(experiment, model=replace(model, **changes))


def state_plan(experiment: Experiment, tasks: TaskSet, mesh: Mesh) -> StateLayout:
    """Return the shapes and shardings of the training state on a mesh.

    Args:
      experiment: Experiment to plan.
      tasks: Tasks that it trains on.
      mesh: Devices, which needn't exist.
    """
    return plan_experiment(
        experiment,
        mesh,
        num_tasks=len(tasks.tasks),
        steps_per_epoch=_unknown_epoch,
    )


def _unknown_epoch() -> float:
    raise ValueError(
        "plan reads no data, so it can't know the steps of an epoch; give unfreezing every_steps or at_steps"
    )


def abstract_batch(experiment: Experiment, tasks: TaskSet, mesh: Mesh) -> Batch:
    """Return the shapes and shardings of a training batch; rows have their full length.

    Args:
      experiment: Experiment to plan.
      tasks: Tasks that it trains on.
      mesh: Devices, which needn't exist.
    """
    row = empty_row(experiment.data.train, tasks)

    def shape(stream: np.ndarray, sharding: NamedSharding) -> jax.ShapeDtypeStruct:
        dims = (experiment.data.train.batch_size, *stream.shape[1:])
        return jax.ShapeDtypeStruct(dims, stream.dtype, sharding=sharding)

    return jax.tree.map(shape, row, batch_shardings(row, mesh))


def num_tokens(batch: Batch) -> int:
    """Return the number of positions of a batch's streams."""
    streams = (batch.encoder_input_tokens, batch.decoder_input_tokens)
    return sum(math.prod(stream.shape) for stream in streams if stream is not None)


def remat_of(experiment: Experiment) -> str:
    """Return the name of the model's rematerialization policy; empty for models without one."""
    return traits_of(experiment.model).remat


def bytes_per_device(tree: PyTree) -> int:
    """Return the bytes that each device holds of a tree of shapes with shardings."""
    return sum(
        math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
        for leaf in jax.tree.leaves(tree)
    )


def _bytes_of_parts(plan: StateLayout, batch: Batch) -> dict[str, int]:
    names = {
        "params": "parameters",
        "frozen": "frozen parameters",
        "opt_state": "optimizer state",
        "average": "average of parameters",
        "memory": "segment memory",
    }
    parts = {
        text: bytes_per_device(plan.abstract[name]) for name, text in names.items() if name in plan.abstract
    }
    return {text: size for text, size in parts.items() if size} | {"batch": bytes_per_device(batch)}


def model_flops(experiment: Experiment, tasks: TaskSet, mesh: Mesh, batch: Batch) -> float:
    """Return the FLOPs of a train step, traced without remat, with plain attention and whole logits.

    So nothing is computed again. Logits are those of all positions, also of an encoder, which leaves most out.

    Args:
      experiment: The configuration, with its model.
      tasks: Tasks that it trains on.
      mesh: Devices; their number doesn't matter.
      batch: Shapes of a batch.
    """
    experiment = replace(experiment, model=computed_once(experiment.model))
    plan = state_plan(experiment, tasks, mesh)
    label_loss = spec_of_tasks(experiment.data.train, tasks).label_loss
    step = list(compiled_steps(experiment, plan, label_loss=label_loss, in_parts=False).values())[-1]
    with jax.set_mesh(mesh):
        return traced_flops(step, plan.abstract, batch)


def gib(num_bytes: float) -> str:
    """Return a size in GiB, or in MiB or KiB if it is small."""
    for unit, size in (("GiB", GIB), ("MiB", 2**20)):
        if num_bytes >= 0.1 * size:
            return f"{num_bytes / size:.2f} {unit}"
    return f"{num_bytes / 2**10:.2f} KiB"
