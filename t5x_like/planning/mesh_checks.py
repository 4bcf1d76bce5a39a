"""Refusal of meshes that divide the devices, the batch or the model unevenly, with the nearest that don't."""

import math
from collections.abc import Iterable
from typing import Any

from jax.sharding import AbstractMesh

from t5x_like.message_sentences import sentence
from t5x_like.model import parameters
from t5x_like.model.model_traits import traits_of
from t5x_like.partitioning.mesh import MESH_AXES, mesh_text, shown_sizes
from t5x_like.partitioning.rules import BATCH_MESH_AXES, RULES
from t5x_like.partitioning.shard import check_experts, check_sequence_length
from t5x_like.planning.search import meshes, num_experts_of
from t5x_like.planning.step_plan import resolved
from t5x_like.text.tasks.task_set import TaskSet
from t5x_like.training.experiment import Experiment
from t5x_like.training.model_checks import row_lengths

_MAX_SUGGESTED = 3


def check_mesh(experiment: Experiment, tasks: TaskSet, num_devices: int, *, is_given: bool) -> None:
    """Check that a mesh uses all devices and divides the batch; a given one must divide the model too.

    Args:
      experiment: Recipe with the mesh to check.
      tasks: Tasks that it trains on.
      num_devices: Devices of the topology.
      is_given: Whether the user has named this mesh. Training accepts one that leaves dimensions whole.

    Raises:
      ValueError: With the nearest meshes that do.
    """
    fitting = list(meshes(experiment, tasks, num_devices))
    try:
        sizes = experiment.mesh.sizes(num_devices)
    except ValueError as error:
        wanted = tuple(max(getattr(experiment.mesh, name), 1) for name in MESH_AXES)
        raise ValueError(f"{sentence(error)} {_suggestion(fitting, wanted)}") from None
    rows = experiment.data.train.batch_size // experiment.data.num_microbatches
    named = dict(zip(MESH_AXES, sizes, strict=True))
    if rows % math.prod(named[axis] for axis in BATCH_MESH_AXES):
        batch_sizes = shown_sizes({axis: named[axis] for axis in BATCH_MESH_AXES})
        groups = " x ".join(f"{axis} {size}" for axis, size in batch_sizes.items())
        raise ValueError(
            f"{rows} rows of a {'micro' * (experiment.data.num_microbatches > 1)}batch can't be shared out evenly over "
            f"{groups} devices. {_suggestion(fitting, sizes)}"
        )
    for length in row_lengths(experiment, tasks):
        try:
            check_sequence_length(length, AbstractMesh(sizes, MESH_AXES))
        except ValueError as error:
            raise ValueError(f"{sentence(error)} {_suggestion(fitting, sizes)}") from None
    try:
        check_experts(num_experts_of(experiment, tasks), named["expert"])
    except ValueError as error:
        raise ValueError(f"{sentence(error)} {_suggestion(fitting, sizes)}") from None
    if not is_given:
        return
    dimensions = _cut_along_model(experiment, tasks)
    undivided = _undivided(dimensions, sizes)
    if undivided:
        even = [mesh for mesh in fitting if not _undivided(dimensions, mesh)]
        raise ValueError(f"{'; '.join(undivided)}. {_suggestion(even, sizes)}")


def _cut_along_model(experiment: Experiment, tasks: TaskSet) -> set[tuple[str, int]]:
    """Return name and size of each dimension of weights that the model axis should cut, and the heads."""
    model: Any = resolved(experiment, tasks).model
    _, shapes, axes = parameters.abstract(model)
    names = parameters.flatten(axes)
    cut = {
        (axis, size)
        for path, leaf in parameters.flatten(shapes).items()
        for axis, size in zip(names[path], leaf.shape, strict=True)
        if RULES[axis][:1] == ("model",)
    }
    num_heads = traits_of(model).num_heads
    return cut | (set() if num_heads is None else {("heads", num_heads)})


def _undivided(dimensions: set[tuple[str, int]], mesh: tuple[int, ...]) -> list[str]:
    """Return a line for each dimension that the model axis can't cut."""
    parts = mesh[MESH_AXES.index("model")]
    return [
        f"{axis} of {size} can't be cut into model={parts} equal parts"
        for axis, size in sorted(dimensions)
        if size % parts
    ]


def _suggestion(fitting: Iterable[tuple[int, ...]], wanted: tuple[int, ...]) -> str:
    """Return the fitting meshes that are nearest to a wanted one."""

    def distance(mesh: tuple[int, ...]) -> float:
        return sum(abs(size - other) / max(size, other) for size, other in zip(mesh, wanted, strict=True))

    nearest = sorted(fitting, key=distance)[:_MAX_SUGGESTED]
    if not nearest:
        return "No mesh of these devices divides the batch; change BATCH_SIZE or the topology"
    texts = (mesh_text(dict(zip(MESH_AXES, mesh, strict=True))) for mesh in nearest)
    return f"The nearest that do: {', '.join(f'mesh={text}' for text in texts)}"
