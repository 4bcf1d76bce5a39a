"""Weights of an encoder in the stacks of an encoder-decoder (Rothe et al. 2020, https://arxiv.org/abs/1907.12461)."""

from typing import Any, Literal

import jax
import jax.numpy as jnp

from t5x_like.model import parameters
from t5x_like.model.families.encoder import EncoderConfig
from t5x_like.model.families.encoder_decoder import EncoderDecoderConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.parameters import Parameters
from t5x_like.pretrained.stack_differences import (
    differences_of_embeddings,
    differences_of_sizes,
    differences_of_stack,
)

DecoderLayers = Literal["fresh", "encoder"]

_ADVICE = "; BART with the encoder's sizes, activation and norm_epsilon reads BERT, RoBERTa and XLM-R"


def check_encoder(where: str, encoder: Any, model: Any, decoder_layers: DecoderLayers) -> None:
    """Check that an encoder's weights compute in an encoder-decoder what they compute alone.

    Args:
      where: Directory of the encoder, for messages.
      encoder: Configuration of the encoder.
      model: Configuration of the encoder-decoder.
      decoder_layers: Weights that the decoder begins with.

    Raises:
      ValueError: The vocabulary, the width or another part differs; or one of the two is another kind of model.
    """
    read, parts = getattr(encoder, "parts", None), getattr(model, "parts", None)
    if not isinstance(read, EncoderConfig):
        raise ValueError(
            f"{where} is a {type(encoder).__name__}, which is no encoder; give one such as BERT or XLM-R"
        )
    if not isinstance(parts, EncoderDecoderConfig) or parts.encoder is None:
        raise ValueError(
            f"the encoder {where} fills in an encoder-decoder with an encoder of its own, and a "
            f"{type(model).__name__} is none; take BART, or fine-tune the encoder itself (start_from)"
        )
    if encoder.adapter is not None or model.adapter is not None:
        raise ValueError(
            f"{where} or the model to train has an adapter; merge the encoder's by t5x-like convert, and train the "
            "new model without one"
        )
    differences = differences_of_sizes(encoder, model) or [
        *differences_of_embeddings(read.embeddings, parts.embeddings, "encoder", exact=False),
        *differences_of_stack(read.stack, parts.encoder, "encoder"),
    ]
    if decoder_layers == "encoder" and not differences:
        own = parts.decoder_embeddings or parts.embeddings
        differences = [
            *differences_of_embeddings(read.embeddings, own, "decoder", exact=False),
            *differences_of_stack(read.stack, parts.decoder, "decoder"),
        ]
    if differences:
        raise ValueError(
            f"the encoder {where} doesn't fit the encoder-decoder: {'; '.join(differences)}{_ADVICE}"
        )


def with_encoder(
    params: Parameters, config: Any, encoder: Any, encoder_params: Parameters, decoder_layers: DecoderLayers
) -> Parameters:
    """Return an encoder-decoder's weights with those of an encoder, which ``check_encoder`` has accepted.

    The word table is the encoder's. Its token type 0, which texts have that are read alone, becomes part of the
    positions. Cross-attention stays as it is, as do words beyond the encoder's vocabulary.

    Args:
      params: Weights of the encoder-decoder.
      config: Configuration of the encoder-decoder.
      encoder: Configuration of the encoder.
      encoder_params: Weights of the encoder.
      decoder_layers: "encoder" copies the encoder's layers and positions into the decoder, too.
    """
    flat, source = parameters.flatten(params), parameters.flatten(encoder_params)
    copied = {
        path: array for path, array in source.items() if path.startswith(("encoder/", "embedding/norm/"))
    }
    num_words, table = encoder.vocab_size, "embedding/tokens/table"
    copied[table] = jnp.asarray(flat[table]).at[:num_words].set(source[table][:num_words])
    read, parts = encoder.embeddings, config.parts
    places = "embedding/positions/table"
    if read.positions is not None:
        rows = source[places]
        if read.num_token_types:
            rows = rows + source["embedding/token_types/table"][:1]
        copied[places] = _moved(rows, flat[places], read, parts.embeddings)
    if decoder_layers == "encoder":
        own = parts.decoder_embeddings
        copied |= {
            f"decoder/{path.removeprefix('encoder/')}": array
            for path, array in copied.items()
            if path.startswith("encoder/")
        }
        if own is not None:
            copied |= {
                f"decoder_{path}": array
                for path, array in copied.items()
                if path.startswith("embedding/norm/")
            }
            if read.positions is not None:
                copied[f"decoder_{places}"] = _moved(rows, flat[f"decoder_{places}"], read, own)
    return parameters.unflatten(
        flat | {path: jax.device_put(array, flat[path].sharding) for path, array in copied.items()}
    )


def _moved(rows: jax.Array, into: jax.Array, read: EmbeddingsConfig, own: EmbeddingsConfig) -> jax.Array:
    """Return a table of positions with the rows of another, whose position 0 may be in another row."""
    assert read.positions is not None
    assert own.positions is not None
    first, start, size = read.positions.offset, own.positions.offset, own.positions.max_position_embeddings
    return jnp.asarray(into).at[start : start + size].set(rows[first : first + size])
