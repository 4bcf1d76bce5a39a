"""Export of Llama-like models as llama.cpp's ``.gguf`` files, the inverse of ``gguf_files``."""

import dataclasses
import uuid
import warnings
from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np

from t5x_like.io.files import PathLike, as_path
from t5x_like.message_sentences import sentence
from t5x_like.model import parameters
from t5x_like.model.adapters.adapter_weights import merge_adapter
from t5x_like.model.layers.rotary import LinearScaling, Llama3Scaling
from t5x_like.model.zoo.architectures import architecture_for, architecture_of
from t5x_like.model.zoo.llama_like import LlamaLikeConfig
from t5x_like.model.zoo.weights import published_shapes, write_weights
from t5x_like.pretrained.gguf_fields import GgufFields, llama3_divisors
from t5x_like.pretrained.gguf_files import FREQUENCIES, gguf_name, import_gguf, neighbors
from t5x_like.pretrained.gguf_tokenizer import tokenizer_metadata
from t5x_like.text.vocabularies.special_token_ids import SpecialTokenIds
from t5x_like.text.vocabularies.tokenizer import Tokenizer

GgufType = Literal["float32", "float16", "bfloat16", "q8_0"]

_TYPES: Mapping[GgufType, str] = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "q8_0": "Q8_0"}
_BLOCK = 32  # columns that Q8_0 quantizes together
_ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}  # by model_type
# Sizes under the architecture's own prefix, and the fields of a config.json that they come from.
_SIZES = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.freq_base": "rope_theta",
}
_TABLE = "model.embed_tokens.weight"
# Fields of a config.json that a causal language model doesn't compute with. head_dim is compared on its own.
_FREE = {"architectures", "model_type", "torch_dtype", "num_labels", "problem_type", "head_dim"}
_FREE |= {"attention_dropout", "pad_token_id", "bos_token_id", "eos_token_id"}


