"""The record of a run's frozen weights, which its checkpoints leave out: ``frozen.json`` says where they come from."""

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from t5x_like.configuration_names import is_config_class, is_importable
from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.files import PathLike, as_path, read_json, write_json
from t5x_like.message_sentences import sentence
from t5x_like.model import parameters
from t5x_like.model.model_traits import traits_of
from t5x_like.model.parameters import ModelConfig
from t5x_like.partitioning.shard import tree_shardings
from t5x_like.weight_patterns import Selection, invert, partial, present_path

_FILE = "frozen.json"

_CLASS = "is"  # key of an ``InitialInputs``' class
# Records of earlier versions have the fields of this class next to their own.
_EARLIER_CLASS = "t5x_like.ancestors.pretrained_inputs:RecordedInputs"
_EARLIER_FIELDS = ("word_vectors", "features", "features_step")


@runtime_checkable
class InitialInputs(Protocol):
    """Files that parts of a run's fresh weights came from: a dataclass, which ``frozen.json`` has with its class."""

    def sources(self) -> Mapping[str, str]:
        """Return what a run began with, as a message names it, by the field that has its path."""
        ...

    def weights(
        self,
        params: parameters.Parameters,
        config: ModelConfig,
        *,
        run: str,
        vocabulary: Callable[[], object],
        mesh: Mesh | None,
    ) -> parameters.Parameters:
        """Return a model's weights with those of the files.

        Args:
          params: Fresh weights.
          config: Configuration of the model.
          run: Directory of the run, for messages.
          vocabulary: Returns the run's tokenizer.
          mesh: Devices to place the weights on.

        Raises:
          ValueError: A file can't be read any more, as ``missing_source`` says it.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class FrozenRecord:
    """The origin of a run's frozen weights.

    Attributes:
      start_from: Absolute path of the checkpoint that has the weights; ``None`` for fresh weights drawn from ``seed``.
      step: Step of ``start_from``, if that is a run.
      seed: Seed of fresh weights, and of heads that ``start_from`` lacks.
      checksums: Checksums of each frozen weight, by path.
      layers: Rows of stacked weights that are frozen, by path, where only some are.
      inputs: Files that parts of fresh weights came from; ``None`` for none.
    """

    start_from: str | None
    step: int | None
    seed: int
    checksums: Mapping[str, int]
    layers: Mapping[str, Sequence[int]] = field(default_factory=dict)
    inputs: InitialInputs | None = None

    def selection(self, params: parameters.Parameters) -> Selection:
        """Return which of a model's whole weights are frozen."""
        num_rows = parameters.num_rows(params)
        return {
            path: tuple(row in self.layers[path] for row in range(rows))
            if path in self.layers
            else path in self.checksums
            for path, rows in num_rows.items()
        }

    def write(self, directory: PathLike) -> None:
        """Write ``frozen.json``."""
        fields: dict[str, Any] = asdict(self)
        if self.inputs is not None:
            owner = type(self.inputs)
            fields["inputs"] |= {_CLASS: f"{owner.__module__}:{owner.__qualname__}"}
        write_json(as_path(directory) / _FILE, fields)

    def check(
        self, frozen: parameters.Parameters, *, run: str, vocabulary_weights: Collection[str] = ()
    ) -> None:
        """Check that weights are those that the run was trained with.

        Args:
          frozen: Frozen weights.
          run: Directory of the run.
          vocabulary_weights: Paths of weights that follow from the run's vocabulary.

        Raises:
          ValueError: The weights have changed; names one.
        """
        actual = checksums(frozen)
        changed = [path for path, checksum in self.checksums.items() if actual.get(path) != checksum]
        if not changed:
            return
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        sources = {} if self.inputs is None else self.inputs.sources()
        fields = ["start_from"] if self.start_from is not None else list(sources)
        is_vocabulary = changed[0] in vocabulary_weights
        if is_vocabulary:
            source = "those that follow from its vocabulary"
        elif self.start_from is not None:
            source = f"those of {self.origin}"
        else:
            source = " with ".join([f"fresh weights drawn from seed {self.seed}", *sources.values()])
        if is_vocabulary:
            hint = f"Restore the vocabulary in {run}"
        elif fields:
            hint = (
                f"Restore what is there, or give the path of a copy as {' or '.join(fields)} in {run}/{_FILE}"
            )
        else:
            hint = "Use the versions of JAX and of this code that the run was started with"
        raise ValueError(
            f"{run} was trained on frozen weights, {source}, which have changed since: {changed[0]}{more}. {hint}"
        )

    @property
    def origin(self) -> str:
        """The checkpoint in words."""
        return f"{self.start_from}" + ("" if self.step is None else f", step {self.step}")


