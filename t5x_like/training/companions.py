"""Frozen models that a training method reads next to the trained one, such as the teacher of a distillation.

Their weights are on the mesh once and no constants of the compiled step. A file in the run says which weights they are,
so that a continued run finds the same ones.
"""

import itertools
import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh
from jaxtyping import PyTree

from t5x_like.batch import Batch
from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.files import PathLike, as_path, read_json, write_json
from t5x_like.model import parameters
from t5x_like.model.adapters.adapter_weights import without_adapter
from t5x_like.model.families.family import Predictions, predict
from t5x_like.model.heads import can_defer_logits, defer_logits
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.pretrained.fresh_heads import in_class_order
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.pretrained.output_scale import params_in_scale
from t5x_like.text.tasks.task_set import LabelSpace
from t5x_like.training.cached_outputs import CachedOutputs, OutputCache, Outputs
from t5x_like.training.microbatches import MODEL, Microbatch

log = logging.getLogger(__name__)

# Names of a run's own JSON files.
_FILES_OF_RUNS = frozenset({"classes", "config", "experiment", "frozen", "model", "newest_step"})


class CompanionSource(NamedTuple):
    """Origin of a companion: a checkpoint, and perhaps a cache of its outputs.

    Attributes:
      directory: A run, a Hugging Face directory, or any other checkpoint. ``None`` is the trained model without its
        adapter, whose weights are frozen and in memory already.
      step: Step of a run; its newest if not given. A continued run keeps the step that it began with.
      cache: Outputs that are kept on disk; ``None`` computes them in every step.
    """

    directory: str | None
    step: int | None = None
    cache: OutputCache | None = None


class Companion(NamedTuple):
    """An opened companion.

    Attributes:
      source: Its checkpoint and cache.
      graphdef: Its structure.
      params: Its weights, on the mesh; their shapes alone if they are those of the trained model.
      step: Step of a run; ``None`` for what has no steps.
      identity: Hash of its weights' files.
      outputs: Its outputs on disk; ``None`` if they are computed in every step.
    """

    source: CompanionSource
    graphdef: Any
    params: parameters.Parameters
    step: int | None = None
    identity: str = ""
    outputs: CachedOutputs | None = None

    def write(self, model_dir: PathLike, name: str) -> None:
        """Write ``<name>.json``, by which a continued run finds the same weights.

        Args:
          model_dir: Folder of the run.
          name: Name of the companion in its method.
        """
        if jax.process_index() == 0 and self.source.directory is not None:
            record = {name: self.source.directory, "step": self.step, "identity": self.identity}
            write_json(as_path(model_dir) / f"{name}.json", record)


class FrozenModel(NamedTuple):
    """A companion inside a compiled step.

    Attributes:
      name: Name under which the method reads it.
      graphdef: Its structure.
      params: Its weights; ``None`` where its outputs are read from a cache.
    """

    name: str
    graphdef: Any
    params: parameters.Parameters | None

    def predict(self, microbatch: Microbatch, *, defers_logits: bool = False) -> Predictions:
        """Return its predictions, without dropout, with its own memory of the batch before.

        Args:
          microbatch: Rows to predict.
          defers_logits: Leave the logits to the loss (``model.heads.defer_logits``).
        """
        model = parameters.merge(self.graphdef, self.params or {})
        if defers_logits and can_defer_logits(model):
            defer_logits(model)
        return predict(model, microbatch.batch, memory=microbatch.memories.get(self.name))


def open_companion(
    name: str, source: CompanionSource, model: CommonConfig, *, mesh: Mesh, labels: LabelSpace, model_dir: str
) -> Companion:
    """Open a companion onto the mesh. It computes in the type of the trained model.

    Args:
      name: Name under which the method reads it.
      source: Its checkpoint and cache.
      model: Configuration of the trained model.
      mesh: Devices.
      labels: Meaning of the head's outputs: classes and a scale.
      model_dir: Run of the trained model. If that has begun, it continues with the same weights.

    Raises:
      ValueError: Its weights can't be read, or have changed since the run began.
    """
    if source.directory is None:
        graphdef, params, _ = parameters.abstract(without_adapter(model))
        return Companion(source, graphdef, params)
    path, directory, step = as_path(model_dir) / f"{name}.json", source.directory, source.step
    identity = None
    if path.exists():
        with refusing_damage(path):
            begun = read_json(path, dict)
            step, identity = begun["step"], begun["identity"]
    checkpoint = open_checkpoint(directory, mesh=mesh, step=step)
    if identity not in (None, checkpoint.identity):
        raise ValueError(
            f"the {name} {directory} has other weights than when {model_dir} was started; put the earlier ones back, "
            "or start a new run"
        )
    checkpoint = checkpoint.computing_in(model.compute_dtype)
    params, note = in_class_order(checkpoint.params, checkpoint.class_names, labels.class_names, directory)
    if note is not None:
        log.warning("%s", note)
    params = params_in_scale(params, checkpoint.fields, labels.scale)
    graphdef, identity, outputs = checkpoint.graphdef, checkpoint.identity, None
    if source.cache is not None:
        outputs = CachedOutputs(source.cache, name, graphdef, params, identity, mesh=mesh)
    return Companion(source, graphdef, params, checkpoint.step, identity, outputs)