def write_gguf(
    config: LlamaLikeConfig,
    params: parameters.Parameters,
    path: PathLike,
    *,
    special_ids: SpecialTokenIds | None = None,
    tokenizer: Tokenizer | None = None,
    dtype: GgufType = "float32",
) -> None:
    """Write a ``.gguf`` file with weights, sizes, special ids and tokenizer. An adapter is merged.

    A tokenizer of a kind that llama.cpp lacks is left out, with a warning that says why.

    Args:
      config: Configuration of the model.
      params: Weights of the model. Of weights that stay on disk, only one at a time is in memory.
      path: Path of the file, on a local disk; it must not exist.
      special_ids: Special ids that pad, begin and end texts; left out if not given.
      tokenizer: Tokenizer of the model; without one, llama.cpp reads and writes ids only.
      dtype: Type of matrices; norms and biases are float32. ``q8_0`` quantizes to 8 bits, and matrices whose width is
        no multiple of 32 are float16 then.

    Raises:
      ValueError: The package gguf is missing, the file exists, or GGUF can't express the model; says which field.
    """
    target = as_path(path)
    if target.exists():
        raise ValueError(f"{target} exists already; nothing was written. Give a new name")
    if dtype not in get_args(GgufType):
        raise ValueError(f"dtype is {dtype!r}; write one of {', '.join(get_args(GgufType))}")
    gguf = import_gguf(path, "write")
    config, params = merge_adapter(config, params)
    architecture = architecture_of(config)
    kind = _ARCHITECTURES.get(architecture.name)
    if kind is None or config.task != "causal_lm":
        raise ValueError(
            f"a {architecture.name} model for {config.task} can't be written as GGUF; causal language models of "
            f"{', '.join(_ARCHITECTURES)} can"
        )
    fields = architecture.to_hugging_face(config)
    table = architecture.hugging_face_weights(config)
    shapes = published_shapes(table, params)
    frequencies = _frequencies(config)
    metadata = {f"{kind}.{name}": value for name, value in _metadata(config, fields).items()}
    _require_expressible(config, {"general.architecture": kind, **metadata}, shapes, frequencies, str(path))
    types = {name: _type_of(gguf, shape, dtype) for name, shape in shapes.items()}
    texts = {**_special_ids(special_ids), **_tokenizer(tokenizer, shapes[_TABLE][0], target.name)}
    heads_of = (
        {"q_proj": config.num_heads, "k_proj": fields["num_key_value_heads"]} if kind == "llama" else {}
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.parent / f".{target.name}.{uuid.uuid4().hex[:8]}"
    writer = gguf.GGUFWriter(temporary, kind)
    try:
        for name, value in {**metadata, **texts}.items():
            _add_metadata(writer, name, value)
        for name, shape in shapes.items():
            row = gguf.quantize(np.zeros((1, *shape[1:]), np.float32), types[name])
            stored, size = (shape[0], *row.shape[1:]), shape[0] * row.nbytes
            writer.add_tensor_info(gguf_name(name), stored, row.dtype, size, raw_dtype=types[name])
        if frequencies is not None:
            writer.add_tensor_info(FREQUENCIES, frequencies.shape, frequencies.dtype, frequencies.nbytes)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for name, array in write_weights(table, params):
            num_heads = heads_of.get(name.split(".")[-2])
            array = array if num_heads is None else neighbors(array, num_heads)
            writer.write_tensor_data(gguf.quantize(np.ascontiguousarray(array), types[name]))
        if frequencies is not None:
            writer.write_tensor_data(frequencies)
        writer.close()
        temporary.rename(target)
    finally:
        writer.close()
        temporary.unlink(missing_ok=True)


def _add_metadata(writer: Any, name: str, value: object) -> None:
    add = {
        bool: writer.add_bool,
        int: writer.add_uint32,
        float: writer.add_float32,
        str: writer.add_string,
        list: writer.add_array,
        bytes: writer.add_array,
    }
    add[type(value)](name, value)


def _tokenizer(tokenizer: Tokenizer | None, num_rows: int, file: str) -> dict[str, object]:
    if tokenizer is None:
        return {"tokenizer.ggml.model": "no_vocab"}
    try:
        return tokenizer_metadata(tokenizer, num_rows)
    except ValueError as error:
        warnings.warn(
            f"{file} has no tokenizer: {sentence(error)} llama.cpp reads and writes ids only", stacklevel=3
        )
        return {"tokenizer.ggml.model": "no_vocab"}


def _metadata(config: LlamaLikeConfig, fields: Mapping[str, object]) -> dict[str, object]:
    sizes = {name: fields[hf_name] for name, hf_name in _SIZES.items()}
    for name in ("attention.key_length", "attention.value_length", "rope.dimension_count"):
        sizes[name] = config.resolved_head_dim
    if isinstance(config.rope_scaling, LinearScaling):
        sizes |= {"rope.scaling.type": "linear", "rope.scaling.factor": float(config.rope_scaling.factor)}
    return sizes


def _frequencies(config: LlamaLikeConfig) -> np.ndarray | None:
    """Return divisors of the rotary frequencies [head_dim / 2], as llama.cpp stores Llama 3.1's scaling."""
    scaling = config.rope_scaling
    if not isinstance(scaling, Llama3Scaling):
        return None
    return llama3_divisors(config.rope_theta, config.resolved_head_dim, **dataclasses.asdict(scaling))


def _require_expressible(
    config: LlamaLikeConfig,
    metadata: Mapping[str, object],
    shapes: Mapping[str, tuple[int, ...]],
    frequencies: np.ndarray | None,
    path: str,
) -> None:
    """Check that reading the file would give the same configuration.

    Raises:
      ValueError: A field has a value that GGUF can't express.
    """
    fields = GgufFields(metadata, path).read(
        vocab_size=config.vocab_size,
        tie_word_embeddings="lm_head.weight" not in shapes,
        biases={gguf_name(name).split(".")[-2] for name in shapes if name.endswith(".bias")},
        frequencies=frequencies,
    )
    read = architecture_for(fields, path).from_hugging_face(fields)
    own = architecture_of(config).to_hugging_face(config)
    other = architecture_of(read).to_hugging_face(read)
    lost = [
        f"{name}: {value!r}" for name, value in own.items() if name not in _FREE and value != other.get(name)
    ]
    lost += [] if read.resolved_head_dim == config.resolved_head_dim else [f"head_dim: {config.head_dim}"]
    if lost:
        raise ValueError(
            f"GGUF can't express {', '.join(lost)}; nothing was written. Export the model to Hugging Face instead"
        )


def _type_of(gguf: Any, shape: tuple[int, ...], dtype: GgufType) -> Any:
    if len(shape) == 1:
        return gguf.GGMLQuantizationType.F32
    kind = "F16" if dtype == "q8_0" and shape[-1] % _BLOCK else _TYPES[dtype]
    return gguf.GGMLQuantizationType[kind]


def _special_ids(special: SpecialTokenIds | None) -> dict[str, int]:
    if special is None:
        return {}
    ids = {"bos": special.bos, "eos": special.eos, "padding": special.pad}
    return {
        f"tokenizer.ggml.{name}_token_id": token_id for name, token_id in ids.items() if token_id is not None
    }
