"""Decoders: every token attends to earlier ones, and to a prefix if there is one.

Radford et al. 2018; Liu et al. 2018, https://arxiv.org/abs/1801.10198.
"""

import functools
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.families.attribute_contrast import MEASURES, TAKE_ONE, AttributeContrast
from t5x_like.model.families.family import FamilyName, Predictions, PromptContinuation, as_decoder_batch
from t5x_like.model.families.multi_token_prediction import (
    WITHOUT_VIRTUAL_TOKENS,
    MultiTokenConfig,
    MultiTokenPrediction,
)
from t5x_like.model.families.virtual_tokens import prepend, virtual_ids, with_virtual_tokens
from t5x_like.model.heads import HEADS_SITE, Heads, HeadsConfig, candidate_scores, whole_logits
from t5x_like.model.layers.dropout import fold
from t5x_like.model.layers.embedding import Embeddings, EmbeddingsConfig
from t5x_like.model.layers.kv_cache import DecoderCache, arrange_right, keep_inputs, one_beam, reorder
from t5x_like.model.layers.masks import AttentionMask, causal_mask, combine_masks, prefix_mask, real_tokens
from t5x_like.model.layers.rolling_cache import rolling_context
from t5x_like.model.layers.routing_sums import add_routing
from t5x_like.model.layers.self_attention import AttentionContext
from t5x_like.model.layers.stack import Stack, StackConfig


@config_class
class DecoderConfig:
    """Embeddings, one causal stack and heads.

    Attributes:
      embeddings: Input embeddings.
      stack: Blocks.
      heads: Heads on the stack's output.
      reads_prefixes: Prompts are prefixes, whose tokens all attend to each other. Relative positions then distinguish
        earlier from later keys.
      multi_token: Tokens after the next one that training predicts, too; ``None`` for none.
      compute_dtype: Type of activations. Weights are float32.
    """

    embeddings: EmbeddingsConfig
    stack: StackConfig
    heads: HeadsConfig
    reads_prefixes: bool = False
    multi_token: MultiTokenConfig | None = None
    compute_dtype: Literal["float32", "bfloat16"] = "float32"

    def build(self, key: Key[Array, ""]) -> "Decoder":
        """Build the model with fresh weights drawn from ``key``."""
        return Decoder(self, key=key)


