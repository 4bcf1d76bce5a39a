"""Encoders: every token attends to every other (Devlin et al. 2019, https://arxiv.org/abs/1810.04805)."""

from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Key

from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model.families.family import Predictions
from t5x_like.model.families.virtual_tokens import with_virtual_tokens
from t5x_like.model.heads import HEADS_SITE, Heads, HeadsConfig
from t5x_like.model.layers.dropout import fold
from t5x_like.model.layers.embedding import Embeddings, EmbeddingsConfig
from t5x_like.model.layers.masks import combine_masks, rank_mask, real_tokens, segment_mask
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
    """Reads a batch's encoder stream. Its ``ranks`` or ``attention_mask`` can limit attention further (UniLM)."""

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
        """Return scores of every position, and of pooled sequences."""
        segment_ids, num_virtual = batch.encoder_segment_ids, self.embedding.num_virtual_tokens
        whole = with_virtual_tokens(batch, num_virtual, "encoder")
        context = encoder_context(whole)
        embedded = self.embedding(
            whole.encoder_input_tokens,
            dtype=jnp.dtype(self.config.compute_dtype),
            positions=whole.encoder_positions,
            token_types=whole.token_types,
            task_types=whole.task_types,
        )
        encoded = self.encoder(embedded, context, dropout_key=dropout_key, collect_hidden=collect_hidden)
        encoded = encoded.after(num_virtual)
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
    """Return masks and positions: tokens attend to all of the same example, unless the batch limits it further."""
    segment_ids = batch.encoder_segment_ids
    mask = segment_mask(segment_ids, segment_ids)
    if batch.attention_mask is not None:
        mask = combine_masks(mask, batch.attention_mask[:, None])
    if batch.ranks is not None:
        mask = combine_masks(mask, rank_mask(batch.ranks))
    segments = jnp.ones_like(batch.encoder_input_tokens) if segment_ids is None else segment_ids
    only_segments = batch.attention_mask is None and batch.ranks is None
    return AttentionContext(
        mask=mask,
        real=real_tokens(segment_ids),
        segment_ids=segments if only_segments else None,
        positions=batch.encoder_positions,
        bidirectional=True,
    )
