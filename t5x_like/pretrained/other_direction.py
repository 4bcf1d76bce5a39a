"""Weights of a decoder in an encoder of the same layers, and the other way round.

Encoders from decoders: BehnamGhader et al. 2024, https://arxiv.org/abs/2404.05961. Both ways: Weller et al. 2025,
https://arxiv.org/abs/2507.11412.
"""

from typing import Any

import jax

from t5x_like.model import parameters
from t5x_like.model.families.decoder import DecoderConfig
from t5x_like.model.families.encoder import EncoderConfig
from t5x_like.model.parameters import Parameters
from t5x_like.pretrained.decoder_weights import TABLE, first_words, output_weights, refuse_adapters
from t5x_like.pretrained.stack_differences import (
    differences_of_embeddings,
    differences_of_output,
    differences_of_sizes,
    differences_of_stack,
)

_PAIRS = "EuroBERT has the layers of LLaMA, and ModernBERT's decoder those of ModernBERT"


def is_turned(pretrained: Any, model: Any) -> bool:
    """Return whether one of two models reads in both directions, and the other in one.

    Args:
      pretrained: Configuration of one model.
      model: Configuration of the other.
    """
    kinds = {type(getattr(config, "parts", None)) for config in (pretrained, model)}
    return kinds == {EncoderConfig, DecoderConfig}


def check_turned(where: str, pretrained: Any, model: Any) -> None:
    """Check that the weights of an encoder fit a decoder, or those of a decoder an encoder.

    Args:
      where: Directory of the pretrained model.
      pretrained: Its configuration.
      model: Configuration of the model to train, for which ``is_turned`` is true.

    Raises:
      ValueError: A size or another part differs.
    """
    refuse_adapters(where, pretrained, model)
    read, own = pretrained.parts, model.parts
    differences = differences_of_sizes(pretrained, model) or [
        *differences_of_embeddings(read.embeddings, own.embeddings, "model"),
        *differences_of_stack(read.stack, own.stack, "model", num_layers="num_layers", turned=True),
        *differences_of_output(read.heads, own.heads),
    ]
    if differences:
        raise ValueError(f"{where} doesn't fit the model: {'; '.join(differences)}. {_PAIRS}")


def with_turned(params: Parameters, model: Any, pretrained: Any, source: Parameters) -> Parameters:
    """Return a model's weights with those of another that reads in another direction.

    Words beyond its vocabulary stay as they are, and so do heads other than the output layer over the vocabulary.

    Args:
      params: Weights of the model to train.
      model: Its configuration.
      pretrained: Configuration of the other one, which ``check_turned`` has accepted.
      source: Weights of the other one.
    """
    flat, read = parameters.flatten(params), parameters.flatten(source)
    before, after = ("encoder/", "decoder/")
    if isinstance(model.parts, EncoderConfig):
        before, after = after, before
    copied = {
        path.replace(before, after, 1): array
        for path, array in read.items()
        if path.startswith((before, "embedding/"))
    }
    num_words = pretrained.vocab_size
    copied[TABLE] = first_words(flat[TABLE], read[TABLE], num_words)
    copied |= output_weights(flat, read, num_words)
    return parameters.unflatten(
        flat | {path: jax.device_put(array, flat[path].sharding) for path, array in copied.items()}
    )
