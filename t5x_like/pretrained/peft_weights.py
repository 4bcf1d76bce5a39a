"""Correspondence of adapter weights in PEFT's files and ours, derived from an architecture's weight table.

PEFT names adapter weights after PyTorch's modules, one for each layer; ours are stacked. Where one module of theirs
fuses several of ours, as GPT-2's ``c_attn`` does, a LoRA ``B A`` on it is one on each of ours: all have the same ``A``,
and ``B`` is split as the module's outputs are.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from t5x_like.model import parameters
from t5x_like.model.adapters import AdapterConfig
from t5x_like.model.adapters.adapter_weights import adapter_paths
from t5x_like.model.zoo.architectures import architecture_of
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.model.zoo.model_tasks import HEADLESS_TASKS
from t5x_like.model.zoo.weights import (
    Weight,
    published_names,
    published_shapes,
    read_weights,
    source_of,
    write_weights,
)
from t5x_like.pretrained.peft_targets import TargetSelection

_KERNEL, _TABLE, _WEIGHT = "/kernel", "/table", ".weight"

Arrays = dict[str, np.ndarray]


class LinearModule(NamedTuple):
    """A linear layer, or Conv1D, of the published model.

    Attributes:
      row: Row of the weight table with its kernel.
      layer: Index of the layer along our leading axis; ``None`` where layers are not stacked.
    """

    row: Weight
    layer: int | None

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of our linear layers, several where theirs fuses them."""
        return tuple(path.removesuffix(_KERNEL) for path in self.row.paths)


