"""LoRA in PEFT's form and ours, with rsLoRA, DoRA, and ranks of their own for some modules."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from t5x_like.model.adapters import LoRA
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.pretrained.peft_contents import AdapterFields, AdapterTensors
from t5x_like.pretrained.peft_weights import (
    Arrays,
    PublishedModel,
    fuse_low_rank,
    fuse_outputs,
    layer_of,
    patterns_of,
    shortest_endings,
    with_empty_adapter,
)

# Initializations that leave the base's weights as they are; others, such as PiSSA, change them.
_HARMLESS_INITS = (True, False, None, "gaussian", "orthogonal", "eva", "lora_ga")


def read_lora(fields: AdapterFields, tensors: AdapterTensors) -> tuple[CommonConfig, Arrays]:
    """Return our configuration with the adapter, and its weights by path.

    Args:
      fields: Adapter's configuration.
      tensors: Adapter's arrays and the model to adapt.

    Raises:
      ValueError: An option that we lack, or weights that don't fit the model.
    """
    if (init := fields.take("init_lora_weights")) not in _HARMLESS_INITS:
        raise ValueError(
            f"{fields.where}: init_lora_weights={init!r} changed the weights of the base, which the files don't have; "
            "save the adapter with path_initial_model_for_weight_conversion, as PEFT's documentation describes"
        )
    model, a, b = tensors.model, tensors.pop("lora_A.weight"), tensors.pop("lora_B.weight")
    rows, columns = tensors.pop("lora_embedding_A"), tensors.pop("lora_embedding_B")
    shapes = {name: (a[name].shape[1], len(b.get(name, ()))) for name in a}
    fits = {name: (shape, model.sizes(name)) for name, shape in shapes.items()}
    of_rows = {name: (rows[name].shape[1], len(columns.get(name, ()))) for name in rows}
    fits |= {name: (shape, model.table_sizes(name, shape[0])) for name, shape in of_rows.items()}
    tensors.refuse_unlike("LoRA", fits)
    rank, alpha = fields.take("r"), float(fields.take("lora_alpha"))
    root = bool(fields.take("use_rslora", False))
    alphas = fields.take("alpha_pattern", {})
    fields.ignore("rank_pattern", "megatron_core", "qalora_group_size", "eva_config", "lora_ga_config")
    ranks = {name: len(matrix) for name, matrix in (a | rows).items()}
    largest = max(ranks.values())
    lora = LoRA(
        rank=largest,
        alpha=alpha * (largest / rank) ** (0.5 if root else 1),
        targets=patterns_of(
            {path for name in a for path in model.modules[name].paths}
            | {model.embeddings[name] for name in rows},
            model.like,
        ),
        dropout_rate=fields.take("lora_dropout", 0.0),
        rank_stabilized=root,
        dora=fields.take("use_dora", False),
    )
    config, params = with_empty_adapter(model.config, lora)
    for name, own_rank in ranks.items():
        scale = float(_of_pattern(alphas, name, alpha)) / (own_rank**0.5 if root else own_rank) / lora.scale
        if name in rows:
            path, table = model.embeddings[name], rows[name].T
            params[f"{path}/lora/a"][: len(table), :own_rank] = table
            params[f"{path}/lora/b"][:own_rank] = np.float32(scale) * columns[name].T
            continue
        module = model.modules[name]
        parts = model.split(name, b[name] if scale == 1 else np.float32(scale) * b[name])
        for path, part in zip(module.paths, parts, strict=True):
            layer_of(params[f"{path}/lora/a"], module)[:, :own_rank] = a[name].T
            layer_of(params[f"{path}/lora/b"], module)[:own_rank] = part
    if lora.dora:
        _read_magnitudes(tensors, params)
    return config, params


def _read_magnitudes(tensors: AdapterTensors, params: Arrays) -> None:
    """Read the norms of DoRA into ``params``."""
    model = tensors.model
    # Versions before 0.12 saved them as a module's weight.
    magnitudes = tensors.pop("lora_magnitude_vector") | tensors.pop("lora_magnitude_vector.weight")
    needed = {
        name
        for name, module in model.modules.items()
        if any(f"{path}/lora/magnitude" in params for path in module.paths)
    }
    if needed != magnitudes.keys():
        raise ValueError(
            f"{tensors.where} has the norms of DoRA for some layers of a stack, without "
            f"{min(needed - magnitudes.keys())}; all layers or none can have them"
        )
    for name, magnitude in magnitudes.items():
        module = model.modules[name]
        for path, part in zip(module.paths, model.split(name, magnitude.reshape(-1, 1)), strict=True):
            layer_of(params[f"{path}/lora/magnitude"], module)[:] = part[0]


def _of_pattern(values: Mapping[str, Any], name: str, default: Any) -> Any:
    """Return a module's value in a field such as ``alpha_pattern``, as PEFT finds it."""
    return next((value for key, value in values.items() if re.match(rf"(.*\.)?({key})$", name)), default)


