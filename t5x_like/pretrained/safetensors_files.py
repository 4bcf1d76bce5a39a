"""Tensors in ``model.safetensors``, in one file or in shards with an index, read and written one at a time."""

import json
import math
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Literal

import ml_dtypes
import numpy as np
from etils import epath
from safetensors import SafetensorError, safe_open

from t5x_like.io.bucket_copies import LocalFiles
from t5x_like.io.files import PathLike, as_path, lfs_advice, read_json, write_json
from t5x_like.value_types import fits

_ONE_FILE = "model.safetensors"
_FLOATS = ("F64", "F32", "F16", "BF16")
_INDEX = "model.safetensors.index.json"
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".bin.index.json")
_ALIGNMENT = 8  # of the data, for those who map files into memory

StoredDtype = Literal["float32", "bfloat16", "float16"]
_STORED = {
    "float32": ("F32", np.dtype(np.float32)),
    "bfloat16": ("BF16", np.dtype(ml_dtypes.bfloat16)),
    "float16": ("F16", np.dtype(np.float16)),
}


class SafetensorsReader:
    """The tensors of a directory by name: of one file if it is there, else those that an index names.

    That is the order of transformers, and matters where a directory has both.

    Args:
      directory: Directory of the tensors.
      file: Name of its safetensors file.

    Raises:
      ValueError: There are no tensors, a file is damaged, or the index and its files say different things.
    """

    def __init__(self, directory: PathLike, file: str = _ONE_FILE):
        self._directory = as_path(directory)
        self._one_file = file
        self._local = LocalFiles(self._directory)
        self._file_of = self._find()

    @staticmethod
    def is_in(directory: PathLike) -> bool:
        """Return whether a directory has safetensors files of a model."""
        return any((as_path(directory) / name).is_file() for name in (_ONE_FILE, _INDEX))

    def names(self) -> tuple[str, ...]:
        """Return the name of every tensor."""
        return tuple(self._file_of)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every tensor by name, without reading tensors."""
        shapes: dict[str, tuple[int, ...]] = {}
        for file in dict.fromkeys(self._file_of.values()):
            with self._open(file) as opened:
                wanted = [name for name, holder in self._file_of.items() if holder == file]
                absent = sorted({*wanted} - {*opened.keys()})
                if absent:
                    raise ValueError(
                        f"{self._directory / _INDEX} says that {file} holds {_listed(absent)}, but it doesn't; "
                        "fetch the files again, all of one revision"
                    )
                shapes |= {name: tuple(opened.get_slice(name).get_shape()) for name in wanted}
        return shapes

    def read(self, name: str) -> np.ndarray:
        """Read a tensor of any stored floating-point type as float32.

        Raises:
          ValueError: The tensor is stored as something else, as quantized weights are.
        """
        file = self._file_of[name]
        with self._open(file) as opened:
            dtype = opened.get_slice(name).get_dtype()
            if dtype not in _FLOATS:
                raise ValueError(
                    f"{self._directory / file}: {name} is stored as {dtype}; {', '.join(_FLOATS)} can be read "
                    "(quantized weights can't: save the model in float32 or bfloat16)"
                )
            return np.asarray(opened.get_tensor(name), np.float32)

    @contextmanager
    def _open(self, file: str) -> Iterator[Any]:
        path = self._directory / file
        try:
            with safe_open(self._local.path(file), framework="numpy") as opened:
                yield opened
        except SafetensorError as error:
            raise ValueError(f"{path} {_advice(path)} ({error})") from error

    def _find(self) -> dict[str, str]:
        if (self._directory / self._one_file).is_file():
            with self._open(self._one_file) as file:
                return dict.fromkeys(file.keys(), self._one_file)
        index = self._directory / _INDEX
        if index.exists():
            return self._read_index(index)
        pickled = sorted(path.name for path in self._directory.iterdir() if path.name.endswith(_PICKLED))
        if pickled:
            raise ValueError(
                f"{self._directory} has only pickled weights ({_listed(pickled)}), which can run code when they are "
                "opened, and were not opened. Where you trust their author, have transformers rewrite them: "
                f'Name.from_pretrained("{self._directory}").save_pretrained("…", safe_serialization=True), '
                "where Name is the class that config.json calls its architecture"
            )
        raise ValueError(f"{self._directory} has neither {self._one_file} nor {_INDEX}")

    def _read_index(self, index: epath.Path) -> dict[str, str]:
        content = read_json(index, dict)
        file_of = content.get("weight_map")
        if not file_of or not fits(file_of, dict[str, Any]):
            raise ValueError(f"{index} has no weight_map, which says in what file each tensor is")
        files = dict.fromkeys(str(file) for file in file_of.values())
        strange = [repr(file) for file in files if not _is_plain_name(file)]
        if strange:
            raise ValueError(
                f"{index} names {_listed(strange)}; only .safetensors files next to the index are read"
            )
        absent = [file for file in files if not (self._directory / file).is_file()]
        if absent:
            raise ValueError(f"{index} names {_listed(absent)}, which is not there; fetch all of the files")
        return file_of


def _is_plain_name(name: str) -> bool:
    """Return whether a file name stays in its directory on every operating system."""
    alone = all(kind(name).name == name for kind in (PurePosixPath, PureWindowsPath))
    return alone and name.endswith(".safetensors") and "\0" not in name


def _advice(path: epath.Path) -> str:
    with path.open("rb") as file:
        if advice := lfs_advice(file.read(64)):
            return advice
    return f"is damaged or cut short, or no safetensors file: it has {path.stat().length:,} bytes; fetch it again"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def write_safetensors(
    directory: PathLike,
    tensors: Iterable[tuple[str, np.ndarray]],
    shapes: Mapping[str, tuple[int, ...]],
    *,
    dtype: StoredDtype = "float32",
    max_shard_bytes: int,
) -> None:
    """Write ``tensors``, which come in the order of their ``shapes``; never more than one is in memory.

    The format: https://github.com/huggingface/safetensors#format (the library writes whole files only).

    Args:
      directory: Directory to write to.
      tensors: Names and arrays, in the order of ``shapes``.
      shapes: Shapes of the tensors by name.
      dtype: Type to store them in.
      max_shard_bytes: Limit for the size of each file.
    """
    code, stored = _STORED[dtype]
    sizes = {name: stored.itemsize * math.prod(shape) for name, shape in shapes.items()}
    shards = _shards(sizes, max_shard_bytes)
    files = (
        [_ONE_FILE]
        if len(shards) == 1
        else [_shard_name(shard_index, len(shards)) for shard_index in range(len(shards))]
    )
    stream = iter(tensors)
    for file, shard in zip(files, shards, strict=True):
        with (as_path(directory) / file).open("wb") as opened:
            opened.write(_header({name: shapes[name] for name in shard}, sizes, code))
            for name in shard:
                next_name, array = next(stream)
                assert (next_name, array.shape) == (name, shapes[name]), "tensors come as their shapes say"
                opened.write(np.ascontiguousarray(array, stored).view(np.uint8).data)
    if len(files) > 1:
        weight_map = {name: file for file, shard in zip(files, shards, strict=True) for name in shard}
        index = {"metadata": {"total_size": sum(sizes.values())}, "weight_map": weight_map}
        write_json(as_path(directory) / _INDEX, index)


def _header(shapes: Mapping[str, tuple[int, ...]], sizes: Mapping[str, int], dtype: str) -> bytes:
    """Eight bytes that say how long the rest is, and JSON that says where each tensor begins and ends."""
    described: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + sizes[name]
        described[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(described, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return struct.pack("<Q", len(text)) + text


def _shards(sizes: Mapping[str, int], max_shard_bytes: int) -> list[list[str]]:
    shards: list[list[str]] = [[]]
    used = 0
    for name, size in sizes.items():
        if shards[-1] and used + size > max_shard_bytes:
            shards.append([])
            used = 0
        shards[-1].append(name)
        used += size
    return shards


def _shard_name(shard_index: int, count: int) -> str:
    return f"model-{shard_index + 1:05d}-of-{count:05d}.safetensors"