class Decoder(PromptContinuation, nnx.Module):
    """Reads a batch's decoder stream.

    Earlier tokens attend to a token too where ``batch.prefix`` is 1. ``batch.ranks`` replace the order of the stream.

    Attributes:
      contrast: Reads each row with several prefixes, in training (Qian et al. 2022); ``None`` for one or none.
    """

    family_name: ClassVar[FamilyName] = "decoder"

    def __init__(self, config: DecoderConfig, *, key: Key[Array, ""]):
        embedding_key, stack_key, heads_key = jax.random.split(key, 3)
        model_dim, init = config.stack.model_dim, config.stack.blocks[0].init
        self.embedding = Embeddings(config.embeddings, model_dim, key=embedding_key)
        self.decoder = Stack(config.stack, key=stack_key)
        self.heads = Heads(config.heads, config.embeddings, model_dim, key=heads_key, init=init)
        self.contrast: AttributeContrast | None = None
        further, further_key = config.multi_token, jax.random.fold_in(key, 3)
        self.multi_token = further and MultiTokenPrediction(further, key=further_key)
        self.config = config

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of losses and means that are logged next to the language model's loss."""
        further = () if self.multi_token is None else self.multi_token.measured
        return further if self.contrast is None else MEASURES

    def __call__(self, batch: Batch, *, dropout_key: Key[Array, ""] | None = None) -> Predictions:
        """Return scores of the token after every position, and of pooled sequences."""

        def predict(batch: Batch) -> Predictions:
            return self._predict(batch, dropout_key)

        return predict(batch) if self.contrast is None else self.contrast(predict, batch)

    def _predict(self, batch: Batch, dropout_key: Key[Array, ""] | None) -> Predictions:
        decoder_batch = batch = as_decoder_batch(batch)
        own_segment_ids, num_virtual = batch.decoder_segment_ids, self.embedding.num_virtual_tokens
        batch = with_virtual_tokens(batch, num_virtual, "decoder")
        tokens, segment_ids = batch.decoder_input_tokens, batch.decoder_segment_ids
        embedded = self._embed(
            tokens, batch.decoder_positions, batch.block_positions, token_types=batch.token_types
        )
        context = AttentionContext(
            mask=AttentionMask(
                query_segment_ids=segment_ids,
                key_segment_ids=segment_ids,
                causal=batch.ranks is None,
                query_ranks=batch.ranks,
                key_ranks=batch.ranks,
                prefix=batch.prefix,
                allowed=None if batch.attention_mask is None else batch.attention_mask[:, None],
            ),
            real=real_tokens(segment_ids),
            positions=batch.decoder_positions,
            bidirectional=self.config.reads_prefixes,
        )
        with named_activations.scope("decoder", num_virtual=num_virtual):
            decoded = self.decoder(embedded, context, dropout_key=dropout_key)
        decoded = decoded.after(num_virtual)
        logits, pooled, scores = self.heads(
            decoded.output, self.embedding.tokens, own_segment_ids, dropout_key=fold(dropout_key, HEADS_SITE)
        )
        if self.heads.cloze:
            assert logits is not None
            if decoder_batch.block_positions is None:
                raise ValueError(
                    "rows have masks alone (MaskedClozeClassification), which this decoder wasn't trained on; take "
                    "ClozeClassification"
                )
            in_blank = decoder_batch.block_positions > 0
            scores, logits = (
                {"cloze": candidate_scores(whole_logits(logits), decoder_batch.target_tokens, in_blank)},
                None,
            )
        predictions = Predictions(
            logits=logits,
            decoder_output=decoded.output,
            pooled=pooled,
            heads=scores,
            routing=decoded.routing,
        )
        if self.multi_token is None or decoder_batch.target_tokens is None:
            return predictions
        if num_virtual or self.contrast is not None:
            raise ValueError(WITHOUT_VIRTUAL_TOKENS)
        lm_head = self.heads.lm_head
        assert lm_head is not None, "further tokens are scored by the output layer"
        further = self.multi_token(
            decoded.output,
            decoder_batch,
            context,
            embed=lambda tokens: self._embed(tokens, batch.decoder_positions, None),
            logits_of=lambda states: lm_head.logits(states, self.embedding.tokens),
            dropout_key=dropout_key,
        )
        routing = add_routing(decoded.routing, further.routing)
        return predictions._replace(extra_losses=further.losses, routing=routing)

    def start_cache(
        self,
        prompts: Int[Array, "B M"],
        prompt_mask: Int[Array, "B M"] | None = None,
        *,
        max_new_tokens: int,
        is_prefix: bool = False,
        prefix: Int[Array, "B M"] | None = None,
        positions: Int[Array, "B T"] | None = None,
        block_positions: Int[Array, "B T"] | None = None,
    ) -> tuple[Int[Array, " B"], DecoderCache]:
        """Read all tokens of the prompts but the last into a new cache.

        Args:
          prompts: Token ids.
          prompt_mask: 1 for real tokens. Padding may be on the left or between tokens.
          max_new_tokens: Room in the cache for new tokens. With the prompt they are T = M + max_new_tokens places.
          is_prefix: All tokens of the prompt attend to each other.
          prefix: 1 for tokens that earlier tokens attend to as well.
          positions: Position of each place; by default real tokens are counted from 0.
          block_positions: Positions inside masked spans (GLM).

        Returns:
          The prompts' last tokens, for the first ``decode_step``, and the cache.

        Raises:
          ValueError: There are too few learned positions for prompt and new tokens. With a ``prompt_mask`` only the new
            ones are counted, and those without a position are not-a-number. Or positions are missing or too
            few. Or the model has prefixes of several attributes.
        """
        if self.contrast is not None:
            raise ValueError(TAKE_ONE)
        num_virtual = self.embedding.num_virtual_tokens
        if num_virtual:
            prompts = jnp.concatenate([virtual_ids(len(prompts), num_virtual), prompts], axis=1)
            if prompt_mask is not None:
                prompt_mask = prepend(1, prompt_mask, num_virtual)
            if prefix is not None:
                prefix = prepend(1, prefix, num_virtual)
            if positions is not None:
                positions = prepend(jnp.arange(num_virtual)[None], positions + num_virtual, num_virtual)
            if block_positions is not None:
                block_positions = prepend(0, block_positions, num_virtual)
        batch_size, length = prompts.shape
        wanted = (batch_size, length + max_new_tokens)
        self._check_positions(positions, block_positions, wanted)
        if positions is None:
            self._check_length(max_new_tokens + (length - 1 if prompt_mask is None else 0))
        real = jnp.ones(prompts.shape, bool) if prompt_mask is None else prompt_mask > 0
        arrange = functools.partial(arrange_right, real)
        key_mask = arrange(jnp.pad(real, ((0, 0), (0, max_new_tokens)), constant_values=True))
        counted = jnp.maximum(jnp.cumsum(key_mask, axis=1) - 1, 0)
        cache = DecoderCache(
            layers=self.decoder.empty_caches(*wanted, None, self._dtype),
            index=jnp.zeros((), jnp.int32),
            # Steps write the prompt's last token and new ones.
            beam_indices=one_beam(batch_size, max_new_tokens + 1),
            key_mask=key_mask,
            positions=counted if positions is None else arrange(positions),
            block_positions=None if block_positions is None else arrange(block_positions),
        )
        prompts = arrange(prompts)
        if is_prefix or (prefix is None and self.config.reads_prefixes):
            prefix = jnp.ones_like(prompts)
        return prompts[:, -1], self._fill(prompts, cache, None if prefix is None else arrange(prefix))

    def decode_step(
        self, tokens: Int[Array, " R"], cache: DecoderCache
    ) -> tuple[Float[Array, "R V"], DecoderCache]:
        """Read one token of each row, and return scores of the next one and the updated cache."""
        read = self._read if cache.starts is None else self._read_rolling
        decoded, cache = read(tokens[:, None], cache)
        assert self.heads.lm_head is not None, "a model without a head over the vocabulary can't generate"
        return self.heads.lm_head.logits(decoded, self.embedding.tokens)[:, 0], cache

    def reorder_cache(self, cache: DecoderCache, origins: Int[Array, "B J"]) -> DecoderCache:
        """Return the cache in which beam ``j`` of input ``b`` is its former beam ``origins[b, j]``.

        Args:
          cache: Cache of one or several beams for each input.
          origins: Index of each new beam's former beam.
        """
        return reorder(cache, origins)

    def keep_inputs(self, cache: DecoderCache, inputs: Int[Array, " C"], num_inputs: int) -> DecoderCache:
        """Return the cache of some of the inputs.

        Args:
          cache: Cache of all inputs.
          inputs: Indices of the inputs to keep.
          num_inputs: Number of inputs in the cache.
        """
        return keep_inputs(cache, inputs, num_inputs)

    @property
    def _dtype(self) -> jnp.dtype:
        return jnp.dtype(self.config.compute_dtype)

    def _fill(
        self, prompts: Int[Array, "B M"], cache: DecoderCache, prefix: Int[Array, "B M"] | None
    ) -> DecoderCache:
        if prefix is not None:
            # The last token must be there if the others attend to it; decoding reads it once more, to the same effect.
            cache = self._read(prompts, cache, prefix)[1]
            return cache._replace(index=cache.index - 1)
        if prompts.shape[1] == 1:
            return cache
        return self._read(prompts[:, :-1], cache)[1]

    def _read(
        self, tokens: Int[Array, "R L"], cache: DecoderCache, prefix: Int[Array, "R L"] | None = None
    ) -> tuple[Float[Array, "R L D"], DecoderCache]:
        assert cache.positions is not None
        assert cache.key_mask is not None
        length, num_slots = tokens.shape[1], cache.key_mask.shape[1]
        mask = causal_mask(cache.index + jnp.arange(length), jnp.arange(num_slots))
        if prefix is not None:
            mask = mask | prefix_mask(jnp.pad(prefix, ((0, 0), (0, num_slots - length))))

        def now(rows: Array | None) -> Array | None:
            return None if rows is None else jax.lax.dynamic_slice_in_dim(rows, cache.index, length, axis=1)

        positions = now(cache.positions)
        context = AttentionContext(
            mask=combine_masks(mask, cache.key_mask[:, None, None, :]),
            positions=positions,
            bidirectional=self.config.reads_prefixes,
            index=cache.index,
            beam_indices=cache.beam_indices,
        )
        return self._step(self._embed(tokens, positions, now(cache.block_positions)), cache, context)

    def _read_rolling(
        self, tokens: Int[Array, "R 1"], cache: DecoderCache
    ) -> tuple[Float[Array, "R 1 D"], DecoderCache]:
        context = rolling_context(cache)._replace(bidirectional=self.config.reads_prefixes)
        return self._step(self._embed(tokens, context.positions, None), cache, context)

    def _step(
        self, embedded: Float[Array, "R L D"], cache: DecoderCache, context: AttentionContext
    ) -> tuple[Float[Array, "R L D"], DecoderCache]:
        with named_activations.scope("decoder"):
            decoded = self.decoder.step(embedded, cache.layers, context)
        assert decoded.layer_caches is not None
        return decoded.output, cache._replace(
            layers=decoded.layer_caches, index=cache.index + embedded.shape[1]
        )

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

    def _check_positions(
        self, positions: Array | None, block_positions: Array | None, wanted: tuple[int, int]
    ) -> None:
        by_name = {"positions": positions, "block_positions": block_positions}
        if (
            positions is None or block_positions is None
        ) and self.config.embeddings.block_positions is not None:
            raise ValueError(
                "this model counts positions inside of blanks too; give positions and block_positions, of the prompt "
                f"and of the new tokens: {wanted}"
            )
        for name, rows in by_name.items():
            if rows is not None and rows.shape != wanted:
                raise ValueError(
                    f"{name} has shape {rows.shape}; give one for each token of the prompt and for each new one: "
                    f"{wanted}"
                )

    def _check_length(self, length: int) -> None:
        learned = self.config.embeddings.positions
        if learned is not None and length > learned.max_position_embeddings:
            raise ValueError(
                f"prompt and new tokens are {length} long together, the model has "
                f"{learned.max_position_embeddings} learned positions; give a shorter prompt or lower max_new_tokens"
            )
