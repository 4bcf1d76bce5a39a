"""Directories in Hugging Face's layout: ``config.json`` beside safetensors, to a model and back."""

import logging
import shutil
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh

from t5x_like.io.files import PathLike, as_path, read_json, write_json
from t5x_like.model import parameters
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.architectures import architecture_for, architecture_of
from t5x_like.model.zoo.model_tasks import ModelTask
from t5x_like.model.zoo.weights import (
    Weight,
    WeightSource,
    read_weights,
    their_names,
    their_shapes,
    write_weights,
)
from t5x_like.partitioning.shard import with_shardings
from t5x_like.pretrained import special_ids
from t5x_like.pretrained.device_put import put
from t5x_like.pretrained.gguf_files import read_gguf
from t5x_like.pretrained.head_classes import fields_of_classes
from t5x_like.pretrained.safetensors_files import SafetensorsReader, StoredDtype, write_safetensors
from t5x_like.pretrained.t5x_files import is_t5x, read_t5x, t5_config_of
from t5x_like.pretrained.weight_matching import Match, match

# Newer or derived fields for what we write in the older form, which all versions read.
_OTHER_FORMS = ("dtype", "scale_decoder_outputs", "rope_parameters", "layer_types", "attention_layers")


class HuggingFaceModel(NamedTuple):
    """A configuration of ours, its weights (nested, float32), and all fields of ``config.json``."""

    config: Any
    params: dict[str, Any]
    fields: dict[str, Any]


def read_hugging_face(
    directory: PathLike,
    *,
    mesh: Mesh | None = None,
    task: ModelTask | None = None,
    num_labels: int | None = None,
    seed: int = 0,
) -> HuggingFaceModel:
    """Reads tensor by tensor, straight onto ``mesh`` if there is one; also llama.cpp's files and T5X's checkpoints.

    The head is that of the class which ``config.json`` names, or of ``task``. One that the files lack is drawn from
    ``seed``, with a warning.

    Raises:
      ValueError: not such a directory, a model or a configuration that we don't know, or other tensors than it needs.
    """
    config, found, theirs = _open(directory, task=task, num_labels=num_labels)
    _, shapes, axes = parameters.abstract(config)
    leaves = parameters.flatten(shapes if mesh is None else with_shardings(axes, shapes, mesh))

    def place(path: str, array: Any) -> jax.Array:
        return put(array, leaves[path].sharding)

    wanted = {path: leaf for path, leaf in leaves.items() if path not in found.fresh}
    params = read_weights(found.table, parameters.unflatten(wanted), found.source, place=place)
    if found.fresh:
        params = with_fresh_heads(config, params, found.fresh, str(directory), seed, place)
    if found.idle:
        logging.getLogger(__name__).info("%s: not used here: %s", directory, ", ".join(found.idle))
    return HuggingFaceModel(config, params, theirs)


def open_hugging_face(path: PathLike) -> HuggingFaceModel:
    """The same, but the weights stay unread where they are.

    Raises:
      ValueError: as ``read_hugging_face``; and files without the head that ``config.json`` names.
    """
    config, found, theirs = _open(path)
    if found.fresh:
        raise ValueError(f"{path} has no weights for {', '.join(found.fresh)}, which its architecture needs")
    shapes = parameters.abstract(config)[1]
    params = read_weights(found.table, shapes, found.source, place=lambda _, unread: unread)
    return HuggingFaceModel(config, params, theirs)


def configuration_of(directory: PathLike) -> Any:
    """The model that a directory's ``config.json`` describes.

    Raises:
      ValueError: there is none, or it is a model or a configuration that we don't know.
    """
    fields = _fields_of(directory)
    return architecture_for(fields, str(directory)).from_hugging_face(fields)


class _Opened(NamedTuple):
    config: Any
    found: Match
    fields: dict[str, Any]


def _open(path: PathLike, *, task: ModelTask | None = None, num_labels: int | None = None) -> _Opened:
    asked = {"task": task, "num_labels": num_labels}
    asked = {name: value for name, value in asked.items() if value is not None}
    if not (as_path(path) / "config.json").exists() and is_t5x(path):
        source = read_t5x(path)
        config = replace(t5_config_of(source), **asked)
        architecture = architecture_of(config)
        assert architecture.t5x_weights is not None
        found = Match(architecture.t5x_weights(config), source, (), ())
        return _Opened(config, found, architecture.to_hugging_face(config))
    if as_path(path).is_file():
        source, fields = read_gguf(path)
    else:
        fields = _fields_of(path)
        reader = SafetensorsReader(path)
        source = WeightSource(str(path), reader.shapes(), reader.read)
    architecture = architecture_for(fields, str(path))
    config = replace(architecture.from_hugging_face(fields), **asked)
    table = architecture.hugging_face_weights(config)
    found = match(
        table,
        source,
        prefixes=(architecture.prefix, *architecture.other_prefixes),
        unused=architecture.unused_weights,
        of_other_heads=_names_of_other_heads(architecture, config),
        head_shapes=_shapes_of_scores(table, config) if asked else {},
    )
    return _Opened(config, found, fields)


