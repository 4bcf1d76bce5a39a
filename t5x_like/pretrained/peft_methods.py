"""LoRA, (IA)3, prompts and prefixes in PEFT's form and ours."""

import fnmatch
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from t5x_like.model import parameters
from t5x_like.model.adapters import IA3, LoRA, PrefixTuning, PromptTuning
from t5x_like.model.adapters.adapter_weights import adapter_paths
from t5x_like.model.families.decoder import DecoderConfig
from t5x_like.model.families.encoder import EncoderConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.rotary import Rotary, YarnScaling, rotate
from t5x_like.pretrained.peft_weights import (
    AdapterFields,
    AdapterTensors,
    Arrays,
    PublishedModel,
    fuse_low_rank,
    fuse_outputs,
    layer_of,
    shortest_endings,
)

# Initializations that leave the base's weights as they are; others, such as PiSSA, change them.
_HARMLESS_INITS = (True, False, None, "gaussian", "orthogonal", "eva", "lora_ga")


class Method(NamedTuple):
    """A method of PEFT.

    Attributes:
      name: Its ``peft_type``.
      read: Returns our configuration with the adapter, and the adapter's weights by path.
      write: Returns fields and tensors from an adapter, the model without it, and weights by path.
    """

    name: str
    read: Callable[[AdapterFields, AdapterTensors], tuple[Any, Arrays]]
    write: Callable[[Any, PublishedModel, Mapping[str, Any]], tuple[dict[str, Any], Arrays]]


def _read_lora(fields: AdapterFields, tensors: AdapterTensors) -> tuple[Any, Arrays]:
    if (init := fields.take("init_lora_weights")) not in _HARMLESS_INITS:
        raise ValueError(
            f"{fields.where}: init_lora_weights={init!r} changed the weights of the base, which the files don't have; "
            "save the adapter with path_initial_model_for_weight_conversion, as PEFT's documentation describes"
        )
    model, a, b = tensors.model, tensors.pop("lora_A.weight"), tensors.pop("lora_B.weight")
    shapes = {name: (a[name].shape[1], len(b.get(name, ()))) for name in a}
    tensors.refuse_unlike("LoRA", {name: (shape, model.sizes(name)) for name, shape in shapes.items()})
    rank, alpha = fields.take("r"), float(fields.take("lora_alpha"))
    root = bool(fields.take("use_rslora", False))
    alphas = fields.take("alpha_pattern", {})
    fields.ignore("rank_pattern", "megatron_core", "qalora_group_size", "eva_config", "lora_ga_config")
    ranks = {name: len(matrix) for name, matrix in a.items()}
    largest = max(ranks.values())
    lora = LoRA(
        rank=largest,
        alpha=alpha * (largest / rank) ** (0.5 if root else 1),
        targets=_patterns({path for name in a for path in model.modules[name].ours}, model.like),
        dropout_rate=fields.take("lora_dropout", 0.0),
        rank_stabilized=root,
        dora=fields.take("use_dora", False),
    )
    config, params = _empty(model.config, lora)
    for name, own_rank in ranks.items():
        module = model.modules[name]
        scale = float(_of_pattern(alphas, name, alpha)) / (own_rank**0.5 if root else own_rank) / lora.scale
        parts = model.split(name, b[name] if scale == 1 else np.float32(scale) * b[name])
        for path, part in zip(module.ours, parts, strict=True):
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
        if any(f"{path}/lora/magnitude" in params for path in module.ours)
    }
    if needed != magnitudes.keys():
        raise ValueError(
            f"{tensors.where} has the norms of DoRA for some layers of a stack, without "
            f"{min(needed - magnitudes.keys())}; all layers or none can have them"
        )
    for name, magnitude in magnitudes.items():
        module = model.modules[name]
        for path, part in zip(module.ours, model.split(name, magnitude.reshape(-1, 1)), strict=True):
            layer_of(params[f"{path}/lora/magnitude"], module)[:] = part[0]


def _empty(config: Any, adapter: Any) -> tuple[Any, Arrays]:
    """Return the configuration with an adapter, and zeros for each of the adapter's weights."""
    config = replace(config, adapter=adapter)
    like = parameters.flatten(parameters.abstract(config)[1])
    return config, {path: np.zeros(like[path].shape, np.float32) for path in sorted(adapter_paths(config))}


