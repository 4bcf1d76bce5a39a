"""Directories of PEFT (``adapter_config.json``, ``adapter_model.safetensors``), to our adapters and back.

https://github.com/huggingface/peft
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from t5x_like.io.bucket_copies import refuse_filled
from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.files import PathLike, as_path, read_json, write_json
from t5x_like.model import parameters
from t5x_like.model.adapters.adapter_weights import without_adapter
from t5x_like.model.lazy_array import put_on_devices
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.model.zoo.model_tasks import ModelTask
from t5x_like.partitioning.shard import with_shardings
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.fresh_heads import with_head
from t5x_like.pretrained.peft_contents import AdapterFields, AdapterTensors
from t5x_like.pretrained.peft_methods import METHODS
from t5x_like.pretrained.peft_weights import Arrays, PublishedModel
from t5x_like.pretrained.safetensors_files import SafetensorsReader

_CONFIG, _WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_TASKS: dict[str, ModelTask] = {
    "SEQ_CLS": "sequence_classification",
    "TOKEN_CLS": "token_classification",
    "QUESTION_ANS": "question_answering",
    "CAUSAL_LM": "causal_lm",
    "SEQ_2_SEQ_LM": "sequence_to_sequence_lm",
}
_CLASS_SCORES = re.compile(r".*\.(classifier|score)(\.out_proj)?\.weight")


@dataclass(frozen=True, kw_only=True)
class PeftAdapter:
    """An adapter that PEFT saved, in our form.

    Attributes:
      config: Model with the adapter, and with the head of its task.
      params: Weights by path: those of the adapter, and others that were trained with it, such as a classifier.
    """

    config: Any
    params: Arrays


def is_peft(directory: PathLike) -> bool:
    """Return whether a directory is an adapter that PEFT saved, without a model."""
    home = as_path(directory)
    return (home / _CONFIG).exists() and not any(
        (home / name).exists() for name in ("config.json", "model.json")
    )


def read_peft(directory: PathLike, base: CommonConfig) -> PeftAdapter:
    """Read an adapter that PEFT saved.

    Args:
      directory: Directory with ``adapter_config.json``.
      base: Configuration of the model without adapter that it was trained on.

    Raises:
      ValueError: A method or an option that we lack, or weights that don't fit the model; says which.
    """
    if not hasattr(base, "adapter"):
        raise ValueError(f"{directory} is an adapter, and a {type(base).__name__} takes none")
    path = as_path(directory) / _CONFIG
    with refusing_damage(path):
        fields = AdapterFields(read_json(path, dict), where=str(path))
        name, methods = fields.take("peft_type"), {method.name: method for method in METHODS.values()}
        if name not in methods:
            raise ValueError(f"{path}: the method {name} is not supported; {', '.join(methods)} are")
        reader = SafetensorsReader(directory, _WEIGHTS)
        contents = {tensor: reader.read(tensor) for tensor in reader.shapes()}
        tensors = AdapterTensors(_with_head_of(fields, base, contents), contents, where=str(directory))
        tensors.require_all(fields)
        if not fields.take("ensure_weight_tying", False):
            tensors.refuse_own_table(fields.take("modules_to_save", ()))
        config, params = methods[name].read(fields, tensors)
        fields.finish()
        return PeftAdapter(config=config, params=params | tensors.rest())


def open_peft(directory: PathLike, base: Checkpoint | None) -> Checkpoint:
    """Open an adapter that PEFT saved, over an open checkpoint.

    Args:
      directory: Folder with ``adapter_config.json``.
      base: Model that the adapter was trained on.

    Raises:
      ValueError: There is no checkpoint, it is another model, or its head lacks weights.
    """
    if base is None:
        raise ValueError(
            f"{directory} is an adapter of PEFT, without the model that it was trained on. Open that model and call "
            f"its load_adapter, or make a run of both: t5x-like convert --from {directory} --base PATH --to RUN"
        )
    adapter = read_peft(directory, without_adapter(base.config))
    graphdef, shapes, axes = parameters.abstract(adapter.config)
    wanted = parameters.flatten(with_shardings(axes, shapes, base.mesh))
    own = {path: put_on_devices(array, wanted[path].sharding) for path, array in adapter.params.items()}
    params = parameters.flatten(base.params) | own
    require_heads(directory, base.directory, adapter, wanted.keys() - params.keys())
    params = parameters.unflatten({path: params[path] for path in wanted})
    same_head = (adapter.config.task, adapter.config.num_labels) == (base.config.task, base.config.num_labels)
    names = base.class_names if same_head else ()
    return replace(base, config=adapter.config, graphdef=graphdef, params=params, class_names=names)


def require_heads(
    directory: PathLike, base: PathLike, adapter: PeftAdapter, missing: Collection[str]
) -> None:
    """Check that an adapter and its base have all weights of their head.

    Args:
      directory: Directory of the adapter, for the message.
      base: Directory of the base, for the message.
      adapter: The adapter.
      missing: Paths of weights that the base lacks.

    Raises:
      ValueError: The adapter lacks some of them, too; lists them.
    """
    absent = sorted(set(missing) - adapter.params.keys())
    if absent:
        raise ValueError(
            f"{directory} is for {adapter.config.task.replace('_', ' ')}, and neither it nor {base} has "
            f"{', '.join(absent)}; save the adapter with its whole head (modules_to_save)"
        )


def write_peft(
    config: CommonConfig,
    params: parameters.Parameters,
    directory: PathLike,
    *,
    trained: Collection[str] = (),
    base: str = "",
) -> None:
    """Write an adapter as PEFT would save it.

    Args:
      config: Model with the adapter.
      params: Weights of the model; those that are neither the adapter's nor in ``trained`` are not needed.
      directory: Directory to write, new or empty.
      trained: Paths of further weights that belong to the adapter, such as a classifier's.
      base: Name or directory of the model without it, for ``base_model_name_or_path``.

    Raises:
      ValueError: PEFT can't express the adapter, or ``directory`` is not empty.
    """
    target = as_path(directory)
    refuse_filled(target)
    method = METHODS.get(type(config.adapter))
    if method is None:
        names = ", ".join(kind.__name__ for kind in METHODS)
        raise ValueError(f"PEFT has no method for {type(config.adapter).__name__}; it has ones for {names}")
    model, flat = PublishedModel(without_adapter(config)), parameters.flatten(params)
    own = {path: np.asarray(leaf, np.float32) for path, leaf in flat.items() if path not in model.like}
    fields, tensors = method.write(config.adapter, model, own)
    # PEFT saves embeddings and output layers with their updates, as "base_layer".
    bases = {
        path for path in trained if f"{path.rpartition('/')[0]}/lora/a" in flat and not path.endswith("/bias")
    }
    modules, has_biases, others = model.saved_modules({path: flat[path] for path in {*trained} - bases})
    others |= model.saved_modules({path: flat[path] for path in bases})[2]
    if has_biases and method.name != "LORA":
        raise ValueError(f"PEFT saves biases with LoRA alone, not with {method.name}; keep them frozen")
    prefix = "base_model." if "prompt_embeddings" in tensors else "base_model.model."
    for name, array in others.items():
        module, _, part = name.rpartition(".")
        is_adapted = any(
            f"{prefix}{module}.{part}" in tensors for part in ("lora_A.weight", "lora_embedding_A")
        )
        inner = ".base_layer" if is_adapted else ""
        tensors[f"{prefix}{module}{inner}.{part}"] = array
    if method.name == "LORA":
        fields["bias"] = "all" if has_biases else "none"
    fields |= {
        "base_model_name_or_path": base or None,
        "inference_mode": True,
        "modules_to_save": modules or None,
        "peft_type": method.name,
        "task_type": {task: name for name, task in _TASKS.items()}.get(config.task),
    }
    target.mkdir(parents=True, exist_ok=True)
    arrays = {name: np.ascontiguousarray(array, np.float32) for name, array in sorted(tensors.items())}
    save_file(arrays, target / _WEIGHTS, metadata={"format": "pt"})
    write_json(target / _CONFIG, dict(sorted(fields.items())))


def _with_head_of(
    fields: AdapterFields, base: CommonConfig, tensors: Mapping[str, np.ndarray]
) -> CommonConfig:
    """Return the configuration with the head that the adapter was trained with."""
    task = _TASKS.get(fields.take("task_type", ""))
    if task is None or (
        task == base.task and task not in ("sequence_classification", "token_classification")
    ):
        return base
    labels = (len(tensor) for name, tensor in tensors.items() if _CLASS_SCORES.fullmatch(name))
    return with_head(base, task, next(labels, getattr(base, "num_labels", 2)), where=fields.where)