def with_fresh_heads(
    config: Any, params: Any, fresh: tuple[str, ...], where: str, seed: int, place: Callable[..., Any]
) -> dict[str, Any]:
    """``params`` with heads drawn from ``seed`` at the paths ``fresh``, and a warning that says so."""
    warnings.warn(
        f"{where} has no weights for {', '.join(fresh)}; they are freshly drawn from seed {seed}, so train this head "
        "before you use it",
        stacklevel=4,
    )

    def draw(key: jax.Array) -> dict[str, Any]:
        drawn = parameters.flatten(parameters.split(config.build(key))[1])
        return {path: drawn[path] for path in fresh}

    drawn = jax.jit(draw)(jax.random.key(seed))
    placed = {path: place(path, array) for path, array in drawn.items()}
    return parameters.unflatten(parameters.flatten(params) | placed)


def _shapes_of_scores(table: tuple[Weight, ...], config: Any) -> dict[str, tuple[int, ...]]:
    rows = tuple(row for row in table if row.paths[0].startswith("heads/scores/"))
    return their_shapes(rows, parameters.abstract(config)[1]) if rows else {}


def _names_of_other_heads(architecture: Architecture, config: Any) -> set[str]:
    """What files of the same model with other heads hold."""
    tables = (architecture.hugging_face_weights(replace(config, task=task)) for task in architecture.tasks)
    return {name for table in tables for row in table for name in (*their_names(row), *row.copies)}


def write_hugging_face(
    config: Any,
    params: parameters.Parameters,
    directory: PathLike,
    *,
    fields: Mapping[str, Any] | None = None,
    classes: Sequence[str] = (),
    companions: Sequence[PathLike] = (),
    dtype: StoredDtype = "float32",
    max_shard_bytes: int = 5 * 10**9,
) -> None:
    """Writes ``config.json``, safetensors and copies of ``companions``, whole or not at all.

    Leaves of ``params`` may be unread: then only those of one row of the model's table are in memory at a time.
    ``fields`` are those of the ``config.json`` that the model was read from; what they say of the model itself and of
    its storage is replaced. ``classes`` names those of its head, in the order of its scores.

    Raises:
      ValueError: ``directory`` is there and not empty.
    """
    target = as_path(directory)
    if target.exists() and any(target.iterdir()):
        raise ValueError(f"{target} is not empty; nothing was written. Give a new directory")
    architecture = architecture_of(config)
    table = _table_to_write(architecture, config)
    shapes = their_shapes(table, params)
    neighbour = target.parent / f".{target.name}.{uuid.uuid4().hex[:8]}"
    neighbour.mkdir(parents=True)
    try:
        weights = write_weights(table, params)
        write_safetensors(neighbour, weights, shapes, dtype=dtype, max_shard_bytes=max_shard_bytes)
        merged = _merged_fields(architecture, config, fields or {}) | {"torch_dtype": dtype}
        if classes:
            merged |= fields_of_classes(classes)
        write_json(neighbour / "config.json", merged)
        for companion in companions:
            (neighbour / as_path(companion).name).write_bytes(as_path(companion).read_bytes())
        if target.exists():
            target.rmdir()
        neighbour.rename(target)
    finally:
        shutil.rmtree(neighbour, ignore_errors=True)


def _table_to_write(architecture: Architecture, config: Any) -> tuple[Weight, ...]:
    """The names in files of a model without a head have no prefix."""
    table = architecture.hugging_face_weights(config)
    if config.task != "base":
        return table
    return tuple(row._replace(theirs=row.theirs.removeprefix(architecture.prefix)) for row in table)


def _fields_of(directory: PathLike) -> dict[str, Any]:
    path = as_path(directory) / "config.json"
    if not path.exists():
        raise ValueError(f"{path} is missing: {directory} is not a Hugging Face model directory")
    fields = read_json(path)
    generation = path.parent / "generation_config.json"
    if generation.exists():
        special = {name: value for name, value in read_json(generation).items() if name in special_ids.NAMES}
        fields |= {name: value for name, value in special.items() if value is not None}
    return fields


def _merged_fields(architecture: Architecture, config: Any, theirs: Mapping[str, Any]) -> dict[str, Any]:
    ours = architecture.to_hugging_face(config)
    if theirs:
        ours = {name: value for name, value in ours.items() if name not in special_ids.NAMES}
    kept = {name: theirs[name] for name in ("model_type", *special_ids.NAMES) if name in theirs}
    classes = theirs.get("architectures") or ()
    if classes:
        kept["architectures"] = [_class_like(classes[0], config.task, architecture.classes)]
    others = {name: value for name, value in theirs.items() if name not in _OTHER_FORMS}
    if config.task == "question_answering":
        ours["num_labels"] = 2  # some of transformers' classes take the number of ends from there
    if len(theirs.get("id2label") or ()) != ours.get("num_labels"):
        others = {name: value for name, value in others.items() if name not in ("id2label", "label2id")}
    return {**others, **ours, **kept}


def _class_like(theirs: str, task: ModelTask, classes: Mapping[str, ModelTask]) -> str:
    """What does ``task`` among the relatives of a class: for MT5ForConditionalGeneration MT5's, and not T5's."""
    able = [name for name, does in classes.items() if does == task]
    if theirs in able:
        return theirs
    model = theirs.partition("For")[0].removesuffix("Model")
    return next((name for name in able if name.startswith(model)), able[0])