class PublishedModel:
    """A model of ours under the names that it has in PyTorch.

    Attributes:
      config: Configuration of the model, without an adapter.
      like: Shapes of our weights by path.
      modules: Linear layers by name.
      tied: Names of output layers that score with the table of the embeddings.
      embeddings: Paths of our embedding tables, without ``/table``, by the name of their module. A table that both
        stacks read is left out: in PyTorch these are two modules, and PEFT changes one of them.
    """

    def __init__(self, config: CommonConfig):
        architecture = architecture_of(config)
        self.config = config
        self.like: dict[str, Any] = parameters.flatten(parameters.abstract(config)[1])
        self._table = architecture.hugging_face_weights(config)
        if config.task in HEADLESS_TASKS:
            self._table = tuple(
                row._replace(hf_name=row.hf_name.removeprefix(architecture.prefix)) for row in self._table
            )
        self._shapes = published_shapes(self._table, parameters.unflatten(self.like))
        self._prefixes = tuple(filter(None, (architecture.prefix, *architecture.other_prefixes)))
        self.modules = {
            name.removesuffix(_WEIGHT): LinearModule(row, None if row.layers is None else layer)
            for row in self._table
            if row.hf_name.endswith(_WEIGHT) and all(path.endswith(_KERNEL) for path in row.paths)
            if row.num_experts is None  # PyTorch has one module of all experts, which PEFT leaves alone
            for layer, name in enumerate(published_names(row))
            if len(self._shapes[name]) == 2  # kernels of convolutions have more dimensions
        }
        self.embeddings = {
            row.hf_name.removesuffix(_WEIGHT): row.paths[0].removesuffix(_TABLE)
            for row in self._table
            if row.hf_name.endswith(_WEIGHT) and row.layers is None and _is_embedding(row)
        }
        self.tied = {
            copy.removesuffix(_WEIGHT)
            for row in self._table
            for copy in row.copies
            if config.task.endswith("lm") and row.paths[0].endswith(f"tokens{_TABLE}")
            if not copy.endswith("embed_tokens.weight")
        }
        names = [*self._shapes, *(copy for row in self._table for copy in row.copies)]
        self._names = {name.rpartition(".")[0] for name in names}

    def spelled(self, module: str) -> str:
        """Return the name here of a module, which may have a prefix more or less in files of other heads."""
        return next((name for name in self._spellings(module) if name in self._names), module)

    def _spellings(self, module: str) -> tuple[str, ...]:
        bare = next((module.removeprefix(each) for each in self._prefixes if module.startswith(each)), module)
        return (module, bare, *(prefix + bare for prefix in self._prefixes))

    def is_in(self, selection: TargetSelection, module: str) -> bool:
        """Return whether PEFT selects a module under one of its spellings.

        Args:
          selection: Modules that PEFT selects.
          module: Published name of the module.
        """
        return any(name in selection for name in self._spellings(module))

    def targeted(self, selection: TargetSelection) -> list[str]:
        """Return the linear layers and embeddings, but for heads, that PEFT selects."""
        bodies = [name for name, module in self.modules.items() if not module.paths[0].startswith("heads/")]
        tables = () if selection.is_all_linear else self.embeddings
        return [name for name in (*bodies, *tables) if self.is_in(selection, name)]

    def weights_in(self, modules: Collection[str]) -> list[str]:
        """Return the names of all weights in modules, of which the last part of the names is given."""
        return [name for name in self._shapes if any(f".{module}." in f".{name}" for module in modules)]

    @property
    def biases(self) -> list[str]:
        """Names of all biases."""
        return [name for name in self._shapes if name.endswith(".bias")]

    def widths(self, row: Weight) -> list[int]:
        """Return the number of outputs of each of our layers that a row is about."""
        return [self.like[path].shape[-1] for path in row.paths]

    def sizes(self, module: str) -> tuple[int, ...] | None:
        """Return the number of inputs and outputs of a linear layer; ``None`` for what is none."""
        if module not in self.modules:
            return None
        shape, row = self._shapes[module + _WEIGHT], self.modules[module].row
        return shape[::-1] if _is_transposed(row, self.widths(row)) else shape

    def table_sizes(self, module: str, num_rows: int) -> tuple[int, ...] | None:
        """Return the rows and width of an embedding table; ``None`` for what is none.

        Args:
          module: Name of the module.
          num_rows: Rows of the adapter, which may leave out those that only pad the table.
        """
        if module not in self.embeddings:
            return None
        shape = self._shapes[module + _WEIGHT]
        padded = self.like[self.embeddings[module] + _TABLE].shape
        return (num_rows, shape[1]) if shape[0] <= num_rows <= padded[0] else shape

    def split(self, module: str, matrix: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the parts [R, outputs] of a matrix that belong to our layers in a module.

        Args:
          module: Published name of the module.
          matrix: Array [outputs, R].
        """
        row = self.modules[module].row
        return split_outputs(row, matrix, self.widths(row))

    def has_conv1d(self, modules: Iterable[str]) -> bool:
        """Return whether modules are Conv1D, which PEFT calls ``fan_in_fan_out``."""
        rows = [self.modules[name].row for name in modules]
        return not all(_is_transposed(row, self.widths(row)) for row in rows)

    def targets(self, modules: Collection[str]) -> list[str]:
        """Return the shortest ends of names that modules have, and no others of the model."""
        return shortest_endings(modules, self._names - set(modules), ".")

    def require_modules(self, paths: Collection[str]) -> None:
        """Check that linear layers of ours are modules of theirs.

        Raises:
          ValueError: Some are not; names one.
        """
        known = {path for module in self.modules.values() for path in module.paths}
        unknown = sorted(set(paths) - known)
        if unknown:
            raise ValueError(
                f"{unknown[0]} is no linear layer of the published {type(self.config).__name__}, so PEFT has no "
                "adapter for it; train one on other layers"
            )

    def read(self, arrays: Mapping[str, np.ndarray], *, where: str) -> dict[str, np.ndarray]:
        """Return published weights by our paths.

        Args:
          arrays: Some of the model's weights, of all layers of a stack.
          where: Directory of the weights, for messages.

        Raises:
          ValueError: They don't fit the model, or are of some layers only.
        """
        rows = tuple(row for row in self._table if not arrays.keys().isdisjoint(published_names(row)))
        missing = [name for row in rows for name in published_names(row) if name not in arrays]
        if missing:
            raise ValueError(
                f"{where} has weights of the model itself for some layers of a stack, without {missing[0]}; those of "
                "all layers or none can be read"
            )
        like = parameters.unflatten({path: self.like[path] for row in rows for path in row.paths})
        source = source_of(arrays, where)
        params = read_weights(rows, like, source, place=lambda _, array: np.asarray(array))
        return parameters.flatten(params)

    def saved_modules(self, params: Mapping[str, object]) -> tuple[list[str], bool, Arrays]:
        """Return what PEFT saves with an adapter: the ends of names of whole modules, and whether all biases.

        Args:
          params: Weights by our paths.

        Returns:
          Ends of names, whether PEFT saves all biases, and the weights under published names.

        Raises:
          ValueError: The weights are other parts of modules.
        """
        rows = tuple(row for row in self._table if params.keys() >= {*row.paths})
        names = {name for row in rows for name in published_names(row)}
        modules = {name.rpartition(".")[0] for name in names}
        whole = modules - {name.rpartition(".")[0] for name in self._shapes.keys() - names}
        parts = {name for name in names if name.rpartition(".")[0] not in whole}
        unknown = params.keys() - {path for row in rows for path in row.paths}
        has_biases = bool(parts) and names >= {name for name in self._shapes if name.endswith(".bias")}
        odd = sorted(unknown) or sorted(name for name in parts if not (has_biases and name.endswith(".bias")))
        if odd:
            raise ValueError(
                f"{odd[0]} was trained with the adapter, and other weights of its module were not; PEFT saves whole "
                "modules, or all biases with LoRA"
            )
        weights = write_weights(rows, parameters.unflatten({**params}))
        return self.targets(whole) if whole else [], has_biases, dict(weights)


def _is_embedding(row: Weight) -> bool:
    folder, _, name = row.paths[0].rpartition("/")
    is_shared = any(copy.endswith("embed_tokens.weight") for copy in row.copies)
    return f"/{name}" == _TABLE and "embedding" in folder.split("/") and not is_shared


def layer_of(array: np.ndarray, module: LinearModule) -> np.ndarray:
    """Return the view of one layer's part in a weight of ours.

    Args:
      array: Weight of ours, which may be stacked.
      module: Module with the index of its layer.
    """
    return array if module.layer is None else array[module.layer]


def split_outputs(row: Weight, matrix: np.ndarray, widths: Sequence[int]) -> tuple[np.ndarray, ...]:
    """Return the parts of a matrix over a module's outputs that belong to each of our layers.

    Args:
      row: Row of the module's kernel.
      matrix: [outputs, R], for instance ``B`` of a LoRA.
      widths: Outputs of each of our layers.

    Returns:
      Matrices [R, outputs].
    """
    return row.transform.parts(matrix if _is_transposed(row, widths) else matrix.T)


def fuse_outputs(row: Weight, parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the matrix [outputs, R] of a module: undoes ``split_outputs``.

    Args:
      row: Row of the weight table.
      parts: Matrix [R, outputs] of each of our layers.
    """
    fused = row.transform.write(*parts)
    return fused if _is_transposed(row, [part.shape[1] for part in parts]) else fused.T


def _is_transposed(row: Weight, widths: Sequence[int]) -> bool:
    """Return whether their kernels are [outputs, inputs], as of PyTorch's Linear; Conv1D's are [inputs, outputs]."""
    num_inputs = sum(widths) + 1
    published = row.transform.write(
        *(np.broadcast_to(np.float32(0), (num_inputs, width)) for width in widths)
    )
    return published.shape[1] == num_inputs


def fuse_low_rank(
    row: Weight, parts: Sequence[tuple[np.ndarray, ...] | None], widths: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return ``A`` [R, inputs] and ``B`` [outputs, R] of a module from the low-rank changes of our layers.

    Layers that share ``a`` give the rank that they have. Otherwise the rank is the sum of theirs.

    Args:
      row: Row of the module's kernel.
      parts: ``a`` [inputs, R] and ``b`` [R, outputs] of each of our layers; ``None`` for one without.
      widths: Outputs of each of our layers.
    """
    factors = [part[0] for part in parts if part is not None]
    shared = all(np.array_equal(a, factors[0]) for a in factors)
    rank = factors[0].shape[1] if shared else sum(a.shape[1] for a in factors)
    columns, start = [], 0
    for part, width in zip(parts, widths, strict=True):
        column = np.zeros((rank, width), np.float32)
        if part is not None:
            column[start : start + len(part[1])] = part[1]
            start += 0 if shared else len(part[1])
        columns.append(column)
    a = factors[0] if shared else np.concatenate(factors, axis=1)
    return a.T, fuse_outputs(row, columns)


def shortest_endings(chosen: Collection[str], others: Collection[str], separator: str) -> list[str]:
    """Return the shortest ends of names that every chosen name has one of, and no other name.

    Args:
      chosen: Names to describe.
      others: All other names.
      separator: Separator between the parts of a name; names are cut there.
    """

    def endings(name: str) -> list[str]:
        parts = name.split(separator)
        return [separator.join(parts[start:]) for start in reversed(range(len(parts)))]

    other_endings = {ending for name in others for ending in endings(name)}
    return sorted({next((end for end in endings(name) if end not in other_endings), name) for name in chosen})


def with_empty_adapter(config: CommonConfig, adapter: AdapterConfig) -> tuple[CommonConfig, Arrays]:
    """Return the configuration with an adapter, and zeros for each of the adapter's weights.

    Args:
      config: Configuration without adapter.
      adapter: The adapter.
    """
    config = replace(config, adapter=adapter)
    like = parameters.flatten(parameters.abstract(config)[1])
    return config, {path: np.zeros(like[path].shape, np.float32) for path in sorted(adapter_paths(config))}


def patterns_of(paths: Collection[str], like: Mapping[str, object]) -> tuple[str, ...]:
    """Return the shortest patterns that match some linear layers and embeddings, and no others.

    Args:
      paths: Paths of the modules to match.
      like: Weights of the model by path.
    """
    others = {path.rpartition("/")[0] for path in like if path.endswith((_KERNEL, _TABLE))} - set(paths)
    endings = shortest_endings(paths, others, "/")
    return tuple(ending if ending in paths else f"*/{ending}" for ending in endings)
