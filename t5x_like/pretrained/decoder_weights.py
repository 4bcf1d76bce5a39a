"""Weights of decoders in an encoder-decoder (T5Gemma, Zhang et al. 2025, https://arxiv.org/abs/2504.06225)."""

from dataclasses import replace
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from t5x_like.model import parameters
from t5x_like.model.families.decoder import DecoderConfig
from t5x_like.model.families.encoder_decoder import EncoderDecoderConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.parameters import Parameters
from t5x_like.pretrained.stack_differences import (
    differences_of_embeddings,
    differences_of_output,
    differences_of_sizes,
    differences_of_stack,
)

CrossAttention = Literal["self_attention", "fresh"]

TABLE = "embedding/tokens/table"
KERNEL = "heads/lm_head/projection/kernel"


class DecoderWeights(NamedTuple):
    """A pretrained decoder.

    Attributes:
      config: Its configuration.
      params: Its weights.
    """

    config: Any
    params: Parameters


def check_decoder(
    where: str,
    decoder: Any,
    model: Any,
    stack: Literal["encoder", "decoder"],
    cross_attention: CrossAttention,
) -> None:
    """Check that a decoder's weights fit one stack of an encoder-decoder.

    Args:
      where: Directory of the decoder, for messages.
      decoder: Configuration of the decoder.
      model: Configuration of the encoder-decoder.
      stack: Stack that the weights are for.
      cross_attention: Weights that the decoder's cross-attention begins with.

    Raises:
      ValueError: A size or another part differs; or one of the two is another kind of model.
    """
    read, parts = getattr(decoder, "parts", None), getattr(model, "parts", None)
    require_decoder(where, decoder)
    assert isinstance(read, DecoderConfig)
    if not isinstance(parts, EncoderDecoderConfig) or parts.encoder is None:
        raise ValueError(
            f"the decoder {where} fills in an encoder-decoder with an encoder of its own, and a "
            f"{type(model).__name__} is none; take T5Gemma, or train the decoder itself (start_from)"
        )
    refuse_adapters(where, decoder, model)
    own = parts.encoder if stack == "encoder" else parts.decoder
    embeddings = parts.embeddings
    if stack == "decoder" and parts.decoder_embeddings is not None:
        embeddings = parts.decoder_embeddings
    differences = differences_of_sizes(decoder, model, own) or [
        *differences_of_embeddings(read.embeddings, embeddings, stack),
        *differences_of_stack(
            read.stack, own, stack, num_layers=f"num_layers of {stack}", turned=stack == "encoder"
        ),
    ]
    if stack == "decoder" and not differences:
        differences = differences_of_output(read.heads, parts.heads)
    if differences:
        raise ValueError(
            f"the decoder {where} doesn't fit the {stack} of the model: {'; '.join(differences)}; T5Gemma with the "
            "decoder's sizes reads Gemma 2"
        )
    if stack == "decoder" and cross_attention == "self_attention":
        _check_cross_attention(parts.decoder, parts.encoder)


def with_decoder(
    params: Parameters,
    model: Any,
    *,
    decoder: DecoderWeights,
    encoder: DecoderWeights,
    cross_attention: CrossAttention,
) -> Parameters:
    """Return an encoder-decoder's weights with those of decoders, which ``check_decoder`` has accepted.

    Words beyond the decoders' vocabularies stay as they are.

    Args:
      params: Weights of the encoder-decoder.
      model: Configuration of the encoder-decoder.
      decoder: Model for the decoder.
      encoder: Model for the encoder.
      cross_attention: "self_attention" begins with the self-attention of the same layer, its norms included; "fresh"
        leaves cross-attention as it is.
    """
    flat, parts = parameters.flatten(params), model.parts
    written, read = parameters.flatten(decoder.params), parameters.flatten(encoder.params)
    copied = {
        f"encoder/{path.removeprefix('decoder/')}": array
        for path, array in read.items()
        if path.startswith("decoder/")
    }
    copied |= {path: array for path, array in written.items() if path.startswith("decoder/")}
    if cross_attention == "self_attention":
        copied |= {
            path: written[path.replace("/cross_attention", "/self_attention")]
            for path in flat
            if "/cross_attention" in path
        }
    copied |= _embeddings(flat, read, encoder.config.vocab_size, "embedding/")
    if parts.decoder_embeddings is not None:
        copied |= _embeddings(flat, written, decoder.config.vocab_size, "decoder_embedding/")
    copied |= output_weights(flat, written, decoder.config.vocab_size)
    return parameters.unflatten(
        flat | {path: jax.device_put(array, flat[path].sharding) for path, array in copied.items()}
    )


