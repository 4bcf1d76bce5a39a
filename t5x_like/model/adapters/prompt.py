"""Prompt tuning: learned embeddings of virtual tokens before the input (Lester et al. 2021).

https://arxiv.org/abs/2104.08691.
"""

from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from t5x_like.config_class import config_class
from t5x_like.model.families.decoder import Decoder
from t5x_like.model.families.encoder import Encoder
from t5x_like.model.families.encoder_decoder import EncoderDecoder
from t5x_like.model.layers.embedding import Embedding

_COMMON_WORDS = 5000  # §3.2: the vocabulary's most frequent pieces, which come first
_RANGE = 0.5  # §3.2: of random vectors


@config_class
class PromptTuning:
    """Puts virtual tokens before the inputs of an encoder, a decoder, or an encoder-decoder's encoder.

    They take positions, as words do, but are left out of a model's outputs. Their weights are
    ``embedding/prompt/vectors`` [length, embed_dim], float32.

    Attributes:
      length: Number of virtual tokens.
      init: ``"vocabulary"`` starts from the embeddings of random words among the 5,000 first ids, ``"random"`` from
        uniform numbers within 0.5.
    """

    length: int = 20
    init: Literal["vocabulary", "random"] = "vocabulary"

    adds: ClassVar[str] = "inputs"

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"length is {self.length}; give a positive number of virtual tokens")

    @property
    def trainable(self) -> tuple[str, ...]:
        """Patterns of the weights that train."""
        return ("embedding/prompt/*",)

    def attach(self, model: nnx.Module, key: Key[Array, ""]) -> nnx.Module:
        """Give the model fresh virtual tokens; returns it.

        Raises:
          ValueError: The model's memory of earlier segments has no place for them.
        """
        if not isinstance(model, Encoder | Decoder | EncoderDecoder):
            raise ValueError(
                f"PromptTuning can't be used with {type(model).__name__} models, whose distances to a memory of "
                "earlier segments leave virtual tokens no place; take PrefixTuning, which needs none"
            )
        assert model.embedding.tokens is not None
        model.embedding.prompt = nnx.data(VirtualTokens(self, model.embedding.tokens, key=key))
        return model


class VirtualTokens(nnx.Module):
    """Embeddings of virtual tokens, whose ids are -1, -2 and so on."""

    def __init__(self, config: PromptTuning, words: Embedding, *, key: Key[Array, ""]):
        shape = (config.length, words.table.shape[-1])
        if config.init == "vocabulary":
            ids = jax.random.randint(key, shape[:1], 0, min(words.num_rows, _COMMON_WORDS))
            vectors = words.table[...][ids]
        else:
            vectors = jax.random.uniform(key, shape, minval=-_RANGE, maxval=_RANGE)
        self.vectors = nnx.Param(vectors, axes=("adapter", "embed"))
        self.length = config.length

    def __call__(self, ids: Int[Array, "B L"], words: Embedding, dtype: jnp.dtype) -> Float[Array, "B L E"]:
        """Return embeddings of virtual tokens, and those of ``words`` for other ids."""
        is_virtual = ids < 0
        virtual = self.vectors[...].astype(dtype)[jnp.where(is_virtual, -1 - ids, 0)]
        return jnp.where(is_virtual[..., None], virtual, words(jnp.where(is_virtual, 0, ids), dtype))
