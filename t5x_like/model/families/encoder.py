"""Encoders: every token attends to every other (Devlin et al. 2019, https://arxiv.org/abs/1810.04805)."""

from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.families.family import FamilyName, Predictions
from t5x_like.model.families.virtual_tokens import prepend, virtual_ids, with_virtual_tokens
from t5x_like.model.heads import HEADS_SITE, Heads, HeadsConfig, candidate_scores, whole_logits
from t5x_like.model.layers.dropout import fold
from t5x_like.model.layers.embedding import Embeddings, EmbeddingsConfig
from t5x_like.model.layers.kv_cache import DecoderCache, arrange_right, keep_inputs, one_beam, reorder
from t5x_like.model.layers.masks import AttentionMask, combine_masks, real_tokens
from t5x_like.model.layers.self_attention import AttentionContext
from t5x_like.model.layers.stack import Stack, StackConfig
from t5x_like.model.span_boundary import SpanBoundary, SpanBoundaryConfig


@config_class
class EncoderConfig:
    """Embeddings, one bidirectional stack and heads.

    Attributes:
      embeddings: Input embeddings.
      stack: Blocks.
      heads: Heads on the stack's output.
      span_boundary: Head that predicts masked spans from their ends, in training (SpanBERT); ``None`` for none.
      compute_dtype: Type of activations. Weights are float32.
    """

    embeddings: EmbeddingsConfig
    stack: StackConfig
    heads: HeadsConfig = HeadsConfig()
    span_boundary: SpanBoundaryConfig | None = None
    compute_dtype: Literal["float32", "bfloat16"] = "float32"

    def build(self, key: Key[Array, ""]) -> "Encoder":
        """Build the model with fresh weights drawn from ``key``."""
        return Encoder(self, key=key)


