"""Tensors in ``model.safetensors``, in one file or in shards with an index, read and written one at a time."""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import ml_dtypes  # noqa: F401 - teaches numpy bfloat16
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from t5x_like.files import PathLike, as_path, read_json, write_json

_ONE_FILE = "model.safetensors"
_FLOATS = ("F64", "F32", "F16", "BF16")
_INDEX = "model.safetensors.index.json"


class SafetensorsReader:
    """The tensors of a directory by name.

    Raises:
      ValueError: there are none, a file is damaged, or an index names one that is absent.
    """

    def __init__(self, directory: PathLike):
        self._directory = as_path(directory)
        self._file_of = self._find()

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every tensor by name; no tensor is read.

        Raises:
          ValueError: one is stored in a dtype that is no floating point number, as quantised weights are.
        """
        shapes: dict[str, tuple[int, ...]] = {}
        for file in dict.fromkeys(self._file_of.values()):
            with self._open(file) as opened:
                for name in (name for name in opened.keys() if self._file_of.get(name) == file):  # noqa: SIM118
                    tensor = opened.get_slice(name)
                    if tensor.get_dtype() not in _FLOATS:
                        raise ValueError(
                            f"{self._directory / file}: {name} is stored as {tensor.get_dtype()}; "
                            f"{', '.join(_FLOATS)} can be read (quantised weights can't)"
                        )
                    shapes[name] = tuple(tensor.get_shape())
        return shapes

    def read(self, name: str) -> np.ndarray:
        """The tensor as float32, whatever it is stored as."""
        with self._open(self._file_of[name]) as file:
            return np.asarray(file.get_tensor(name), np.float32)

    def _open(self, file: str) -> Any:
        try:
            return safe_open(self._directory / file, framework="numpy")
        except SafetensorError as error:
            raise ValueError(
                f"{self._directory / file} is damaged, or no safetensors file: {error}"
            ) from error

    def _find(self) -> dict[str, str]:
        index = self._directory / _INDEX
        if index.exists():
            file_of = read_json(index).get("weight_map")
            if not file_of:
                raise ValueError(f"{index} has no weight_map, which says in what file each tensor is")
            absent = sorted({file for file in file_of.values() if not (self._directory / file).exists()})
            if absent:
                raise ValueError(f"{index} names {', '.join(absent)}, which is not there")
            return file_of
        if (self._directory / _ONE_FILE).exists():
            with self._open(_ONE_FILE) as file:
                return dict.fromkeys(file.keys(), _ONE_FILE)
        pickled = [path.name for path in self._directory.iterdir() if path.suffix in (".bin", ".pt", ".pth")]
        if pickled:
            raise ValueError(
                f"{self._directory} has only pickled weights ({', '.join(sorted(pickled))}), which can run code when "
                "they are opened; save them as safetensors (model.save_pretrained(..., safe_serialization=True))"
            )
        raise ValueError(f"{self._directory} has neither {_ONE_FILE} nor {_INDEX}")


def write_safetensors(
    directory: PathLike,
    tensors: Iterable[tuple[str, np.ndarray]],
    sizes: Mapping[str, int],
    *,
    max_shard_bytes: int,
) -> None:
    """Writes ``tensors``, of ``sizes`` in bytes, one shard after the other; never more than one is in memory."""
    shards = _shards(sizes, max_shard_bytes)
    files = (
        [_ONE_FILE]
        if len(shards) == 1
        else [_shard_name(number, len(shards)) for number in range(len(shards))]
    )
    stream = iter(tensors)
    for file, shard in zip(files, shards, strict=True):
        path = as_path(directory) / file
        save_file(_take(stream, shard), path, metadata={"format": "pt"})
        os.chmod(path, 0o666 & ~_umask())  # the library writes for the owner alone
    if len(files) > 1:
        weight_map = {name: file for file, shard in zip(files, shards, strict=True) for name in shard}
        index = {"metadata": {"total_size": sum(sizes.values())}, "weight_map": weight_map}
        write_json(as_path(directory) / _INDEX, index)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


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


def _shard_name(number: int, count: int) -> str:
    return f"model-{number + 1:05d}-of-{count:05d}.safetensors"


def _take(stream: Iterator[tuple[str, Any]], names: list[str]) -> dict[str, np.ndarray]:
    taken = dict(next(stream) for _ in names)
    assert list(taken) == names, "tensors come in the order of their sizes"
    return taken
