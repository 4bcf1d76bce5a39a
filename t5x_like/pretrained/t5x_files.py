"""Checkpoints of T5X (https://github.com/google-research/t5x): a msgpack file and one zarr folder for each weight.

::

    checkpoint_1000/checkpoint                                              names, and weights that are not cut
                    target.encoder.layers_0.attention.query.kernel/         one weight, [in, out]
                    target.encoder.encoder.attention.query.kernel/          all layers of one, [in, layers, out]

The second form is what T5X's scanned layers write. There is no configuration: ``t5_config_of`` reads sizes off shapes.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from etils import epath
from flax import traverse_util
from jaxtyping import PyTree

from t5x_like.io.files import PathLike, as_path
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.model.zoo.weights import WeightSource
from t5x_like.value_types import fits

_FOLDER = re.compile(r"checkpoint_(\d+)")
_SCANNED = re.compile(r"(encoder|decoder)/(?:layers|\1)/(.+)")
_LAYER_AXIS = 1
_PLACEHOLDER = "PLACEHOLDER://"  # how Orbax points from the msgpack file to a folder


class _Array(NamedTuple):
    """A weight on disk or in the msgpack file; ``read`` takes a layer's number where layers are stacked."""

    shape: tuple[int, ...]
    read: Callable[[int | None], np.ndarray]


def read_t5x(directory: PathLike) -> WeightSource:
    """Find the weights of a ``checkpoint_<step>`` folder or of a run's newest, by T5X's names of unscanned layers.

    Raises:
      ValueError: There is no such checkpoint, or it is damaged; says which file.
    """
    folder, file = _find(as_path(directory))
    arrays = {name: _array(leaf, name, folder) for name, leaf in _leaves(_target(file)).items()}
    split: dict[str, tuple[_Array, int | None]] = {}
    for name, array in arrays.items():
        match = _SCANNED.fullmatch(name)
        if match is None or len(array.shape) <= _LAYER_AXIS:
            split[name] = (array, None)
            continue
        for layer in range(array.shape[_LAYER_AXIS]):
            split[f"{match[1]}/layers_{layer}/{match[2]}"] = (array, layer)

    def read(name: str) -> np.ndarray:
        array, layer = split[name]
        values = np.asarray(array.read(layer), np.float32)
        return values.reshape(_joined(name, values.shape))

    shapes = {
        name: _joined(name, array.shape if layer is None else _without_layers(array.shape))
        for name, (array, layer) in split.items()
    }
    return WeightSource(str(folder), shapes, read)


def t5_config_of(source: WeightSource, **fields: Any) -> T5Config:
    """Return a configuration with the sizes of the shapes.

    Two up-projections mean gated gelu, one relu; without a head of its own, the model scores with its embeddings.

    Args:
      source: Published weights.
      **fields: Fields that shapes don't say, such as the dropout rate.

    Raises:
      ValueError: These are not the weights of a T5 whose layers share one table of relative positions.
    """
    shapes = source.shapes
    if any(re.search(r"layers_\d+/relpos_bias/", name) for name in shapes):
        raise ValueError(
            f"{source.where}: each layer has relative positions of its own, as in UMT5; a T5 has one table a stack"
        )
    gated = "encoder/layers_0/mlp/wi_0/kernel" in shapes
    up = f"encoder/layers_0/mlp/{'wi_0' if gated else 'wi'}/kernel"
    needed = ("token_embedder/embedding", "encoder/relpos_bias/rel_embedding", up)
    absent = [name for name in (*needed, "encoder/layers_0/attention/query/kernel") if name not in shapes]
    if absent:
        raise ValueError(f"{source.where} lacks {', '.join(absent)}: it is not a T5 of T5X's")
    (vocab_size, model_dim), (num_heads, num_buckets), (_, mlp_dim) = (shapes[name] for name in needed)
    inferred: dict[str, Any] = {
        "vocab_size": vocab_size,
        "model_dim": model_dim,
        "mlp_dim": mlp_dim,
        "num_heads": num_heads,
        "head_dim": shapes["encoder/layers_0/attention/query/kernel"][-1] // num_heads,
        "num_encoder_layers": _num_layers(shapes, "encoder"),
        "num_decoder_layers": _num_layers(shapes, "decoder"),
        "feed_forward": "gated_gelu" if gated else "relu",
        "tie_word_embeddings": "decoder/logits_dense/kernel" not in shapes,
        "num_relative_buckets": num_buckets,
    }
    return T5Config(**inferred | fields)


def is_t5x(directory: PathLike) -> bool:
    """Return true where there is a T5X checkpoint, good or bad."""
    try:
        _find(as_path(directory))
    except ValueError:
        return False
    return True


