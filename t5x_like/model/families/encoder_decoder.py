"""Encoder-decoders (Vaswani et al. 2017; Raffel et al. 2020, §2.1)."""

from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.families.family import FamilyName, Predictions, with_decoder_stream
from t5x_like.model.families.virtual_tokens import prepend, virtual_ids
from t5x_like.model.heads import HEADS_SITE, Heads, HeadsConfig
from t5x_like.model.layers.dropout import fold
from t5x_like.model.layers.embedding import Embedding, Embeddings, EmbeddingsConfig
from t5x_like.model.layers.kv_cache import DecoderCache, keep_inputs, one_beam, reorder
from t5x_like.model.layers.masks import AttentionMask, real_tokens, segment_mask
from t5x_like.model.layers.rolling_cache import step_context
from t5x_like.model.layers.routing_sums import add_routing
from t5x_like.model.layers.self_attention import AttentionContext
from t5x_like.model.layers.stack import Stack, StackConfig, StackOutput
from t5x_like.partitioning.activations import gather_output


@config_class
class EncoderDecoderConfig:
    """Embeddings, two stacks, and heads on the decoder's output.

    Attributes:
      embeddings: Input embeddings of both stacks.
      encoder: Blocks of the encoder; ``None`` encodes with the decoder's blocks, without their cross-attention (Raffel
        et al. 2020, §3.2.2).
      decoder: Blocks of the decoder.
      heads: Heads on the decoder's output.
      decoder_embeddings: The decoder's own embeddings except for the word table, which is shared (BART); ``None`` uses
        ``embeddings``.
      shared_words: Both stacks have one word table; otherwise the decoder has its own in ``decoder_embeddings``, which
        scores words, too (T5Gemma).
      decoder_start_token_id: First id that the decoder reads where a head reads the input.
      rereads_all: Where a head reads the input, the decoder's stream has a place more, at which it has read the last
        token (T5Gemma).
      compute_dtype: Type of activations. Weights are float32.
    """

    embeddings: EmbeddingsConfig
    encoder: StackConfig | None
    decoder: StackConfig
    heads: HeadsConfig
    decoder_embeddings: EmbeddingsConfig | None = None
    shared_words: bool = True
    decoder_start_token_id: int = 0
    rereads_all: bool = False
    compute_dtype: Literal["float32", "bfloat16"] = "float32"

    @property
    def output_embeddings(self) -> EmbeddingsConfig:
        """Embeddings whose words the decoder scores."""
        own = self.decoder_embeddings
        return self.embeddings if own is None or self.shared_words else own

    def build(self, key: Key[Array, ""]) -> "EncoderDecoder":
        """Build the model with fresh weights drawn from ``key``."""
        return EncoderDecoder(self, key=key)


