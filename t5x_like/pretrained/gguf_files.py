"""Models in llama.cpp's ``.gguf`` files: weights by Hugging Face's names, and the ``config.json`` they would have.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Quantized weights become float32.
"""

import importlib
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.files import PathLike, as_path
from t5x_like.io.gguf_header import read_metadata
from t5x_like.model.zoo.weights import WeightSource
from t5x_like.pretrained.gguf_fields import GgufFields

_TYPES = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1")

# llama.cpp's names and Hugging Face's; those of a layer without their prefixes.
_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OF_LAYER = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
FREQUENCIES = (
    "rope_freqs.weight"  # no weight, but how llama.cpp stores Llama 3.1's scaling of rotary frequencies
)


class GgufModel(NamedTuple):
    """Weights under Hugging Face's names, and the fields of a ``config.json``."""

    source: WeightSource
    fields: dict[str, Any]


def read_gguf(path: PathLike) -> GgufModel:
    """Open a ``.gguf`` file of a Llama (or Mistral, which llama.cpp calls llama too), Qwen 2 or Qwen 3.

    Raises:
      ValueError: The package gguf is missing, the file is damaged, or it holds what we can't read; says which.
    """
    gguf = import_gguf(path, "read")
    with refusing_damage(path):
        metadata = read_metadata(path)
        reader = gguf.GGUFReader(as_path(path))
        tensors = {tensor.name: tensor for tensor in reader.tensors}
        _refuse_types(path, tensors)
        frequencies = tensors.pop(FREQUENCIES, None)
        fields = GgufFields(metadata, str(path)).read(
            vocab_size=_shape(tensors["token_embd.weight"])[0] if "token_embd.weight" in tensors else 0,
            tie_word_embeddings="output.weight" not in tensors,
            biases={name.rpartition(".")[0].rpartition(".")[2] for name in tensors if name.endswith(".bias")},
            frequencies=None if frequencies is None else np.asarray(frequencies.data, np.float32),
        )
        return GgufModel(_source(path, tensors, fields, gguf.dequantize), fields)


def _source(
    path: PathLike,
    tensors: Mapping[str, Any],
    fields: Mapping[str, Any],
    dequantize: Callable[..., np.ndarray],
) -> WeightSource:
    named = {_their_name(name, path): tensor for name, tensor in tensors.items()}
    rows_of = {"q_proj": fields["num_attention_heads"], "k_proj": fields["num_key_value_heads"]}

    def read(name: str) -> np.ndarray:
        tensor = named[name]
        with refusing_damage(path):
            array = dequantize(tensor.data, tensor.tensor_type)
            num_heads = rows_of.get(name.split(".")[-2]) if fields["model_type"] == "llama" else None
            return np.asarray(array if num_heads is None else _halves(array, num_heads), np.float32)

    return WeightSource(str(path), {name: _shape(tensor) for name, tensor in named.items()}, read)


def _halves(array: np.ndarray, num_heads: int) -> np.ndarray:
    """Rows [heads * head_dim, …] of llama.cpp's Llamas, which rotate neighbors, for rotating halves as we do."""
    pairs = array.reshape(num_heads, -1, 2, *array.shape[1:])
    return pairs.swapaxes(1, 2).reshape(array.shape)


def neighbors(array: np.ndarray, num_heads: int) -> np.ndarray:
    """Return rows [heads * head_dim, …] in the order of llama.cpp's Llamas, the inverse of reading them.

    Args:
      array: Rows in our order.
      num_heads: Number of heads.
    """
    halves = array.reshape(num_heads, 2, -1, *array.shape[1:])
    return halves.swapaxes(1, 2).reshape(array.shape)


def gguf_name(name: str) -> str:
    """Return llama.cpp's name of a tensor, ``blk.0.attn_q.weight`` for ``model.layers.0.self_attn.q_proj.weight``."""
    for key, hf_name in _NAMES.items():
        if name == hf_name:
            return key
    layer, module = name.removeprefix("model.layers.").split(".", 1)
    module, kind = module.rsplit(".", 1)
    key = next(key for key, hf_name in _LAYER_NAMES.items() if hf_name == module)
    return f"blk.{layer}.{key}.{kind}"


def _their_name(name: str, path: PathLike) -> str:
    match = _OF_LAYER.fullmatch(name)
    if match and match[2] in _LAYER_NAMES:
        return f"model.layers.{match[1]}.{_LAYER_NAMES[match[2]]}.{match[3]}"
    if name in _NAMES:
        return _NAMES[name]
    raise ValueError(
        f"{path}: the tensor {name} is not known; Llama, Mistral, Qwen 2 and Qwen 3 have no such"
    )


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in reversed(tensor.shape))


def _refuse_types(path: PathLike, tensors: Mapping[str, Any]) -> None:
    unknown: dict[str, str] = {}
    for name, tensor in tensors.items():
        if tensor.tensor_type.name not in _TYPES:
            unknown.setdefault(tensor.tensor_type.name, name)
        if not math.prod(_shape(tensor)):
            raise ValueError(f"{path}: {name} has shape {_shape(tensor)}; it is damaged, fetch it again")
    if unknown:
        listed = ", ".join(f"{kind} (as {name})" for kind, name in unknown.items())
        raise ValueError(
            f"{path} has tensors of type {listed}; {', '.join(_TYPES)} can be read. "
            "Take another file of this model, or let llama-quantize --allow-requantize write one"
        )


def import_gguf(path: PathLike, action: Literal["read", "write"]) -> Any:
    """Return the package gguf.

    Args:
      path: File, for messages.
      action: Purpose, for messages.

    Raises:
      ValueError: The package is missing.
    """
    try:
        return importlib.import_module("gguf")
    except ImportError as error:
        raise ValueError(f"to {action} {path} the package gguf is needed: pip install gguf") from error
