"""Directories in Hugging Face's layout: ``config.json`` and safetensors, to a model."""

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
from jax.sharding import Mesh

from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.files import PathLike, as_path, read_json
from t5x_like.model import parameters
from t5x_like.model.adapters.adapter_weights import adapter_paths
from t5x_like.model.lazy_array import LazyArray, put_on_devices
from t5x_like.model.parameters import ModelConfig
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.architectures import architecture_for, architecture_of
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.model.zoo.model_tasks import ModelTask
from t5x_like.model.zoo.weights import (
    Weight,
    WeightSource,
    published_names,
    published_shapes,
    read_weights,
)
from t5x_like.partitioning.shard import with_shardings
from t5x_like.pretrained.fresh_heads import missing_heads, with_fresh_weights
from t5x_like.pretrained.gguf_files import read_gguf
from t5x_like.pretrained.head_classes import classes_in
from t5x_like.pretrained.safetensors_files import SafetensorsReader
from t5x_like.pretrained.t5x_files import is_t5x, read_t5x, t5_config_of
from t5x_like.pretrained.tokenizer_files import SPECIAL_ID_FIELDS
from t5x_like.pretrained.weight_matching import Match, match


@dataclass(frozen=True)
class HuggingFaceWeights:
    """A published model, whose weights are not yet read.

    Attributes:
      config: Configuration of the model in our form, with the head that was asked for.
      own: Configuration of the model with the head that its files describe.
      fields: Fields of its ``config.json``, or those that would be there.
      directory: Path of the directory or file.
      match: Match between its tensors and our weights.
    """

    config: Any
    own: Any
    fields: dict[str, Any]
    directory: str
    match: Match
    frozen: ClassVar[None] = None

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes of its head; none if the files name none."""
        return classes_in(self.fields)

    def read(
        self, mesh: Mesh | None = None, *, draw_heads: bool = False, seed: int = 0
    ) -> parameters.Parameters:
        """Read tensor by tensor, as float32, straight onto ``mesh`` if there is one.

        Args:
          mesh: Devices to place the weights on.
          draw_heads: Draw a head of a new task, which the files lack, from ``seed``, with a warning. An adapter is
            always drawn if the files lack it, without a warning.
          seed: Seed of freshly drawn weights.

        Raises:
          ValueError: Tensors are missing, unknown, or of another shape.
        """
        self.require_heads(draw_heads=draw_heads)
        _, shapes, axes = parameters.abstract(self.config)
        leaves = parameters.flatten(shapes if mesh is None else with_shardings(axes, shapes, mesh))

        def place(path: str, array: LazyArray) -> jax.Array:
            return put_on_devices(array, leaves[path].sharding)

        matched, adapters = self.match, adapter_paths(self.config)
        wanted = {
            path: leaf for path, leaf in leaves.items() if path not in matched.fresh and path not in adapters
        }
        params = read_weights(matched.table, parameters.unflatten(wanted), matched.source, place=place)
        params = with_fresh_weights(
            self.config,
            params,
            heads=matched.fresh,
            adapters=adapters,
            where=self.directory,
            seed=seed,
            place=place,
        )
        if matched.idle:
            logging.getLogger(__name__).info("%s: not used here: %s", self.directory, ", ".join(matched.idle))
        return params

    @contextmanager
    def unread(self) -> Iterator[parameters.Parameters]:
        """Yield the weights as arrays that stay on disk; each use reads them.

        Raises:
          ValueError: The files are refused for the reasons that ``read`` has without ``draw_heads``.
        """
        self.require_heads()
        shapes = parameters.abstract(self.config)[1]
        yield read_weights(self.match.table, shapes, self.match.source, place=lambda _, unread: unread)

    def fresh_heads(self) -> tuple[str, ...]:
        """Return the paths of the heads' weights that the files lack."""
        return tuple(self.match.fresh)

    def require_heads(self, *, draw_heads: bool = False) -> None:
        """Check that the files have the weights of all heads.

        Args:
          draw_heads: Allow heads to be missing that the model doesn't have by its files.

        Raises:
          ValueError: Weights are missing; lists their names.
        """
        fresh = self.match.fresh
        if fresh and draw_heads:
            own, wanted = (
                parameters.flatten(parameters.abstract(each)[1]) for each in (self.own, self.config)
            )
            fresh = {
                path: names
                for path, names in fresh.items()
                if path in own and own[path].shape == wanted[path].shape
            }
        if fresh:
            names = list(dict.fromkeys(name for names in fresh.values() for name in names))
            raise ValueError(missing_heads(self.directory, names, self.config, self.own))


