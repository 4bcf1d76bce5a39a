"""Decoders: every token sees those before it, and a prefix if there is one (Radford et al. 2018; Liu et al. 2018)."""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.batch import Batch
from t5x_like.model.families.family import Predictions
from t5x_like.model.heads import Heads, HeadsConfig
from t5x_like.model.layers.block import Surroundings
from t5x_like.model.layers.cache import DecoderCache, reorder
from t5x_like.model.layers.embedding import Embeddings, EmbeddingsConfig
from t5x_like.model.layers.masks import both, causal_mask, prefix_mask, segment_mask
from t5x_like.model.layers.stack import Stack, StackConfig


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """One stack between an entrance and heads."""

    embeddings: EmbeddingsConfig
    stack: StackConfig
    heads: HeadsConfig
    compute_dtype: Literal["float32", "bfloat16"] = "float32"


class Decoder(nnx.Module):
    """Reads the decoder's stream. Where ``batch.prefix`` is 1, a token is seen by those before it too."""

    def __init__(self, config: DecoderConfig, *, key: Key[Array, ""]):
        embedding_key, stack_key, heads_key = jax.random.split(key, 3)
        model_dim, init = config.stack.model_dim, config.stack.blocks[0].init
        self.embedding = Embeddings(config.embeddings, model_dim, key=embedding_key)
        self.decoder = Stack(config.stack, key=stack_key)
        self.heads = Heads(config.heads, config.embeddings, model_dim, key=heads_key, init=init)
        self.config = config

    def __call__(
        self, batch: Batch, *, dropout_key: Key[Array, ""] | None = None, collect_hidden: bool = False
    ) -> Predictions:
        """Scores what follows every position of the decoder's stream."""
        tokens, segment_ids = batch.decoder_input_tokens, batch.decoder_segment_ids
        places = jnp.arange(tokens.shape[1])
        mask = causal_mask(places, places)
        if batch.prefix is not None:
            mask = mask | prefix_mask(batch.prefix)
        mask = both(mask, segment_mask(segment_ids, segment_ids))
        if batch.attention_mask is not None:
            mask = both(mask, batch.attention_mask[:, None])
        embedded = self._embed(
            tokens, batch.decoder_positions, batch.block_positions, token_types=batch.token_types
        )
        around = Surroundings(mask=mask, positions=batch.decoder_positions)
        decoded = self.decoder(embedded, around, dropout_key=dropout_key, collect_hidden=collect_hidden)
        logits, pooled, scores = self.heads(decoded.output, self.embedding.tokens, segment_ids)
        return Predictions(
            logits=logits,
            decoder_output=decoded.output,
            decoder_hidden=decoded.hidden,
            pooled=pooled,
            heads=scores,
            balance_loss=decoded.balance_loss,
        )

    def start_cache(
        self,
        prompts: Int[Array, "B M"],
        prompt_mask: Int[Array, "B M"] | None = None,
        *,
        max_new_tokens: int,
        is_prefix: bool = False,
    ) -> tuple[Int[Array, " B"], DecoderCache]:
        """Reads all of the prompts but their last token, which comes back for the first ``decode_step``.

        Prompts may be padded, on the left or between tokens; where ``is_prefix``, their tokens all see each other.

        Raises:
          ValueError: with learned positions, too few for the prompt and the new tokens.
        """
        batch_size, length = prompts.shape
        self._check_length(length + max_new_tokens - 1)
        real = jnp.ones(prompts.shape, bool) if prompt_mask is None else prompt_mask > 0
        prompts, real = _to_the_right(prompts, real)
        room = jnp.ones((batch_size, max_new_tokens), bool)
        key_mask = jnp.concatenate([real, room], axis=1)
        cache = DecoderCache(
            layers=self.decoder.empty_caches(batch_size, length + max_new_tokens, None, self._dtype),
            index=jnp.zeros((), jnp.int32),
            key_mask=key_mask,
            positions=jnp.maximum(jnp.cumsum(key_mask, axis=1) - 1, 0),
        )
        return prompts[:, -1], self._fill(prompts, cache, is_prefix)

    def decode_step(
        self, tokens: Int[Array, " R"], cache: DecoderCache
    ) -> tuple[Float[Array, "R V"], DecoderCache]:
        """Reads one token a row and scores the next one."""
        decoded, cache = self._read(tokens[:, None], cache, is_prefix=False)
        assert self.heads.words is not None, "a model that scores no words can't write"
        return self.heads.words(decoded, self.embedding.tokens)[:, 0], cache

    def reorder_cache(self, cache: DecoderCache, origins: Int[Array, "B J"]) -> DecoderCache:
        """Beam ``j`` of input ``b`` becomes its former beam ``origins[b, j]``; there may be more beams than before."""
        return reorder(cache, origins)

    @property
    def _dtype(self) -> jnp.dtype:
        return jnp.dtype(self.config.compute_dtype)

    def _fill(self, prompts: Int[Array, "B M"], cache: DecoderCache, is_prefix: bool) -> DecoderCache:
        if is_prefix:
            # The last token must be there when the others look at it; decoding reads it once more, to the same effect.
            cache = self._read(prompts, cache, is_prefix=True)[1]
            return cache._replace(index=cache.index - 1)
        if prompts.shape[1] == 1:
            return cache
        return self._read(prompts[:, :-1], cache, is_prefix=False)[1]

    def _read(
        self, tokens: Int[Array, "R L"], cache: DecoderCache, *, is_prefix: bool
    ) -> tuple[Float[Array, "R L D"], DecoderCache]:
        assert cache.positions is not None
        assert cache.key_mask is not None
        length = tokens.shape[1]
        keys = jnp.arange(cache.key_mask.shape[1])
        if is_prefix:
            mask = (keys < length)[None, None, None, :]
        else:
            mask = causal_mask(cache.index + jnp.arange(length), keys)
        positions = jax.lax.dynamic_slice_in_dim(cache.positions, cache.index, length, axis=1)
        around = Surroundings(
            mask=both(mask, cache.key_mask[:, None, None, :]),
            positions=positions,
            key_positions=cache.positions,
            index=cache.index,
        )
        decoded = self.decoder.step(self._embed(tokens, positions, None), cache.layers, around)
        assert decoded.layer_caches is not None
        return decoded.output, cache._replace(layers=decoded.layer_caches, index=cache.index + length)

    def _embed(
        self,
        tokens: Int[Array, "B L"],
        positions: Int[Array, "B L"] | None,
        block_positions: Int[Array, "B L"] | None,
        token_types: Int[Array, "B L"] | None = None,
    ) -> Float[Array, "B L D"]:
        return self.embedding(
            tokens,
            dtype=self._dtype,
            positions=positions,
            block_positions=block_positions,
            token_types=token_types,
        )

    def _check_length(self, length: int) -> None:
        learned = self.config.embeddings.positions
        if learned is not None and length > learned.num_positions:
            raise ValueError(
                f"prompt and new tokens are {length} long together, the model has {learned.num_positions} learned "
                "positions; give a shorter prompt or lower max_new_tokens"
            )


def _to_the_right(
    tokens: Int[Array, "B M"], real: Bool[Array, "B M"]
) -> tuple[Int[Array, "B M"], Bool[Array, "B M"]]:
    """Padding first, then the tokens in their order, so that all rows go on at the same place."""
    order = jnp.argsort(real, axis=1, stable=True)
    return jnp.take_along_axis(tokens, order, axis=1), jnp.take_along_axis(real, order, axis=1)
