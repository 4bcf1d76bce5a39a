"""Decoders of T5's blocks: the language model and the prefix language model of Raffel et al. 2020, §3.2.1.

https://arxiv.org/abs/1910.10683. Nobody has published any, so there are no names of others for their weights.
"""

from dataclasses import dataclass

import jax

from t5x_like.model.families.decoder import Decoder, DecoderConfig
from t5x_like.model.heads import HeadsConfig
from t5x_like.model.zoo.architecture import unpublished
from t5x_like.model.zoo.model_tasks import ModelTask
from t5x_like.model.zoo.t5_like import T5LikeConfig


@dataclass(frozen=True, kw_only=True)
class T5LanguageModelConfig(T5LikeConfig):
    """Such a decoder of any size. ``reads_prefixes``: where a batch has a prefix, all its tokens see each other."""

    num_layers: int
    reads_prefixes: bool = False
    task: ModelTask = "causal_lm"

    def build(self, key: jax.Array) -> Decoder:
        """The model with fresh weights."""
        return Decoder(self.decoder, key=key)

    @property
    def decoder(self) -> DecoderConfig:
        """The parts that it is made of."""
        return DecoderConfig(
            embeddings=self.embeddings,
            stack=self.stack(self.block(self.attention()), self.num_layers),
            heads=HeadsConfig(words=self.words),
            reads_prefixes=self.reads_prefixes,
            compute_dtype=self.compute_dtype,
        )


T5_LM = unpublished(
    "t5_lm",
    T5LanguageModelConfig,
    "transformers has no decoder of T5's blocks; it can't be read or written in its form",
)