class Encoder(nnx.Module):
    """Reads a batch's encoder stream. Its ``ranks`` or ``attention_mask`` can limit attention further (UniLM).

    Fine-tuned on masked targets, it writes: each step reads the last token, and predicts a mask after it.
    """

    family_name: ClassVar[FamilyName] = "encoder"

    def __init__(self, config: EncoderConfig, *, key: Key[Array, ""]):
        embedding_key, stack_key, heads_key = jax.random.split(key, 3)
        model_dim, init, spans = config.stack.model_dim, config.stack.blocks[0].init, config.span_boundary
        self.embedding = Embeddings(config.embeddings, model_dim, key=embedding_key)
        self.encoder = Stack(config.stack, key=stack_key)
        self.heads = Heads(config.heads, config.embeddings, model_dim, key=heads_key, init=init)
        spans_key = jax.random.fold_in(heads_key, 0)
        self.span_boundary = spans and SpanBoundary(
            spans, config.embeddings, model_dim, key=spans_key, init=init
        )
        self.config = config

    def __call__(self, batch: Batch, *, dropout_key: Key[Array, ""] | None = None) -> Predictions:
        """Return scores of every position, and of pooled sequences."""
        segment_ids, num_virtual = batch.encoder_segment_ids, self.embedding.num_virtual_tokens
        whole = with_virtual_tokens(batch, num_virtual, "encoder")
        context = encoder_context(whole)
        embedded = self.embedding(
            whole.encoder_input_tokens,
            dtype=self._dtype,
            positions=whole.encoder_positions,
            token_types=whole.token_types,
            task_types=whole.task_types,
        )
        with named_activations.scope("encoder", num_virtual=num_virtual):
            encoded = self.encoder(embedded, context, dropout_key=dropout_key)
        encoded = encoded.after(num_virtual)
        logits, pooled, scores = self.heads(
            encoded.output, self.embedding.tokens, segment_ids, dropout_key=fold(dropout_key, HEADS_SITE)
        )
        if self.heads.cloze:
            assert logits is not None
            if batch.block_positions is not None:
                raise ValueError(
                    "rows have the form of blank infilling (ClozeClassification), which this encoder wasn't trained "
                    "on; take MaskedClozeClassification"
                )
            targets = batch.target_tokens
            scores["cloze"] = candidate_scores(whole_logits(logits), targets, targets > 0, mean=True)
            logits = None
        if self.span_boundary is not None and batch.loss_weights is not None:
            assert self.embedding.tokens is not None
            is_target = batch.loss_weights > 0
            scores["span_boundary"] = self.span_boundary(
                encoded.output, self.embedding.tokens, is_target, segment_ids
            )
        return Predictions(
            logits=logits,
            encoder_output=encoded.output,
            pooled=pooled,
            heads=scores,
            routing=encoded.routing,
        )

    def start_cache(
        self,
        prompts: Int[Array, "B M"],
        prompt_mask: Int[Array, "B M"] | None = None,
        *,
        max_new_tokens: int,
        mask_id: int,
    ) -> tuple[Int[Array, " B"], DecoderCache]:
        """Read prompts, whose tokens attend to each other, into a new cache (Dong et al. 2019, on generation).

        Args:
          prompts: Sources, ``[CLS] a b [SEP]``.
          prompt_mask: 1 for real tokens. Padding may be anywhere.
          max_new_tokens: Room in the cache for new tokens.
          mask_id: Id that the model reads at the place of the next token.

        Returns:
          The prompts' last tokens, for the first ``decode_step``, and the cache.

        Raises:
          ValueError: There are too few learned positions for the new tokens. Real tokens without a position are
            not-a-number.
        """
        num_virtual = self.embedding.num_virtual_tokens
        if num_virtual:
            prompts = jnp.concatenate([virtual_ids(len(prompts), num_virtual), prompts], axis=1)
            prompt_mask = None if prompt_mask is None else prepend(1, prompt_mask, num_virtual)
        batch_size, length = prompts.shape
        num_slots = length + max_new_tokens + 1  # the last is the mask's
        learned = self.config.embeddings.positions
        if learned is not None and max_new_tokens >= learned.max_position_embeddings:
            raise ValueError(
                f"max_new_tokens is {max_new_tokens}; the model has {learned.max_position_embeddings} learned "
                "positions, also for the prompt; lower it"
            )
        real = jnp.ones(prompts.shape, bool) if prompt_mask is None else prompt_mask > 0
        key_mask = arrange_right(real, jnp.pad(real, ((0, 0), (0, max_new_tokens + 1)), constant_values=True))
        is_target = jnp.arange(num_slots) >= length
        cache = DecoderCache(
            layers=self.encoder.empty_caches(batch_size, num_slots, None, self._dtype),
            index=jnp.zeros((), jnp.int32),
            # Steps write the prompt's last token, new ones, and the mask.
            beam_indices=one_beam(batch_size, max_new_tokens + 2),
            key_mask=key_mask,
            positions=jnp.maximum(jnp.cumsum(key_mask, axis=1) - 1, 0),
            token_types=jnp.broadcast_to(is_target.astype(jnp.int32), key_mask.shape),
            mask_token=jnp.asarray(mask_id, jnp.int32),
        )
        prompts = arrange_right(real, prompts)
        _, cache = self._read(prompts, cache, (~is_target)[None])
        # The last token is read once more by the first step, to the same effect.
        return prompts[:, -1], cache._replace(index=cache.index + length - 1)

    def prefill(
        self, prompts: Int[Array, "B M"], mask: Int[Array, "B M"], *, max_new_tokens: int, start_id: int
    ) -> tuple[Int[Array, " B"], DecoderCache]:
        """Read prompts for generation; see ``PromptContinuation``."""
        return self.start_cache(prompts, mask, max_new_tokens=max_new_tokens, mask_id=start_id)

    def decode_step(
        self, tokens: Int[Array, " R"], cache: DecoderCache
    ) -> tuple[Float[Array, "R V"], DecoderCache]:
        """Read one token of each row and a mask after it; return scores at the mask and the updated cache."""
        assert cache.mask_token is not None
        assert self.heads.lm_head is not None, "an encoder without a head over the vocabulary can't generate"
        pairs = jnp.stack([tokens, jnp.broadcast_to(cache.mask_token, tokens.shape)], axis=1)
        index = cache.index + jnp.arange(2)
        seen = jnp.arange(cache.num_slots)[None] <= index[:, None]
        encoded, cache = self._read(pairs, cache, seen)
        logits = self.heads.lm_head.logits(encoded[:, 1:], self.embedding.tokens)[:, 0]
        return logits, cache._replace(index=cache.index + 1)  # the next token replaces the mask

    def reorder_cache(self, cache: DecoderCache, origins: Int[Array, "B J"]) -> DecoderCache:
        """Return the cache in which beam ``j`` of input ``b`` is its former beam ``origins[b, j]``."""
        return reorder(cache, origins)

    def keep_inputs(self, cache: DecoderCache, inputs: Int[Array, " C"], num_inputs: int) -> DecoderCache:
        """Return the cache of the inputs with the given indices, out of ``num_inputs``."""
        return keep_inputs(cache, inputs, num_inputs)

    @property
    def _dtype(self) -> jnp.dtype:
        return jnp.dtype(self.config.compute_dtype)

    def _read(
        self, tokens: Int[Array, "R L"], cache: DecoderCache, seen: Bool[Array, "#L T"]
    ) -> tuple[Float[Array, "R L D"], DecoderCache]:
        """Run tokens from ``cache.index`` on, which stays; each attends to the places that it has ``seen``."""
        assert cache.key_mask is not None

        def now(rows: Array | None) -> Array | None:
            if rows is None:
                return None
            return jax.lax.dynamic_slice_in_dim(rows, cache.index, tokens.shape[1], axis=1)

        positions = now(cache.positions)
        embedded = self.embedding(
            tokens, dtype=self._dtype, positions=positions, token_types=now(cache.token_types)
        )
        context = AttentionContext(
            mask=combine_masks(seen[None, None], cache.key_mask[:, None, None, :]),
            positions=positions,
            bidirectional=True,
            index=cache.index,
            beam_indices=cache.beam_indices,
        )
        with named_activations.scope("encoder"):
            encoded = self.encoder.step(embedded, cache.layers, context)
        assert encoded.layer_caches is not None
        return encoded.output, cache._replace(layers=encoded.layer_caches)


def encoder_context(batch: Batch) -> AttentionContext:
    """Return masks and positions: tokens attend to all of the same example, unless the batch limits it further."""
    segment_ids = batch.encoder_segment_ids
    segments = jnp.ones_like(batch.encoder_input_tokens) if segment_ids is None else segment_ids
    only_segments = batch.attention_mask is None and batch.ranks is None
    return AttentionContext(
        mask=AttentionMask(
            query_segment_ids=segment_ids,
            key_segment_ids=segment_ids,
            query_ranks=batch.ranks,
            key_ranks=batch.ranks,
            allowed=None if batch.attention_mask is None else batch.attention_mask[:, None],
        ),
        real=real_tokens(segment_ids),
        segment_ids=segments if only_segments else None,
        positions=batch.encoder_positions,
        bidirectional=True,
    )