class EncoderDecoder(nnx.Module):
    """Two stacks, with one word table or two."""

    family_name: ClassVar[FamilyName] = "encoder_decoder"

    def __init__(self, config: EncoderDecoderConfig, *, key: Key[Array, ""]):
        embedding_key, encoder_key, decoder_key, head_key, own_key = jax.random.split(key, 5)
        model_dim, init = config.decoder.model_dim, config.decoder.blocks[0].init
        read_dim = model_dim if config.encoder is None else config.encoder.model_dim
        self.embedding = Embeddings(config.embeddings, read_dim, key=embedding_key)
        own, has_words = config.decoder_embeddings, not config.shared_words
        self.decoder_embedding = own and Embeddings(own, model_dim, key=own_key, with_words=has_words)
        self.encoder = config.encoder and Stack(config.encoder, key=encoder_key)
        self.decoder = Stack(config.decoder, key=decoder_key)
        self.heads = Heads(config.heads, config.output_embeddings, model_dim, key=head_key, init=init)
        self.config = config

    def __call__(self, batch: Batch, *, dropout_key: Key[Array, ""] | None = None) -> Predictions:
        """Return scores of the token after every position of the decoder's stream.

        Rows for a head have no decoder's stream: the decoder reads the input again (see ``with_decoder_stream``).
        """
        batch = with_decoder_stream(
            batch, self.config.decoder_start_token_id, rereads_all=self.config.rereads_all
        )
        encoded = self._encode(
            batch.encoder_input_tokens,
            batch.encoder_segment_ids,
            batch.encoder_positions,
            fold(dropout_key, 0),
        )
        return self.decode(batch, encoded, dropout_key=fold(dropout_key, 1))

    def decode(
        self, batch: Batch, encoded: StackOutput, *, dropout_key: Key[Array, ""] | None = None
    ) -> Predictions:
        """Return the scores of a call, given the encoder's output.

        Args:
          batch: Tokens for the decoder, and the encoder's, for the mask.
          encoded: Encoder's output.
          dropout_key: None for no dropout.

        Raises:
          ValueError: The output lacks the virtual tokens that this model reads.
        """
        segment_ids, num_virtual = batch.decoder_segment_ids, self.embedding.num_virtual_tokens
        inputs = batch.encoder_input_tokens
        if num_virtual and (inputs is None or encoded.output.shape[1] == inputs.shape[1]):
            raise ValueError(
                "the encoder's output lacks this model's virtual tokens; give the input tokens instead"
            )
        context = AttentionContext(
            mask=AttentionMask(query_segment_ids=segment_ids, key_segment_ids=segment_ids, causal=True),
            real=real_tokens(segment_ids),
            positions=batch.decoder_positions,
            encoded=gather_output(encoded.output),
            encoded_mask=AttentionMask(
                query_segment_ids=segment_ids,
                key_segment_ids=self._with_virtual(batch.encoder_segment_ids),
            ),
        )
        embedded = self._embed_outputs(batch.decoder_input_tokens, batch.decoder_positions)
        with named_activations.scope("decoder"):
            decoded = self.decoder(embedded, context, dropout_key=dropout_key)
        logits, pooled, scores = self.heads(
            decoded.output, self.output_words, segment_ids, dropout_key=fold(dropout_key, HEADS_SITE)
        )
        return Predictions(
            logits=logits,
            encoder_output=encoded.after(num_virtual).output,
            decoder_output=decoded.output,
            pooled=pooled,
            heads=scores,
            routing=add_routing(encoded.routing, decoded.routing),
        )

    def encode(
        self, tokens: Int[Array, "B M"], segment_ids: Int[Array, "B M"] | None = None
    ) -> Float[Array, "B PM D"]:
        """Return the encoder's output, for the decoder's cross-attention; it begins with virtual tokens, if any."""
        return self._encode(tokens, segment_ids, None, None).output

    def start_cache(
        self,
        encoded: Float[Array, "B PM D"],
        encoder_segment_ids: Int[Array, "B M"] | None,
        *,
        max_length: int,
    ) -> DecoderCache:
        """Return an empty cache with keys and values of the encoder's output.

        Args:
          encoded: Encoder's output, with virtual tokens first.
          encoder_segment_ids: 0 for padding; None for rows without padding.
          max_length: Number of tokens to leave room for.
        """
        return DecoderCache(
            layers=self.decoder.empty_caches(encoded.shape[0], max_length, encoded, self._dtype),
            index=jnp.zeros((), jnp.int32),
            beam_indices=one_beam(len(encoded), max_length),
            encoded_mask=segment_mask(None, self._with_virtual(encoder_segment_ids)),
        )

    def prefill(
        self, prompts: Int[Array, "B M"], mask: Int[Array, "B M"], *, max_new_tokens: int, start_id: int
    ) -> tuple[Int[Array, " B"], DecoderCache]:
        """Encode prompts for generation; see ``PromptContinuation``."""
        cache = self.start_cache(self.encode(prompts, mask), mask, max_length=max_new_tokens)
        return jnp.full(len(prompts), start_id, jnp.int32), cache

    def decode_step(
        self, tokens: Int[Array, " R"], cache: DecoderCache
    ) -> tuple[Float[Array, "R V"], DecoderCache]:
        """Read one token of each row, and return scores of the next one and the updated cache.

        Rows are inputs, or the beams of one input after another.
        """
        context = step_context(cache, len(tokens))
        embedded = self._embed_outputs(tokens[:, None], context.positions)
        with named_activations.scope("decoder"):
            decoded = self.decoder.step(embedded, cache.layers, context)
        assert decoded.layer_caches is not None
        assert self.heads.lm_head is not None
        logits = self.heads.lm_head.logits(decoded.output, self.output_words)[:, 0]
        return logits, cache._replace(layers=decoded.layer_caches, index=cache.index + 1)

    def reorder_cache(self, cache: DecoderCache, origins: Int[Array, "B J"]) -> DecoderCache:
        """Return the cache in which beam ``j`` of input ``b`` is its former beam ``origins[b, j]``."""
        return reorder(cache, origins)

    def keep_inputs(self, cache: DecoderCache, inputs: Int[Array, " C"], num_inputs: int) -> DecoderCache:
        """Return the cache of the inputs with the given indices, out of ``num_inputs``."""
        return keep_inputs(cache, inputs, num_inputs)

    @property
    def output_words(self) -> Embedding | None:
        """Word table that a tied output layer scores with."""
        own = self.decoder_embedding
        return self.embedding.tokens if own is None or own.tokens is None else own.tokens

    @property
    def _dtype(self) -> jnp.dtype:
        return jnp.dtype(self.config.compute_dtype)

    def _embed_outputs(
        self, tokens: Int[Array, "B L"], positions: Int[Array, "B L"] | None
    ) -> Float[Array, "B L D"]:
        own = self.decoder_embedding
        if own is None or own.tokens is not None:
            return (own or self.embedding)(tokens, dtype=self._dtype, positions=positions)
        words = self.embedding.words(tokens, self._dtype)
        return own.project(own.unprojected(words, tokens, positions=positions))

    def _with_virtual(self, segment_ids: Int[Array, "B M"] | None) -> Int[Array, "B PM"] | None:
        """Return the encoder's segments with those of virtual tokens, which belong to each row's first example."""
        num_virtual = self.embedding.num_virtual_tokens
        return segment_ids if segment_ids is None or not num_virtual else prepend(1, segment_ids, num_virtual)

    def _encode(
        self,
        tokens: Int[Array, "B M"],
        segment_ids: Int[Array, "B M"] | None,
        positions: Int[Array, "B M"] | None,
        dropout_key: Key[Array, ""] | None,
    ) -> StackOutput:
        num_virtual = self.embedding.num_virtual_tokens
        if num_virtual:
            tokens = jnp.concatenate([virtual_ids(len(tokens), num_virtual), tokens], axis=1)
            segment_ids = self._with_virtual(segment_ids)
            if positions is not None:
                positions = prepend(jnp.arange(num_virtual)[None], positions + num_virtual, num_virtual)
        context = AttentionContext(
            mask=AttentionMask(query_segment_ids=segment_ids, key_segment_ids=segment_ids),
            real=real_tokens(segment_ids),
            segment_ids=jnp.ones_like(tokens) if segment_ids is None else segment_ids,
            positions=positions,
            bidirectional=True,
        )
        embedded = self.embedding(tokens, dtype=self._dtype, positions=positions)
        stack = self.decoder if self.encoder is None else self.encoder
        with named_activations.scope("encoder", num_virtual=num_virtual):
            return stack(embedded, context, dropout_key=dropout_key)