def find_hugging_face(
    path: PathLike,
    *,
    task: ModelTask | None = None,
    num_labels: int | None = None,
    has_ctc_head: bool | None = None,
) -> HuggingFaceWeights:
    """Open a Hugging Face directory, a llama.cpp file or a T5X checkpoint, without reading its weights.

    Args:
      path: Path of the directory or file.
      task: Head to open it with; that of the class which ``config.json`` names if not given.
      num_labels: Number of that head's outputs; that of ``config.json`` if not given.
      has_ctc_head: Open a model of speech with its head for CTC; without one if not given.

    Raises:
      ValueError: The path is no such directory, or the model or its configuration is not known here.
    """
    changes = {"task": task, "num_labels": num_labels, "has_ctc_head": has_ctc_head}
    changes = {name: value for name, value in changes.items() if value is not None}
    if not (as_path(path) / "config.json").exists() and is_t5x(path):
        source = read_t5x(path)
        config = replace(t5_config_of(source), **changes)
        architecture = architecture_of(config)
        assert architecture.t5x_weights is not None
        matched = Match(architecture.t5x_weights(config), source, {}, ())
        return HuggingFaceWeights(config, config, architecture.to_hugging_face(config), str(path), matched)
    if as_path(path).is_file():
        source, fields = read_gguf(path)
    else:
        fields = _fields_of(path)
        reader = SafetensorsReader(path)
        source = WeightSource(str(path), reader.shapes(), reader.read)
    with refusing_damage(path if as_path(path).is_file() else as_path(path) / "config.json"):
        architecture = architecture_for(fields, str(path))
        source = source if architecture.separate is None else architecture.separate(source)
        own = _own_config(architecture, fields, source.shapes)
        config = replace(own, **changes)
        if task == "base" and architecture.as_stored is not None:
            config = architecture.as_stored(config, source.shapes)
        table = architecture.hugging_face_weights(config)
    matched = match(
        table,
        source,
        prefixes=(architecture.prefix, *architecture.other_prefixes),
        unused=architecture.unused_weights,
        of_other_heads=_names_of_other_heads(architecture, config),
        head_shapes=_shapes_of_scores(table, config) if changes else {},
    )
    return HuggingFaceWeights(config, own, fields, str(path), matched)


def configuration_of(directory: PathLike) -> CommonConfig:
    """Return the configuration that a directory's ``config.json`` describes.

    Raises:
      ValueError: There is none, or the model or its configuration is not known here.
    """
    fields = _fields_of(directory)
    with refusing_damage(as_path(directory) / "config.json"):
        architecture = architecture_for(fields, str(directory))
        decides = architecture.as_stored is not None and SafetensorsReader.is_in(directory)
        names = SafetensorsReader(directory).names() if decides else None
        return _own_config(architecture, fields, names)


def _own_config(
    architecture: Architecture, fields: Mapping[str, object], names: Collection[str] | None
) -> CommonConfig:
    """Return the configuration that fields and the names of stored arrays describe; ``None`` for no arrays."""
    config = architecture.from_hugging_face(fields)
    if names is None or architecture.as_stored is None:
        return config
    return architecture.as_stored(config, names)


def _shapes_of_scores(table: tuple[Weight, ...], config: ModelConfig) -> dict[str, tuple[int, ...]]:
    rows = tuple(row for row in table if row.paths[0].startswith("heads/scores/"))
    return published_shapes(rows, parameters.abstract(config)[1]) if rows else {}


def _names_of_other_heads(architecture: Architecture, config: CommonConfig) -> set[str]:
    """Name of the weights in files of the same model with other heads."""
    tables = (architecture.hugging_face_weights(replace(config, task=task)) for task in architecture.tasks)
    return {name for table in tables for row in table for name in (*published_names(row), *row.copies)}


def _fields_of(directory: PathLike) -> dict[str, Any]:
    path = as_path(directory) / "config.json"
    if not path.exists():
        raise ValueError(f"{path} is missing: {directory} is not a Hugging Face model directory")
    fields = read_json(path, dict)
    generation = path.parent / "generation_config.json"
    if generation.exists():
        special = {
            name: value for name, value in read_json(generation, dict).items() if name in SPECIAL_ID_FIELDS
        }
        fields |= {name: value for name, value in special.items() if value is not None}
    return fields
