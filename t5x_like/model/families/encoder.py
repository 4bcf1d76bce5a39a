"""Encoders: every token sees every other (Devlin et al. 2019, https://arxiv.org/abs/1810.04805)."""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Key

from t5x_like.batch import Batch
from t5x_like.model.families.family import Predictions
from t5x_like.model.heads import HEADS_SITE, Heads, HeadsConfig
from t5x_like.model.layers.dropout import fold
from t5x_like.model.layers.embedding import Embeddings, EmbeddingsConfig
from t5x_like.model.layers.masks import combine_masks, rank_mask, real_tokens, segment_mask
from t5x_like.model.layers.self_attention import AttentionContext
from t5x_like.model.layers.stack import Stack, StackConfig
from t5x_like.model.span_boundary import SpanBoundary, SpanBoundaryConfig


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """One stack between an entrance and heads. ``span_boundary`` scores, in training, what its targets hide."""

    embeddings: EmbeddingsConfig
    stack: StackConfig
    heads: HeadsConfig = HeadsConfig()
    span_boundary: SpanBoundaryConfig | None = None
    compute_dtype: Literal["float32", "bfloat16"] = "float32"


class Encoder(nnx.Module):
    """Reads the encoder's stream; ``ranks`` or an ``attention_mask`` can forbid looks that segments allow (UniLM)."""

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

    def __call__(
        self, batch: Batch, *, dropout_key: Key[Array, ""] | None = None, collect_hidden: bool = False
    ) -> Predictions:
        """Scores every position of the encoder's stream."""
        segment_ids, context = batch.encoder_segment_ids, encoder_context(batch)
        embedded = self.embedding(
            batch.encoder_input_tokens,
            dtype=jnp.dtype(self.config.compute_dtype),
            positions=batch.encoder_positions,
            token_types=batch.token_types,
            task_types=batch.task_types,
        )
        encoded = self.encoder(embedded, context, dropout_key=dropout_key, collect_hidden=collect_hidden)
        logits, pooled, scores = self.heads(
            encoded.output, self.embedding.tokens, segment_ids, dropout_key=fold(dropout_key, HEADS_SITE)
        )
        if self.span_boundary is not None and batch.loss_weights is not None:
            assert self.embedding.tokens is not None
            is_target = batch.loss_weights > 0
            scores["span_boundary"] = self.span_boundary(
                encoded.output, self.embedding.tokens, is_target, segment_ids
            )
        return Predictions(
            logits=logits,
            encoder_output=encoded.output,
            encoder_hidden=encoded.hidden,
            pooled=pooled,
            heads=scores,
            balance_loss=encoded.balance_loss,
        )


def encoder_context(batch: Batch) -> AttentionContext:
    """The mask of the encoder's stream: tokens see all of the same example, unless the batch forbids it."""
    segment_ids = batch.encoder_segment_ids
    mask = segment_mask(segment_ids, segment_ids)
    if batch.attention_mask is not None:
        mask = combine_masks(mask, batch.attention_mask[:, None])
    if batch.ranks is not None:
        mask = combine_masks(mask, rank_mask(batch.ranks))
    segments = jnp.ones_like(batch.encoder_input_tokens) if segment_ids is None else segment_ids
    is_only_cut = batch.attention_mask is None and batch.ranks is None
    return AttentionContext(
        mask=mask,
        real=real_tokens(segment_ids),
        segment_ids=segments if is_only_cut else None,
        positions=batch.encoder_positions,
        bidirectional=True,
    )