def _find(directory: epath.Path) -> tuple[epath.Path, epath.Path]:
    """Return the folder of the weights and the msgpack file in it."""
    steps = {}
    if directory.is_dir():
        steps = {
            int(match[1]): path
            for path in directory.iterdir()
            if (match := _FOLDER.fullmatch(path.name)) and path.is_dir()
        }
    chosen = steps[max(steps)] if steps else directory
    for folder in (chosen, chosen / "state"):
        if (folder / "checkpoint").is_file():
            return folder, folder / "checkpoint"
    raise ValueError(
        f"{directory} has no T5X checkpoint: a folder checkpoint_<step> with a file named checkpoint"
    )


def _target(file: epath.Path) -> dict[str, object]:
    from flax.serialization import msgpack_restore

    content = file.read_bytes()
    if content.startswith(b"model_checkpoint_path"):
        raise ValueError(
            f"{file} belongs to a TensorFlow checkpoint of Mesh TensorFlow's T5; T5X's can be read"
        )
    try:
        restored: PyTree = msgpack_restore(content)
        target = restored.get("optimizer", restored)["target"]
        if not fits(target, dict) or not target:
            raise ValueError("its target is empty")
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise ValueError(
            f"{file} is damaged or cut short, or no T5X checkpoint: it has {len(content):,} bytes ({error}); "
            "copy it again"
        ) from error
    return target


def _leaves(tree: Mapping[str, object]) -> dict[str, object]:
    flat = traverse_util.flatten_dict(tree, is_leaf=lambda _, value: "driver" in value)
    return {"/".join(map(str, path)): leaf for path, leaf in flat.items() if leaf is not None}


def _array(leaf: object, name: str, folder: epath.Path) -> _Array:
    match leaf:
        case {"kvstore": {"path": path}} | {"path": path}:
            return _stored(path, name, folder)
        case dict():
            return _stored(None, name, folder)
        case str() if leaf.startswith(_PLACEHOLDER):
            return _stored(leaf.removeprefix(_PLACEHOLDER), name, folder)
        case str() | bytes():
            raise ValueError(f"{folder / 'checkpoint'}: {name} is {leaf[:40]!r}, no weight")
    array = np.asarray(leaf)
    return _Array(array.shape, lambda layer: array if layer is None else array.take(layer, _LAYER_AXIS))


def _stored(location: object, name: str, folder: epath.Path) -> _Array:
    """Only the folder's name is taken from the checkpoint: neither drivers nor paths to elsewhere."""
    plain = location.rstrip("/") if fits(location, str) else ""
    if not plain or plain in (".", "..") or set(plain) & {"/", "\\", "\0"}:
        raise ValueError(
            f"{folder / 'checkpoint'}: {name} is said to be in {location!r}; weights lie in folders next to it"
        )
    path = folder / plain
    with _naming(path):
        store = _open(path)
        if not np.issubdtype(store.dtype.numpy_dtype, np.floating) and store.dtype.name != "bfloat16":
            raise ValueError(f"it holds {store.dtype.name}, no floating point numbers")
    kept: dict[str, np.ndarray] = {}

    def read(layer: int | None) -> np.ndarray:
        with _naming(path):
            if layer is None:
                return store.read().result()
            # Chunks usually hold many layers: taken one by one, each would be unpacked again and again.
            if layer == 0 or not kept:
                kept["all"] = store.read().result()
            values = kept["all"].take(layer, _LAYER_AXIS)
            if layer == store.shape[_LAYER_AXIS] - 1:
                kept.clear()
            return values

    return _Array(tuple(store.shape), read)


def _open(path: epath.Path) -> Any:
    import tensorstore

    where = str(path)
    kvstore = where + "/" if "://" in where else {"driver": "file", "path": str(path.resolve())}
    # A chunk that was not copied along would read as zeros otherwise. (T5X leaves none out: it sets no fill value.)
    spec = {"driver": "zarr", "kvstore": kvstore, "fill_missing_data_reads": False}
    return tensorstore.open(spec, open=True, read=True).result()


@contextmanager
def _naming(path: epath.Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError) as error:
        reason = str(error).partition(" [tensorstore_spec")[0]
        raise ValueError(
            f"{path} is missing or damaged; copy the whole checkpoint again ({reason})"
        ) from error


def _without_layers(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[:_LAYER_AXIS] + shape[_LAYER_AXIS + 1 :]


def _joined(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Attention kernels as matrices: some versions keep heads apart, as [in, heads, head_dim] and the reverse."""
    if len(shape) != 3:
        return shape
    if name.endswith("/out/kernel"):
        return (math.prod(shape[:2]), shape[2])
    return (shape[0], math.prod(shape[1:])) if name.endswith("/kernel") else shape


def _num_layers(shapes: Mapping[str, object], stack: str) -> int:
    layers = {int(match[1]) for name in shapes if (match := re.match(rf"{stack}/layers_(\d+)/", name))}
    return max(layers, default=-1) + 1
