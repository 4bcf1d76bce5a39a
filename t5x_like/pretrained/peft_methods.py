"""Methods of PEFT by our adapters, and (IA)3 in PEFT's form and ours."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from t5x_like.model.adapters import IA3, LoRA, PrefixTuning, PromptTuning
from t5x_like.pretrained.peft_contents import AdapterFields, AdapterTensors
from t5x_like.pretrained.peft_lora import read_lora, write_lora
from t5x_like.pretrained.peft_prompts import read_prefix, read_prompt, write_prefix, write_prompt
from t5x_like.pretrained.peft_weights import (
    Arrays,
    PublishedModel,
    fuse_outputs,
    layer_of,
    patterns_of,
    with_empty_adapter,
)
from t5x_like.weight_patterns import matches


class Method(NamedTuple):
    """A method of PEFT.

    Attributes:
      name: Name of the method, ``peft_type``.
      read: Function that returns our configuration with the adapter, and the adapter's weights by path.
      write: Function that returns fields and tensors from an adapter, the model without it, and weights by path.
    """

    name: str
    read: Callable[[AdapterFields, AdapterTensors], tuple[Any, Arrays]]
    write: Callable[[Any, PublishedModel, Mapping[str, Any]], tuple[dict[str, Any], Arrays]]


def _read_ia3(fields: AdapterFields, tensors: AdapterTensors) -> tuple[object, Arrays]:
    fields.ignore("feedforward_modules", "init_ia3_weights")
    model, scales = tensors.model, tensors.pop("ia3_l")
    of_inputs = {name: scale.shape[0] == 1 for name, scale in scales.items()}
    sizes = {name: model.sizes(name) for name in scales}
    fits = {
        name: size and ((1, size[0]) if of_inputs[name] else (size[1], 1)) for name, size in sizes.items()
    }
    tensors.refuse_unlike("(IA)3", {name: (scale.shape, fits[name]) for name, scale in scales.items()})
    targets = {
        kind: patterns_of(
            {path for name in scales if of_inputs[name] is kind for path in model.modules[name].paths},
            model.like,
        )
        for kind in (False, True)
    }
    config, params = with_empty_adapter(
        model.config, IA3(targets=targets[False], input_targets=targets[True])
    )
    params = {path: np.ones_like(array) for path, array in params.items()}
    for name, scale in scales.items():
        module = model.modules[name]
        parts = [scale] * len(module.paths) if of_inputs[name] else model.split(name, scale)
        for path, part in zip(module.paths, parts, strict=True):
            layer_of(params[f"{path}/ia3/scale"], module)[:] = part[0]
    return config, params


def _write_ia3(
    ia3: IA3, model: PublishedModel, flat: Mapping[str, np.ndarray]
) -> tuple[dict[str, object], Arrays]:
    scales = {
        path.removesuffix("/ia3/scale"): scale for path, scale in flat.items() if path.endswith("/ia3/scale")
    }
    model.require_modules(scales)
    of_inputs = {path for path in scales if any(matches(path, pattern) for pattern in ia3.input_targets)}
    is_fresh = all((scale == 1).all() for scale in scales.values())
    tensors, chosen = {}, {False: set(), True: set()}
    for name, module in model.modules.items():
        if scales.keys().isdisjoint(module.paths):
            continue
        is_input = not of_inputs.isdisjoint(module.paths)
        parts = [
            layer_of(scales[path], module) if path in scales else np.ones(width, np.float32)
            for path, width in zip(module.paths, model.widths(module.row), strict=True)
        ]
        if not is_fresh and all((part == 1).all() for part in parts):
            continue  # a layer that the adapter leaves alone
        if is_input and not all(np.array_equal(part, parts[0]) for part in parts):
            raise ValueError(
                f"(IA)3 scales the inputs of {' and '.join(module.paths)} differently, which are one module of the "
                f"published model, {name}; PEFT can't express it"
            )
        scale = parts[0][None] if is_input else fuse_outputs(module.row, [part[None] for part in parts])
        tensors[f"base_model.model.{name}.ia3_l"] = scale
        chosen[is_input].add(name)
    return {
        "fan_in_fan_out": model.has_conv1d(chosen[False] | chosen[True]),
        "target_modules": model.targets(chosen[False] | chosen[True]),
        "feedforward_modules": model.targets(chosen[True]),
    }, tensors


METHODS: dict[type, Method] = {
    LoRA: Method("LORA", read_lora, write_lora),
    IA3: Method("IA3", _read_ia3, _write_ia3),
    PromptTuning: Method("PROMPT_TUNING", read_prompt, write_prompt),
    PrefixTuning: Method("PREFIX_TUNING", read_prefix, write_prefix),
}
