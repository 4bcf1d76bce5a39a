"""Directories in Hugging Face's layout: ``config.json`` beside safetensors, to a model and back."""

import importlib
import math
import shutil
import uuid
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh

from t5x_like.checkpoints.safetensors_files import SafetensorsReader, write_safetensors
from t5x_like.files import PathLike, as_path, read_json, write_json
from t5x_like.model import parameters
from t5x_like.model.zoo.weights import Source, read_weights, their_shapes, write_weights
from t5x_like.partitioning.shard import with_shardings

# Which module of ``zoo/`` reads which ``model_type``.
_ZOO = {"t5": "t5", "mt5": "t5"}

# Written as they were read, where a model was read; the others are ours to say.
_KEPT_FIELDS = ("architectures", "model_type", "pad_token_id", "eos_token_id", "decoder_start_token_id")


class SpecialIds(NamedTuple):
    """Token ids that generation needs."""

    decoder_start: int
    pad: int
    eos: int | tuple[int, ...]


class HuggingFaceModel(NamedTuple):
    """A configuration of ours, its weights (nested, float32), and all fields of ``config.json``."""

    config: Any
    params: dict[str, Any]
    fields: dict[str, Any]


def read_hugging_face(directory: PathLike, *, mesh: Mesh | None = None) -> HuggingFaceModel:
    """Reads tensor by tensor, straight onto ``mesh`` if there is one.

    Raises:
      ValueError: not such a directory, a model or a configuration that we don't know, or other tensors than it needs.
    """
    path = as_path(directory) / "config.json"
    if not path.exists():
        raise ValueError(f"{path} is missing: {directory} is not a Hugging Face model directory")
    theirs = read_json(path)
    zoo = _zoo_of(theirs, str(path))
    config = zoo.from_hugging_face(theirs)
    _, shapes, axes = parameters.abstract(config)
    shardings = parameters.flatten(shapes if mesh is None else with_shardings(axes, shapes, mesh))
    reader = SafetensorsReader(directory)
    params = read_weights(
        zoo.hugging_face_weights(config),
        shapes,
        Source(str(directory), reader.shapes(), reader.read),
        place=lambda name, array: jax.device_put(array, shardings[name].sharding),
        unused=zoo.HUGGING_FACE_UNUSED,
    )
    return HuggingFaceModel(config, params, theirs)


def write_hugging_face(
    config: Any,
    params: parameters.Parameters,
    directory: PathLike,
    *,
    fields: Mapping[str, Any] | None = None,
    companions: Sequence[PathLike] = (),
    max_shard_bytes: int = 5 * 10**9,
) -> None:
    """Writes ``config.json``, safetensors and copies of ``companions``, whole or not at all.

    ``fields`` are those of the ``config.json`` that the model was read from; what they say of the model itself and of
    its storage is replaced.

    Raises:
      ValueError: ``directory`` is there and not empty.
    """
    target = as_path(directory)
    if target.exists() and any(target.iterdir()):
        raise ValueError(f"{target} is not empty; nothing was written. Give a new directory")
    zoo = importlib.import_module(type(config).__module__)
    table = zoo.hugging_face_weights(config)
    sizes = {name: 4 * math.prod(shape) for name, shape in their_shapes(table, params).items()}
    neighbour = target.parent / f".{target.name}.{uuid.uuid4().hex[:8]}"
    neighbour.mkdir(parents=True)
    try:
        write_safetensors(neighbour, write_weights(table, params), sizes, max_shard_bytes=max_shard_bytes)
        write_json(neighbour / "config.json", _merged_fields(zoo.to_hugging_face(config), fields or {}))
        for companion in companions:
            (neighbour / as_path(companion).name).write_bytes(as_path(companion).read_bytes())
        if target.exists():
            target.rmdir()
        neighbour.rename(target)
    finally:
        shutil.rmtree(neighbour, ignore_errors=True)


def special_ids_of(fields: Mapping[str, Any]) -> SpecialIds:
    """The ids that a ``config.json`` gives, or T5's. Without a start token, decoders start with padding."""
    pad = fields.get("pad_token_id") or 0
    eos = fields.get("eos_token_id", 1)
    start = fields.get("decoder_start_token_id")
    return SpecialIds(pad if start is None else start, pad, tuple(eos) if isinstance(eos, list) else eos)


def _merged_fields(ours: dict[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**theirs, **ours, **{name: theirs[name] for name in _KEPT_FIELDS if name in theirs}}
    for derived in ("dtype", "scale_decoder_outputs"):  # newer names of what torch_dtype and the head say
        merged.pop(derived, None)
    return merged


def _zoo_of(theirs: dict[str, Any], path: str) -> ModuleType:
    model_type = theirs.get("model_type")
    if model_type not in _ZOO:
        raise ValueError(f"{path}: model_type {model_type!r} is not one of {', '.join(_ZOO)}")
    zoo = importlib.import_module(f"t5x_like.model.zoo.{_ZOO[model_type]}")
    known = zoo.HUGGING_FACE_ARCHITECTURES
    unknown = [name for name in theirs.get("architectures") or () if name not in known]
    if unknown:
        raise ValueError(f"{path}: no head for {', '.join(unknown)}; there are {', '.join(known)}")
    return zoo
