"""Export of a forward pass as StableHLO (https://openxla.org/stablehlo), which needs no t5x_like to run."""

from collections.abc import Mapping, Sequence

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from t5x_like.io.bucket_copies import refuse_filled
from t5x_like.io.files import PathLike, as_path, write_bytes, write_json
from t5x_like.model import parameters
from t5x_like.model.automatic_choices import any_platform
from t5x_like.model.model_traits import traits_of
from t5x_like.model.parameters import ModelConfig
from t5x_like.pretrained.safetensors_files import write_safetensors
from t5x_like.pretrained.transformers_api.call import Context
from t5x_like.pretrained.transformers_api.encoder_call import count_positions
from t5x_like.pretrained.transformers_api.open_model import CALLS
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained

# What a call's reader returns for these arguments, without work of its own between the two.
_INPUTS = {
    "input_ids": "input_ids",
    "segment_ids": "attention_mask",
    "token_type_ids": "token_type_ids",
    "decoder_input_ids": "decoder_input_ids",
}


def export_stablehlo(
    pretrained: Pretrained,
    directory: PathLike,
    *,
    length: int,
    decoder_length: int | None = None,
    batch_size: int | None = None,
    platforms: Sequence[str] = ("cpu", "cuda", "tpu"),
) -> None:
    """Write the forward pass of a model as a function of its weights and inputs.

    ``forward.jax`` is the function for ``jax.export.deserialize``, ``forward.mlirbc`` the same as StableHLO's portable
    bytecode. ``model.safetensors`` has the weights by their paths, ``signature.json`` the names and shapes.

    >>> export_stablehlo(t5x_like.from_pretrained("path/to/bert"), "path/to/export", length=128)
    >>> forward = jax.export.deserialize(bytearray(Path("path/to/export/forward.jax").read_bytes()))
    >>> forward.call(safetensors.numpy.load_file("path/to/export/model.safetensors"), inputs)["logits"]

    Args:
      pretrained: Model to export: an encoder, a decoder or an encoder-decoder.
      directory: Directory to write, new or empty.
      length: Number of tokens of each row of ``input_ids``.
      decoder_length: Number of tokens of each row of ``decoder_input_ids``; ``length`` if not given.
      batch_size: Number of rows; any number if not given.
      platforms: Platforms where the function can run.

    Raises:
      ValueError: The directory is not empty, the model's positions end before ``length``, or its head reads arguments
        that are prepared outside of the model.
    """
    target = as_path(directory)
    refuse_filled(target)
    decoder_length = length if decoder_length is None else decoder_length
    sizes = {"length": length, "decoder_length": decoder_length}
    sizes |= {} if batch_size is None else {"batch_size": batch_size}
    limit = pretrained.checkpoint.max_positions
    for name, size in sizes.items():
        if size < 1 or (limit is not None and size > limit and name != "batch_size"):
            largest = (
                "" if limit is None or name == "batch_size" else f" to {limit}, the positions of this model"
            )
            raise ValueError(f"{name} is {size}; give a number from 1{largest}")
    lengths = _input_lengths(pretrained, length, decoder_length)
    rows = jax.export.symbolic_shape("batch")[0] if batch_size is None else batch_size
    inputs = {name: jax.ShapeDtypeStruct((rows, size), jnp.int32) for name, size in lengths.items()}
    graphdef, params = parameters.split(pretrained.model)
    weights = parameters.flatten(params)
    shapes = {name: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for name, leaf in weights.items()}

    def forward(weights: dict[str, object], inputs: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        return _compute(pretrained, parameters.merge(graphdef, parameters.unflatten(weights)), inputs)

    with pretrained.matmul_precision(), any_platform():
        exported = jax.export.export(jax.jit(forward), platforms=tuple(platforms))(shapes, inputs)
    outputs = jax.tree.unflatten(exported.out_tree, exported.out_avals)
    target.mkdir(parents=True, exist_ok=True)
    write_safetensors(
        target,
        ((name, np.asarray(leaf)) for name, leaf in weights.items()),
        {name: leaf.shape for name, leaf in weights.items()},
        max_shard_bytes=1 << 62,
    )
    write_bytes(target / "forward.jax", bytes(exported.serialize()))
    write_bytes(target / "forward.mlirbc", exported.mlir_module_serialized)
    signature = {"inputs": _described(inputs), "outputs": _described(outputs), "platforms": list(platforms)}
    write_json(target / "signature.json", signature)


def _input_lengths(pretrained: Pretrained, length: int, decoder_length: int) -> dict[str, int]:
    """Return the inputs of the exported function by name, with their lengths."""
    family, config = pretrained.checkpoint.family, pretrained.config
    if family.startswith(("recurrent", "speech", "two_stream")) or config.task == "multiple_choice":
        raise ValueError(
            f"a {family} model for {config.task} can't be exported as StableHLO; encoders, decoders and "
            "encoder-decoders can, for other tasks"
        )
    arguments = {name: np.ones((1, length), np.int32) for name in ("input_ids", "attention_mask")}
    if family == "encoder" and config.embeddings.num_token_types:
        arguments["token_type_ids"] = np.zeros((1, length), np.int32)
    if family == "encoder_decoder":
        arguments["decoder_input_ids"] = np.ones((1, decoder_length), np.int32)
    read = CALLS[family].read(arguments, Context(config, pretrained.special_ids))
    known = {*_INPUTS, "position_ids"} if _counts_positions(config) else set(_INPUTS)
    others = sorted(set(read) - known)
    if others:
        raise ValueError(
            f"the head for {config.task} reads {', '.join(others)}, made of the ids outside of the model; open the "
            'model with task="base" to export its hidden states'
        )
    return {_INPUTS[name]: array.shape[1] for name, array in read.items() if name in _INPUTS}


def _counts_positions(config: ModelConfig) -> bool:
    """Return whether positions count real tokens only, as RoBERTa's do."""
    traits = traits_of(config)
    learned = None if traits.embeddings is None else traits.embeddings.positions
    return learned is not None and learned.offset > 0 and traits.pad_token_id is not None


def _compute(pretrained: Pretrained, model: object, inputs: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    config, family = pretrained.config, pretrained.checkpoint.family
    read = {name: inputs[hf_name] for name, hf_name in _INPUTS.items() if hf_name in inputs}
    if family == "encoder" and _counts_positions(config):
        read["position_ids"] = count_positions(read["input_ids"] != pretrained.special_ids.fill)
    computed = CALLS[family].compute(model, config, read)
    return {name: value.astype(jnp.float32) for name, value in computed.items() if hasattr(value, "astype")}


def _described(arrays: Mapping[str, jax.Array | jax.ShapeDtypeStruct]) -> dict[str, object]:
    return {
        name: {
            "shape": [size if isinstance(size, int) else str(size) for size in array.shape],
            "dtype": str(array.dtype),
        }
        for name, array in arrays.items()
    }
