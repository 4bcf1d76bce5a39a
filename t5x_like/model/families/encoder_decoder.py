"""Encoder-decoders: one stack reads, the other writes (Vaswani et al. 2017; Raffel et al. 2020, §2.1)."""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from t5x_like.batch import Batch
from t5x_like.model.families.family import Predictions
from t5x_like.model.layers.block import Surroundings
from t5x_like.model.layers.cache import DecoderCache, reorder
from t5x_like.model.layers.dropout import fold
from t5x_like.model.layers.embedding import Embedding
from t5x_like.model.layers.linear import Linear
from t5x_like.model.layers.masks import segment_mask
from t5x_like.model.layers.stack import Stack, StackConfig, StackOutput

Head = Literal["tied", "untied"]


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig:
    """``head`` "tied" scores with the embedding table, after dividing by the root of the model width."""

    vocab_size: int
    encoder: StackConfig
    decoder: StackConfig
    head: Head
    compute_dtype: Literal["float32", "bfloat16"] = "float32"


class EncoderDecoder(nnx.Module):
    """Both stacks read one table of embeddings."""

    def __init__(self, config: EncoderDecoderConfig, *, key: Key[Array, ""]):
        embedding_key, encoder_key, decoder_key, head_key = jax.random.split(key, 4)
        model_dim = config.encoder.block.model_dim
        self.embedding = Embedding(config.vocab_size, model_dim, key=embedding_key)
        self.encoder = Stack(config.encoder, key=encoder_key)
        self.decoder = Stack(config.decoder, key=decoder_key)
        untied = config.head == "untied"
        self.head = (
            Linear(model_dim, config.vocab_size, axes=("embed", "vocab"), key=head_key) if untied else None
        )
        self.config = config

    def __call__(
        self, batch: Batch, *, dropout_key: Key[Array, ""] | None = None, collect_hidden: bool = False
    ) -> Predictions:
        """Scores every target of ``batch``, seeing the targets before it."""
        encoded = self._encode(
            batch.encoder_input_tokens, batch.encoder_segment_ids, fold(dropout_key, 0), collect_hidden
        )
        around = Surroundings(
            mask=segment_mask(batch.decoder_segment_ids, batch.decoder_segment_ids),
            encoded=encoded.output,
            encoded_mask=segment_mask(batch.decoder_segment_ids, batch.encoder_segment_ids),
        )
        embedded = self.embedding(batch.decoder_input_tokens, self._dtype)
        decoded = self.decoder(
            embedded, around, dropout_key=fold(dropout_key, 1), collect_hidden=collect_hidden
        )
        return Predictions(
            logits=self._logits(decoded.output),
            encoder_output=encoded.output,
            decoder_output=decoded.output,
            encoder_hidden=encoded.hidden,
            decoder_hidden=decoded.hidden,
        )

    def encode(
        self, tokens: Int[Array, "B M"], segment_ids: Int[Array, "B M"] | None = None
    ) -> Float[Array, "B M D"]:
        """What the decoder will look at."""
        return self._encode(tokens, segment_ids, None, collect_hidden=False).output

    def start_cache(
        self,
        encoded: Float[Array, "B M D"],
        encoder_segment_ids: Int[Array, "B M"] | None,
        *,
        max_length: int,
    ) -> DecoderCache:
        """The decoder's memory before its first token, with room for ``max_length`` of them."""
        return DecoderCache(
            layers=self.decoder.empty_caches(encoded.shape[0], max_length, encoded, self._dtype),
            encoded_mask=segment_mask(None, encoder_segment_ids),
            position=jnp.zeros((), jnp.int32),
        )

    def decode_step(
        self, tokens: Int[Array, " R"], cache: DecoderCache
    ) -> tuple[Float[Array, "R V"], DecoderCache]:
        """Reads one token a row and scores the next one. Rows are inputs, or the beams of one input after another."""
        x = self.embedding(tokens[:, None], self._dtype)
        around = Surroundings(encoded_mask=cache.encoded_mask)
        decoded = self.decoder.step(x, cache.layers, around, cache.position)
        cache = cache._replace(layers=decoded.layer_caches, position=cache.position + 1)
        return self._logits(decoded.output)[:, 0], cache

    def reorder_cache(self, cache: DecoderCache, origins: Int[Array, "B J"]) -> DecoderCache:
        """Beam ``j`` of input ``b`` becomes its former beam ``origins[b, j]``; there may be more beams than before."""
        return reorder(cache, origins)

    @property
    def _dtype(self) -> jnp.dtype:
        return jnp.dtype(self.config.compute_dtype)

    def _encode(
        self,
        tokens: Int[Array, "B M"],
        segment_ids: Int[Array, "B M"] | None,
        dropout_key: Key[Array, ""] | None,
        collect_hidden: bool,
    ) -> StackOutput:
        around = Surroundings(mask=segment_mask(segment_ids, segment_ids))
        embedded = self.embedding(tokens, self._dtype)
        return self.encoder(embedded, around, dropout_key=dropout_key, collect_hidden=collect_hidden)

    def _logits(self, x: Float[Array, "B L D"]) -> Float[Array, "B L V"]:
        # Summed in float32 and left so: rounded to bfloat16, logits of 30 would stand 0.125 apart.
        if self.head is not None:
            return self.head(x, output_dtype=jnp.dtype(jnp.float32))
        return self.embedding.logits(x * x.shape[-1] ** -0.5)