def _of_pattern(values: Mapping[str, Any], name: str, default: Any) -> Any:
    """Return a module's value in a field such as ``alpha_pattern``, as PEFT finds it."""
    return next((value for key, value in values.items() if re.match(rf"(.*\.)?({key})$", name)), default)


def _patterns(paths: Collection[str], like: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the shortest patterns that match linear layers at ``paths``, and no others."""
    others = {path.removesuffix("/kernel") for path in like if path.endswith("/kernel")} - set(paths)
    endings = shortest_endings(paths, others, "/")
    return tuple(ending if ending in paths else f"*/{ending}" for ending in endings)


def _write_lora(lora: LoRA, model: PublishedModel, flat: Mapping[str, Any]) -> tuple[dict[str, Any], Arrays]:
    tensors, ranks = {}, {}
    adapted = {path.removesuffix("/lora/a") for path in flat if path.endswith("/lora/a")}
    model.require_modules(adapted)
    for name, module in model.modules.items():
        if not adapted.intersection(module.ours):
            continue
        parts = _without_idle_ranks(
            [
                tuple(layer_of(flat[f"{path}/lora/{part}"], module) for part in "ab")
                if path in adapted
                else None
                for path in module.ours
            ]
        )
        if not parts:
            continue  # a layer that the adapter leaves alone
        a, b = fuse_low_rank(module.row, parts, model.widths(module.row))
        start = f"base_model.model.{name}"
        tensors |= {f"{start}.lora_A.weight": a, f"{start}.lora_B.weight": b}
        ranks[name] = len(a)
        if lora.dora:
            if not adapted.issuperset(module.ours):
                raise ValueError(
                    f"{', '.join(module.ours)} are one module of the published model, {name}, and DoRA is on some of "
                    "them; PEFT can't express it, train all or none"
                )
            magnitudes = [layer_of(flat[f"{path}/lora/magnitude"], module)[None] for path in module.ours]
            tensors[f"{start}.lora_magnitude_vector"] = fuse_outputs(module.row, magnitudes)[:, 0]
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
        "fan_in_fan_out": model.has_conv1d(ranks),
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


def _read_ia3(fields: AdapterFields, tensors: AdapterTensors) -> tuple[Any, Arrays]:
    fields.ignore("feedforward_modules", "init_ia3_weights")
    model, scales = tensors.model, tensors.pop("ia3_l")
    of_inputs = {name: scale.shape[0] == 1 for name, scale in scales.items()}
    sizes = {name: model.sizes(name) for name in scales}
    fits = {
        name: size and ((1, size[0]) if of_inputs[name] else (size[1], 1)) for name, size in sizes.items()
    }
    tensors.refuse_unlike("(IA)3", {name: (scale.shape, fits[name]) for name, scale in scales.items()})
    targets = {
        kind: _patterns(
            {path for name in scales if of_inputs[name] is kind for path in model.modules[name].ours},
            model.like,
        )
        for kind in (False, True)
    }
    config, params = _empty(model.config, IA3(targets=targets[False], input_targets=targets[True]))
    params = {path: np.ones_like(array) for path, array in params.items()}
    for name, scale in scales.items():
        module = model.modules[name]
        parts = [scale] * len(module.ours) if of_inputs[name] else model.split(name, scale)
        for path, part in zip(module.ours, parts, strict=True):
            layer_of(params[f"{path}/ia3/scale"], module)[:] = part[0]
    return config, params


def _write_ia3(ia3: IA3, model: PublishedModel, flat: Mapping[str, Any]) -> tuple[dict[str, Any], Arrays]:
    scales = {
        path.removesuffix("/ia3/scale"): scale for path, scale in flat.items() if path.endswith("/ia3/scale")
    }
    model.require_modules(scales)
    of_inputs = {
        path for path in scales if any(fnmatch.fnmatchcase(path, pattern) for pattern in ia3.input_targets)
    }
    is_fresh = all((scale == 1).all() for scale in scales.values())
    tensors, chosen = {}, {False: set(), True: set()}
    for name, module in model.modules.items():
        if scales.keys().isdisjoint(module.ours):
            continue
        is_input = not of_inputs.isdisjoint(module.ours)
        parts = [
            layer_of(scales[path], module) if path in scales else np.ones(width, np.float32)
            for path, width in zip(module.ours, model.widths(module.row), strict=True)
        ]
        if not is_fresh and all((part == 1).all() for part in parts):
            continue  # a layer that the adapter leaves alone
        if is_input and not all(np.array_equal(part, parts[0]) for part in parts):
            raise ValueError(
                f"(IA)3 scales the inputs of {' and '.join(module.ours)} differently, which are one module of the "
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


def _read_prompt(fields: AdapterFields, tensors: AdapterTensors) -> tuple[Any, Arrays]:
    length, copies = fields.take("num_virtual_tokens"), fields.take("num_transformer_submodules", 1)
    fields.ignore("token_dim", "num_attention_heads", "num_layers", "prompt_tuning_init")
    fields.ignore("prompt_tuning_init_text", "tokenizer_kwargs", "tokenizer_name_or_path")
    _refuse_classifying_prompt(tensors.model.config, tensors.where)
    embeddings = tensors.pop("prompt_embeddings")[""]
    config, params = _empty(tensors.model.config, PromptTuning(length=length))
    vectors = params["embedding/prompt/vectors"]
    tensors.refuse_unlike(
        "prompt", {"prompt_embeddings": (embeddings.shape, (copies * length, vectors.shape[1]))}
    )
    # An encoder-decoder's has rows for the decoder too, which PEFT doesn't use.
    vectors[:] = embeddings[:length]
    return config, params


def _write_prompt(
    prompt: PromptTuning, model: PublishedModel, flat: Mapping[str, Any]
) -> tuple[dict[str, Any], Arrays]:
    _refuse_classifying_prompt(model.config, "PromptTuning")
    vectors = flat["embedding/prompt/vectors"]
    return {
        "num_virtual_tokens": prompt.length,
        "num_transformer_submodules": 1,
        "token_dim": vectors.shape[1],
        "prompt_tuning_init": "RANDOM",
    }, {"prompt_embeddings": vectors}


def _refuse_classifying_prompt(config: Any, where: str) -> None:
    """Refuse encoders that read a class from the first token, which with PEFT is a virtual one."""
    parts = config.parts
    if isinstance(parts, EncoderConfig) and parts.heads.pooler is not None:
        raise ValueError(
            f"{where}: with a prompt, PEFT's {type(config).__name__} classifies by the first virtual token, ours by "
            "the first real one, so neither can use the other's; LoRA, (IA)3 and prefixes can be exchanged"
        )


def _read_prefix(fields: AdapterFields, tensors: AdapterTensors) -> tuple[Any, Arrays]:
    model, length = tensors.model, fields.take("num_virtual_tokens")
    # Files have the outputs of a projection, not its weights.
    fields.ignore("token_dim", "num_attention_heads", "num_layers", "num_transformer_submodules")
    fields.ignore("encoder_hidden_size", "prefix_projection", "init_weights")
    stack = _PrefixedStack(model.config, tensors.where)
    embeddings = tensors.pop("prompt_embeddings")[""]
    fits = (length, 2 * len(stack.attention) * stack.width)
    tensors.refuse_unlike("prefix", {"prompt_embeddings": (embeddings.shape, fits)})
    prefix = PrefixTuning(length=length, hidden_dim=None, shift_positions=stack.has_learned_positions)
    config, params = _empty(model.config, prefix)
    vectors = embeddings.reshape(length, -1, 2, stack.width)
    for path, layers in stack.slots.items():
        for place, layer in enumerate(layers):
            params[f"{path}/prefix/keys"][place] = stack.rotated(vectors[:, layer, 0], layer, -length)
            params[f"{path}/prefix/values"][place] = vectors[:, layer, 1]
    return config, params


def _write_prefix(
    prefix: PrefixTuning, model: PublishedModel, flat: Mapping[str, Any]
) -> tuple[dict[str, Any], Arrays]:
    stack = _PrefixedStack(model.config, "PrefixTuning")
    if stack.has_learned_positions and not prefix.shift_positions:
        raise ValueError(
            "with PEFT the learned positions of tokens begin after the prefix, and this one was trained without that; "
            "train it with PrefixTuning(shift_positions=True)"
        )
    vectors = np.empty((prefix.length, len(stack.attention), 2, stack.width), np.float32)
    for path, layers in stack.slots.items():
        start = f"{path}/prefix/"
        own = {name.removeprefix(start): array for name, array in flat.items() if name.startswith(start)}
        for place, layer in enumerate(layers):
            keys, values = _keys_values({name: array[place] for name, array in own.items()})
            vectors[:, layer, 0] = stack.rotated(keys, layer, prefix.length)
            vectors[:, layer, 1] = values
    return {
        "num_virtual_tokens": prefix.length,
        "num_transformer_submodules": 1,
        "num_layers": len(stack.attention),
        "num_attention_heads": stack.width // stack.attention[0].head_dim,
        "token_dim": stack.width,
        "encoder_hidden_size": stack.width,
        "prefix_projection": False,
    }, {"prompt_embeddings": vectors.reshape(prefix.length, -1)}


def _keys_values(weights: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return one layer's keys and values, which a reparametrized prefix computes."""
    if "keys" in weights:
        return weights["keys"], weights["values"]
    hidden = np.tanh(weights["vectors"] @ weights["hidden/kernel"] + weights["hidden/bias"])
    keys, values = np.split(hidden @ weights["out/kernel"] + weights["out/bias"], 2, axis=-1)
    return keys, values


class _PrefixedStack:
    """The layers that PEFT gives a prefix.

    There a prefix is a cache of earlier tokens: keys as they are after rotation, and tokens' positions begin after it.
    Rotary attention knows distances alone, so the same prefix before tokens from position 0 on has its keys rotated
    back.

    Attributes:
      attention: Self-attention of each layer.
      slots: Numbers of the layers that are stacked at each path.
      width: Of keys, all heads of a layer.
      has_learned_positions: Tokens have learned positions.

    Raises:
      ValueError: PEFT computes something else than we do with a prefix.
    """

    def __init__(self, config: Any, where: str):
        parts, name = config.parts, type(config).__name__
        advice = "LoRA and (IA)3 can be exchanged"
        if not isinstance(parts, EncoderConfig | DecoderConfig):
            raise ValueError(
                f"{where}: PEFT gives {name} prefixes in the decoder's self-attention alone, some of them the same for "
                f"several layers; ours are in every attention layer. {advice}, and for encoder-decoders prompts"
            )
        stack = parts.stack
        self.attention = [block.attention for block in stack.blocks]
        relative = stack.relative_positions or any(
            not isinstance(each.positions, Rotary | None) for each in self.attention
        )
        differs = {
            "has relative positions, which PEFT gives prefixes too and we don't": relative,
            "has sliding windows, which a prefix leaves with PEFT and never with us": any(
                each.window for each in self.attention
            ),
            "shares weights between layers, whose prefixes PEFT keeps apart": stack.sharing,
        }
        for what, is_so in differs.items():
            if is_so:
                raise ValueError(f"{where}: {name} {what}, so prefixes can't be exchanged; {advice}")
        folder = "encoder" if isinstance(parts, EncoderConfig) else "decoder"
        slots = enumerate(stack.layer_pattern.slots)
        self.slots = {f"{folder}/layers/{slot}/self_attention": layers for slot, layers in slots}
        self.width = self.attention[0].kv_heads * self.attention[0].head_dim
        self.has_learned_positions = parts.embeddings.positions is not None

    def rotated(self, keys: np.ndarray, layer: int, by: int) -> np.ndarray:
        """Return keys [P, heads * head_dim] of a layer, turned by a number of positions."""
        attention: AttentionConfig = self.attention[layer]
        if not isinstance(attention.positions, Rotary):
            return keys
        # YaRN enlarges what it rotates; a prefix isn't enlarged here or there.
        scaling = attention.positions.rope_scaling
        growth = scaling.growth if isinstance(scaling, YarnScaling) else 1.0
        heads = jnp.asarray(keys).reshape(1, len(keys), -1, attention.head_dim)
        turned = rotate(heads, jnp.full((1, len(keys)), by), attention.positions)
        num = attention.positions.rotated_dim
        return np.asarray(turned.at[..., :num].divide(growth)).reshape(keys.shape)


METHODS: dict[type, Method] = {
    LoRA: Method("LORA", _read_lora, _write_lora),
    IA3: Method("IA3", _read_ia3, _write_ia3),
    PromptTuning: Method("PROMPT_TUNING", _read_prompt, _write_prompt),
    PrefixTuning: Method("PREFIX_TUNING", _read_prefix, _write_prefix),
}
