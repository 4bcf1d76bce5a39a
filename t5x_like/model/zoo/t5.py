"""T5 1.0 and 1.1 (Raffel et al. 2020, https://arxiv.org/abs/1910.10683), and mT5, which is 1.1 with more words."""

from dataclasses import dataclass
from typing import Literal

import jax

from t5x_like.model.families.encoder_decoder import EncoderDecoder, EncoderDecoderConfig, Head
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.feed_forward import FeedForwardConfig
from t5x_like.model.layers.positions import RelativeBuckets
from t5x_like.model.layers.stack import Rematerialisation, StackConfig


@dataclass(frozen=True, kw_only=True)
class T5Config:
    """A T5 of any size.

    1.0 has relu and scores with its embedding table; 1.1 has gated gelu and a head of its own (Shazeer 2020). The two
    traits can be chosen apart.
    """

    vocab_size: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    head_dim: int
    num_encoder_layers: int
    num_decoder_layers: int
    feed_forward: Literal["relu", "gated_gelu"] = "gated_gelu"
    head: Head = "untied"
    dropout_rate: float = 0.0
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    rematerialisation: Rematerialisation = "none"
    num_relative_buckets: int = 32
    max_relative_distance: int = 128
    norm_epsilon: float = 1e-6

    def __post_init__(self) -> None:
        for name in ("vocab_size", "model_dim", "mlp_dim", "num_heads", "head_dim"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a positive number")
        if not 0 <= self.dropout_rate < 1:
            raise ValueError(f"dropout_rate is {self.dropout_rate}; give a probability below 1")

    def build(self, key: jax.Array) -> EncoderDecoder:
        """The model with fresh weights."""
        return EncoderDecoder(
            EncoderDecoderConfig(
                vocab_size=self.vocab_size,
                encoder=self._stack(self.num_encoder_layers, decoder=False),
                decoder=self._stack(self.num_decoder_layers, decoder=True),
                head=self.head,
                compute_dtype=self.compute_dtype,
            ),
            key=key,
        )

    def _stack(self, num_layers: int, *, decoder: bool) -> StackConfig:
        feed_forward = FeedForwardConfig(
            mlp_dim=self.mlp_dim,
            activation="relu" if self.feed_forward == "relu" else "gelu_tanh",
            gated=self.feed_forward == "gated_gelu",
        )
        block = BlockConfig(
            model_dim=self.model_dim,
            attention=AttentionConfig(num_heads=self.num_heads, head_dim=self.head_dim, score_scale="none"),
            feed_forward=feed_forward,
            cross_attention=decoder,
            norm_epsilon=self.norm_epsilon,
            dropout_rate=self.dropout_rate,
        )
        return StackConfig(
            block=block,
            num_layers=num_layers,
            causal=decoder,
            relative_positions=RelativeBuckets(
                num_buckets=self.num_relative_buckets,
                max_distance=self.max_relative_distance,
                bidirectional=not decoder,
            ),
            rematerialisation=self.rematerialisation,
        )