def missing_source(error: Exception, field: str, source: str, *, run: str) -> ValueError:
    """Return the error for a file or checkpoint of frozen weights that can't be opened.

    Args:
      error: Reason.
      field: Field of ``frozen.json`` that has its path.
      source: The file or checkpoint, as the message names it.
      run: Directory of the run.
    """
    return ValueError(
        f"{run} was trained on frozen weights, those of {source}, which can't be opened: {sentence(error)} "
        f"Put them back there, or give the path of a copy as {field} in {run}/{_FILE}"
    )


def record_frozen(
    frozen: parameters.Parameters,
    trained: Selection,
    *,
    start_from: str | None,
    step: int | None,
    seed: int,
    **others: Any,
) -> FrozenRecord:
    """Return the record of a run's frozen weights.

    Args:
      frozen: Frozen weights.
      trained: Weights, and layers of stacked weights, that the run trains.
      start_from: Checkpoint that has the frozen weights, for ``FrozenRecord``.
      step: Step of that checkpoint, for ``FrozenRecord``.
      seed: Seed of fresh weights, for ``FrozenRecord``.
      **others: Other fields of ``FrozenRecord``.
    """
    layers = {
        path: [row for row, is_frozen in enumerate(rows) if is_frozen]
        for path, rows in partial(invert(trained)).items()
    }
    return FrozenRecord(
        start_from=start_from,
        step=step,
        seed=seed,
        checksums=checksums(frozen),
        layers=layers,
        **others,
    )


def read_frozen_record(directory: PathLike) -> FrozenRecord | None:
    """Read ``frozen.json`` of a run directory; ``None`` for a run that trained all weights."""
    path = as_path(directory) / _FILE
    with refusing_damage(path):
        if not path.exists():
            return None
        fields = read_json(path, dict)
        earlier = {name: fields.pop(name) for name in _EARLIER_FIELDS if name in fields}
        for name in ("checksums", "layers"):
            fields[name] = {present_path(path): value for path, value in fields.get(name, {}).items()}
        inputs = fields.pop("inputs", None)
        if inputs is None and any(value is not None for value in earlier.values()):
            inputs = {_CLASS: _EARLIER_CLASS, **earlier}
        return FrozenRecord(**fields, inputs=None if inputs is None else _read_inputs(inputs))


def _read_inputs(fields: dict[str, Any]) -> InitialInputs:
    name = fields.pop(_CLASS)
    module, _, path = name.partition(":")
    try:
        owner = getattr(importlib.import_module(module), path, None) if is_importable(module) else None
    except ImportError:
        owner = None
    if owner is None or not is_config_class(owner) or not issubclass(owner, InitialInputs):
        raise ValueError(f"inputs are {name}, and there is no such class here")
    return owner(**fields)


def fresh_params(config: parameters.ModelConfig, *, mesh: Mesh | None, seed: int) -> parameters.Parameters:
    """Draw a model's weights.

    Args:
      config: Configuration.
      mesh: Devices to share the weights; None for one device.
      seed: Seed of the weights.
    """

    def draw(key: jax.Array) -> parameters.Parameters:
        return parameters.split(config.build(key))[1]

    if mesh is None:
        return jax.jit(draw)(jax.random.key(seed))
    _, shapes, axes = parameters.abstract(config)
    return jax.jit(draw, out_shardings=tree_shardings(axes, shapes, mesh))(jax.random.key(seed))


def with_vocabulary_weights(
    params: parameters.Parameters, config: ModelConfig, vocabulary: object
) -> parameters.Parameters:
    """Return a model's weights with those that follow from a vocabulary.

    Args:
      params: The weights, on the devices that they stay on.
      config: Configuration of the model.
      vocabulary: A tokenizer, or a vocabulary that has one.

    Raises:
      ValueError: The model can't read the vocabulary.
    """
    flat = parameters.flatten(params)
    own = traits_of(config).weights_of_vocabulary(vocabulary)
    return parameters.unflatten(
        flat | {path: jax.device_put(array, flat[path].sharding) for path, array in own.items()}
    )


def checksums(params: parameters.Parameters) -> dict[str, int]:
    """Return a checksum of each weight, the same for any sharding; all processes must call it."""
    sums = jax.jit(lambda tree: jax.tree.map(_checksum, tree))(params)
    return {path: int(value) for path, value in parameters.flatten(sums).items()}


def _checksum(array: jax.Array) -> jax.Array:
    """Sum the bits of all numbers modulo 2**32, each times an odd number of its own: any change of one shows."""
    width = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32}[array.dtype.itemsize]
    bits = jax.lax.bitcast_convert_type(array, width).astype(jnp.uint32)
    index = jnp.zeros(array.shape, jnp.uint32)
    for axis, size in enumerate(array.shape):
        index = index * jnp.uint32(size) + jax.lax.broadcasted_iota(jnp.uint32, array.shape, axis)
    return jnp.sum(bits * (2 * index + 1), dtype=jnp.uint32)