def output_weights(
    flat: dict[str, jax.Array], source: dict[str, jax.Array], num_words: int
) -> dict[str, jax.Array]:
    """Return the weights of an output layer over the vocabulary with those of another model.

    Args:
      flat: Weights of the model to train, by path.
      source: Weights of the other one. Its word table scores words where it has no output layer of its own.
      num_words: Size of its vocabulary.
    """
    copied = {
        path: first_words(flat[path], array, num_words) if path.endswith("lm_head/bias") else array
        for path, array in source.items()
        if path.startswith("heads/lm_head/") and path in flat and path != KERNEL
    }
    if KERNEL in flat:
        kernel = source.get(KERNEL, source[TABLE].T)
        copied[KERNEL] = first_words(flat[KERNEL].T, kernel.T, num_words).T
    return copied


def first_words(rows: jax.Array, source: jax.Array, num_words: int) -> jax.Array:
    """Return a table of words whose first rows are those of another.

    Args:
      rows: Table of the model to train.
      source: The other one.
      num_words: Number of words in the other one; further rows are padding.
    """
    return jnp.asarray(rows).at[:num_words].set(source[:num_words])


def require_decoder(where: str, decoder: Any) -> None:
    """Check that a checkpoint is a decoder's.

    Args:
      where: Directory of the checkpoint.
      decoder: Its configuration.

    Raises:
      ValueError: It is another model's.
    """
    if not isinstance(getattr(decoder, "parts", None), DecoderConfig):
        raise ValueError(
            f"{where} is a {type(decoder).__name__}, which is no decoder; give one such as Gemma 2 or LLaMA"
        )


def refuse_adapters(where: str, pretrained: Any, model: Any) -> None:
    """Refuse a pretrained model, or a model to train, with an adapter.

    Args:
      where: Directory of the pretrained model.
      pretrained: Its configuration.
      model: Configuration of the model to train.

    Raises:
      ValueError: One of the two has an adapter.
    """
    if pretrained.adapter is not None or model.adapter is not None:
        raise ValueError(
            f"{where} or the model to train has an adapter; merge the former's by t5x-like convert, and train the new "
            "model without one"
        )


def _embeddings(
    flat: dict[str, jax.Array], source: dict[str, jax.Array], num_words: int, own: str
) -> dict[str, jax.Array]:
    """Return a stack's embeddings, at paths from ``own`` on, with those of a decoder."""
    copied = {
        f"{own}{path.removeprefix('embedding/')}": array
        for path, array in source.items()
        if path.startswith("embedding/")
    }
    table = f"{own}tokens/table"
    return copied | {table: first_words(flat[table], copied[table], num_words)}


def _check_cross_attention(decoder: StackConfig, encoder: StackConfig) -> None:
    """Check that the decoder's cross-attention has the form of its self-attention."""
    for block in decoder.blocks:
        own = block.attention
        plain = replace(own, positions=None, window=None) if isinstance(own, AttentionConfig) else own
        if plain != block.cross_attention or (block.encoded_dim or block.model_dim) != block.model_dim:
            raise ValueError(
                f"cross-attention reads an encoder of width {encoder.model_dim}, and self-attention of the decoder has "
                f"width {decoder.model_dim}; give cross_attention='fresh' (CROSS_ATTENTION in recipes), which draws it"
            )