def write_lora(
    lora: LoRA, model: PublishedModel, flat: Mapping[str, np.ndarray]
) -> tuple[dict[str, object], Arrays]:
    """Return fields and tensors of an adapter.

    Args:
      lora: The adapter.
      model: Model without the adapter.
      flat: Weights by path.

    Raises:
      ValueError: PEFT can't express it.
    """
    tensors, ranks = {}, {}
    adapted = {path.removesuffix("/lora/a") for path in flat if path.endswith("/lora/a")}
    tables = {name: path for name, path in model.embeddings.items() if path in adapted}
    model.require_modules(adapted - {*tables.values()})
    for name, module in model.modules.items():
        if not adapted.intersection(module.paths):
            continue
        parts = _without_idle_ranks(
            [
                tuple(layer_of(flat[f"{path}/lora/{part}"], module) for part in "ab")
                if path in adapted
                else None
                for path in module.paths
            ]
        )
        if not parts:
            continue  # a layer that the adapter leaves alone
        a, b = fuse_low_rank(module.row, parts, model.widths(module.row))
        start = f"base_model.model.{name}"
        tensors |= {f"{start}.lora_A.weight": a, f"{start}.lora_B.weight": b}
        ranks[name] = len(a)
        if lora.dora:
            if not adapted.issuperset(module.paths):
                raise ValueError(
                    f"{', '.join(module.paths)} are one module of the published model, {name}, and DoRA is on some of "
                    "them; PEFT can't express it, train all or none"
                )
            magnitudes = [layer_of(flat[f"{path}/lora/magnitude"], module)[None] for path in module.paths]
            tensors[f"{start}.lora_magnitude_vector"] = fuse_outputs(module.row, magnitudes)[:, 0]
    for name, path in tables.items():
        (part,) = _without_idle_ranks([(flat[f"{path}/lora/a"], flat[f"{path}/lora/b"])]) or [None]
        if part is None:
            continue
        start = f"base_model.model.{name}"
        num_rows = model.config.vocab_size if path.endswith("tokens") else len(part[0])
        tensors |= {f"{start}.lora_embedding_A": part[0][:num_rows].T, f"{start}.lora_embedding_B": part[1].T}
        ranks[name] = part[0].shape[1]
    rank = Counter(ranks.values()).most_common(1)[0][0]
    alphas = {each: lora.scale * each ** (0.5 if lora.rank_stabilized else 1) for each in {*ranks.values()}}
    patterns = {
        ending: each
        for each in {*ranks.values()} - {rank}
        for ending in shortest_endings(
            [name for name in ranks if ranks[name] == each],
            [name for name in ranks if ranks[name] != each],
            ".",
        )
    }
    return {
        "r": rank,
        "lora_alpha": alphas[rank],
        "lora_dropout": lora.dropout_rate,
        "use_dora": lora.dora,
        "use_rslora": lora.rank_stabilized,
        "fan_in_fan_out": model.has_conv1d(ranks.keys() - tables.keys()),
        "target_modules": model.targets(ranks),
        "rank_pattern": patterns,
        "alpha_pattern": {ending: alphas[each] for ending, each in patterns.items()},
    }, tensors


def _without_idle_ranks(
    parts: Sequence[tuple[np.ndarray, ...] | None],
) -> list[tuple[np.ndarray, ...] | None]:
    """Return ``a`` and ``b`` of a module's parts without last ranks that are all zeros; none if nothing is left."""
    used = [a.any(axis=0) | b.any(axis=1) for a, b in filter(None, parts)]
    rank = max(0, *(np.flatnonzero(each).max(initial=-1) + 1 for each in used))
    return [part and (part[0][:, :rank], part[1][:rank]) for part in parts] if rank else []
