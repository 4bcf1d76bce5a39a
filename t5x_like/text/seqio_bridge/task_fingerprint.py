"""Fingerprint of a task that was registered with seqio: its source and the steps up to the cache.

Steps are Python functions. They are identified by their names, their source code, and the values of their arguments and
closures.
"""

import contextlib
import functools
import hashlib
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import seqio

from t5x_like.io.files import as_path
from t5x_like.nested_values import is_plain

_DEEPEST = 5
_LONGEST = 120


def seqio_fingerprint(task: seqio.Task, split: str) -> dict[str, str]:
    """Return the fingerprint of a task's split, as named lines.

    Args:
      task: Task of seqio.
      split: Name of the split.

    Raises:
      ValueError: There is no such split.
    """
    if split not in task.splits:
        raise ValueError(f"task {task.name!r} has no split {split!r}; there are {', '.join(task.splits)}")
    lines = {"kind": "seqio", "source": _source(task.source, split)}
    for index, step in enumerate(cached_steps(task)):
        lines[f"step {index}"] = _describe(step)
    for name, feature in task.output_features.items():
        lines[f"vocabulary of {name}"] = vocabulary_fingerprint(feature.vocabulary)
    return lines


def cached_steps(task: seqio.Task) -> list[Callable[..., object]]:
    """Return the steps whose result is cached: those before the CacheDatasetPlaceholder, or all without one."""
    steps = list(task.preprocessors)
    indices = [index for index, step in enumerate(steps) if isinstance(step, seqio.CacheDatasetPlaceholder)]
    return steps[: indices[0]] if indices else steps


def remaining_steps(task: seqio.Task) -> list[str]:
    """Return the names of the steps after the cache."""
    steps = list(task.preprocessors)[len(cached_steps(task)) + 1 :]
    return [seqio.utils.function_name(step) for step in steps]


def vocabulary_fingerprint(vocabulary: Any) -> str:
    """Return a hash that identifies a vocabulary's ids."""
    core = getattr(vocabulary, "core", None)
    if core is not None:
        return core.fingerprint
    parts = (type(vocabulary).__name__, vocabulary.vocab_size, getattr(vocabulary, "sp_model", b""))
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _source(source: seqio.DataSource, split: str) -> str:
    name = type(source).__name__
    if isinstance(source, seqio.TfdsDataSource):
        dataset = source.tfds_dataset
        return f"{name} {dataset.get_split_params(split)[0]}, {dataset._map_split(split)}"
    if isinstance(source, seqio.FileDataSource):
        files = [as_path(shard) for shard in source.list_shards(split)]
        sizes = [file.stat().length if file.exists() else None for file in files]
        rest = {key: value for key, value in vars(source).items() if "file" not in key}
        return f"{name} of {len(files)} files, {_short(repr(sizes))}, {_describe(rest)}"
    if isinstance(source, seqio.FunctionDataSource):
        return f"{name} {_describe(source._dataset_fn)}"
    return f"{name} {_describe(vars(source))}"


def _describe(value: object, depth: int = 0) -> str:
    """Describe a value by text that is the same in every process."""
    if is_plain(value):
        return _short(repr(value))
    if depth > _DEEPEST:
        return type(value).__name__
    if isinstance(value, bytes | os.PathLike):
        return f"{type(value).__name__} {_hash(repr(value))}"
    if isinstance(value, functools.partial):
        parts = [*value.args, value.keywords] if value.keywords else list(value.args)
        return f"{_describe(value.func, depth + 1)}({_inside(parts, depth)})"
    if isinstance(value, Mapping):
        pairs = sorted(value.items(), key=lambda pair: str(pair[0]))
        return "{" + ", ".join(f"{key}: {_describe(each, depth + 1)}" for key, each in pairs) + "}"
    if isinstance(value, set | frozenset):
        value = sorted(value, key=repr)
    if isinstance(value, list | tuple):
        return f"[{_inside(value, depth)}]"
    if isinstance(value, seqio.Vocabulary):
        return f"{type(value).__name__} {vocabulary_fingerprint(value)[:12]}"
    if inspect.isroutine(value):
        return _function(value, depth)
    held = {key: each for key, each in getattr(value, "__dict__", {}).items() if not key.startswith("__")}
    return f"{type(value).__qualname__}{_describe(held, depth + 1) if held else ''}"


def _inside(values: Iterable[object], depth: int) -> str:
    return ", ".join(_describe(each, depth + 1) for each in values)


def _function(function: Any, depth: int) -> str:
    inner = inspect.unwrap(function)
    name = f"{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', type(inner).__name__)}"
    with contextlib.suppress(OSError, TypeError):  # built in, or typed at a prompt: only the name is used
        name += f" {_hash(inspect.getsource(inner))}"
    cells = []
    for cell in getattr(inner, "__closure__", None) or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:  # not filled yet
            continue
    owner = getattr(inner, "__self__", None)
    if owner is not None and not inspect.ismodule(owner):
        cells.append(owner)
    return f"{name}({_inside(cells, depth)})" if cells else name


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 16]}… {_hash(text)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