def open_companions(
    sources: Mapping[str, CompanionSource],
    model: CommonConfig,
    *,
    mesh: Mesh,
    labels: LabelSpace,
    model_dir: str,
) -> dict[str, Companion]:
    """Open all companions of a method, as ``open_companion`` does each.

    Args:
      sources: Checkpoint of each companion.
      model: Configuration of the trained model.
      mesh: Devices.
      labels: Classes or token ids that the companions must share.
      model_dir: Folder of the run.

    Raises:
      ValueError: As ``open_companion``, or a name is that of the trained model or of another file of a run.
    """
    for name in sources:
        if name == MODEL or name in _FILES_OF_RUNS:
            raise ValueError(
                f"a frozen model can't have the name {name!r}, since {name}.json in the run is another file; rename it "
                "in the method's companions()"
            )
    return {
        name: open_companion(name, source, model, mesh=mesh, labels=labels, model_dir=model_dir)
        for name, source in sources.items()
    }


class CompanionInputs(NamedTuple):
    """Arguments of a compiled step next to state and batch.

    Attributes:
      params: Weights of companions whose outputs the step computes, by name.
      outputs: Outputs of the others, by name.
    """

    params: Mapping[str, parameters.Parameters] = {}
    outputs: Mapping[str, Outputs] = {}


NO_INPUTS = CompanionInputs()


def own_params(
    companions: Mapping[str, Companion], *, computed_only: bool = False
) -> dict[str, parameters.Parameters]:
    """Return the weights of companions that are not the trained model's own.

    Args:
      companions: Opened companions.
      computed_only: Leave out companions whose outputs are read from a cache.
    """
    return {
        name: each.params
        for name, each in companions.items()
        if each.source.directory is not None and not (computed_only and each.outputs is not None)
    }


def frozen_models(
    companions: Mapping[str, Companion],
    params: Mapping[str, parameters.Parameters],
    weights: parameters.Parameters,
) -> dict[str, FrozenModel]:
    """Return companions as a compiled step reads them.

    Args:
      companions: Opened companions.
      params: Weights of those that have weights of their own.
      weights: Weights of the trained model, of which the others have a part.
    """

    def own(companion: Companion) -> parameters.Parameters:
        flat, paths = parameters.flatten(weights), parameters.flatten(companion.params)
        return parameters.unflatten({path: flat[path] for path in paths})

    return {
        name: FrozenModel(
            name, each.graphdef, own(each) if each.source.directory is None else params.get(name)
        )
        for name, each in companions.items()
    }


def give_companions(
    steps: Mapping[int, Callable[..., PyTree]], companions: Mapping[str, Companion], *, start_step: int
) -> Mapping[int, Callable[..., PyTree]]:
    """Return compiled steps ``(state, batch) -> state`` that are called with the companions, too.

    Args:
      steps: Compiled steps, by the number of the first step of each stage.
      companions: Opened companions.
      start_step: Number of the first step that is done.
    """
    if not companions:
        return steps
    computed = own_params(companions, computed_only=True)
    cached = {name: each.outputs for name, each in companions.items() if each.outputs is not None}
    numbers = itertools.count(start_step)

    def with_inputs(compiled: Callable[..., PyTree]) -> Callable[..., PyTree]:
        def step(state: PyTree, batch: Batch) -> PyTree:
            new_step = next(numbers)
            outputs = {name: each.of_step(new_step, batch) for name, each in cached.items()}
            return compiled(state, batch, CompanionInputs(computed, outputs))

        return step

    return {start: with_inputs(compiled) for start, compiled in steps.items()}
