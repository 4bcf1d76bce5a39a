"""Refusal of meshes that divide the devices, the batch or the model unevenly, with the nearest that don't."""

from collections.abc import Iterable
from typing import Any

from t5x_like.model import parameters
from t5x_like.partitioning.mesh import MESH_AXES
from t5x_like.partitioning.rules import BATCH_MESH_AXES, RULES
from t5x_like.planning.search import meshes
from t5x_like.planning.step_plan import resolved
from t5x_like.training.experiment import Experiment

_MAX_SUGGESTED = 3


def check_mesh(experiment: Experiment, num_devices: int, *, is_given: bool) -> None:
    """Check that a mesh uses all devices and divides the batch; a given one must divide the model too.

    Args:
      experiment: With the mesh to check.
      num_devices: Devices of the topology.
      is_given: Whether the user has named this mesh. Training accepts one that leaves dimensions whole.

    Raises:
      ValueError: With the nearest meshes that do.
    """
    fitting = [mesh for mesh in meshes(num_devices) if _divides_batch(experiment, mesh)]
    try:
        sizes = experiment.mesh.sizes(num_devices)
    except ValueError as error:
        wanted = tuple(max(getattr(experiment.mesh, name), 1) for name in MESH_AXES)
        raise ValueError(f"{error}. {_suggestion(fitting, wanted)}") from None
    if not _divides_batch(experiment, sizes):
        groups = " x ".join(f"{axis} {sizes[MESH_AXES.index(axis)]}" for axis in BATCH_MESH_AXES)
        rows = experiment.train.batch_size // experiment.num_microbatches
        raise ValueError(
            f"{rows} rows of a {'micro' * (experiment.num_microbatches > 1)}batch can't be shared out evenly over "
            f"{groups} devices. {_suggestion(fitting, sizes)}"
        )
    if not is_given:
        return
    dimensions = _cut_along_model(experiment)
    undivided = _undivided(dimensions, sizes)
    if undivided:
        even = [mesh for mesh in fitting if not _undivided(dimensions, mesh)]
        raise ValueError(f"{'; '.join(undivided)}. {_suggestion(even, sizes)}")


def _divides_batch(experiment: Experiment, mesh: tuple[int, ...]) -> bool:
    rows = experiment.train.batch_size // experiment.num_microbatches
    groups = 1
    for axis in BATCH_MESH_AXES:
        groups *= mesh[MESH_AXES.index(axis)]
    return rows % groups == 0


def _cut_along_model(experiment: Experiment) -> set[tuple[str, int]]:
    """Return name and size of each dimension of weights that the model axis should cut, and the heads."""
    model: Any = resolved(experiment).model
    _, shapes, axes = parameters.abstract(model)
    names = parameters.flatten(axes)
    found = {
        (axis, size)
        for path, leaf in parameters.flatten(shapes).items()
        for axis, size in zip(names[path], leaf.shape, strict=True)
        if RULES[axis][:1] == ("model",)
    }
    return found | ({("heads", model.num_heads)} if hasattr(model, "num_heads") else set())


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
    texts = (
        ",".join(f"{name}={size}" for name, size in zip(MESH_AXES, mesh, strict=True)) for mesh in nearest
    )
    return f"The nearest that do: {', '.join(f'--mesh {text}' for text in texts)}"
