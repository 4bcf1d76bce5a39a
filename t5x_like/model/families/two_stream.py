"""XLNet: predicts tokens in a permuted order (Yang et al. 2019, https://arxiv.org/abs/1906.08237)."""

from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.families.family import FamilyName, Predictions, PromptContinuation
from t5x_like.model.families.segment_memory import (
    Memory,
    join_memory_mask,
    memory_mask_of,
    recall_memory,
    start_memory,
    visible_after,
)
from t5x_like.model.heads import HEADS_SITE, Heads, HeadsConfig
from t5x_like.model.layers.dropout import fold
from t5x_like.model.layers.embedding import Embedding, EmbeddingsConfig
from t5x_like.model.layers.kv_cache import beam_rows, input_rows
from t5x_like.model.layers.masks import combine_masks, segment_mask, strict_rank_mask
from t5x_like.model.layers.relative_attention import distances_between, encode_distances, past_mask
from t5x_like.model.layers.relative_stack import (
    RelativeAttentionContext,
    RelativeStack,
    RelativeStackConfig,
    Streams,
    remember,
)

Direction = Literal["bidirectional", "unidirectional", "unidirectional_same_length"]


@config_class
class TwoStreamConfig:
    """Word embeddings, one stack that is read as one stream or two, and heads.

    Attributes:
      embeddings: Sizes of the word table.
      stack: Blocks.
      heads: Heads on the output.
      direction: Keys that a token attends to: all, earlier ones, or with ``"unidirectional_same_length"`` as many
        earlier ones as the memory is long.
      memory_length: Positions of earlier segments that are kept; ``None`` for all.
      reuse_length: First positions of a segment that enter the memory, because training segments overlap; ``None`` for
        all.
      compute_dtype: Type of activations. Weights are float32.
    """

    embeddings: EmbeddingsConfig
    stack: RelativeStackConfig
    heads: HeadsConfig = HeadsConfig()
    direction: Direction = "bidirectional"
    memory_length: int | None = None
    reuse_length: int | None = None
    compute_dtype: Literal["float32", "bfloat16"] = "float32"

    def build(self, key: Key[Array, ""]) -> "TwoStream":
        """Build the model with fresh weights drawn from ``key``."""
        return TwoStream(self, key=key)


class TwoStreamOutput(NamedTuple):
    """Outputs of the stack.

    Attributes:
      output: Output of the query stream where there is one, else of the content stream.
      memory: If kept, the memory for the following segment.
    """

    output: Float[Array, "B T D"]
    memory: Float[Array, "N B Q D"] | None = None


class TwoStreamCache(NamedTuple):
    """Tokens so far. Each attends to later ones too, so keys and values can't be kept.

    Attributes:
      tokens: Token ids, filled up to ``index``.
      real: True for real tokens, and for places of new ones.
      index: Place of the next token, the same for all rows.
    """

    tokens: Int[Array, "R L"]
    real: Bool[Array, "R L"]
    index: Int[Array, ""]


class TwoStream(PromptContinuation, nnx.Module):
    """One stack, run on a content stream alone or on content and query streams."""

    family_name: ClassVar[FamilyName] = "two_stream"

    def __init__(self, config: TwoStreamConfig, *, key: Key[Array, ""]):
        embedding_key, query_key, stack_key, heads_key = jax.random.split(key, 4)
        model_dim, init = config.stack.model_dim, config.stack.init
        self.embedding = Embedding(
            config.embeddings.vocab_size,
            model_dim,
            key=embedding_key,
            stddev=config.embeddings.stddev,
            multiple=config.embeddings.pad_vocab_to_multiple_of,
        )
        self.query_embedding = nnx.Param(init.draw(query_key, (model_dim,)), axes=("embed",))
        self.stack = RelativeStack(config.stack, key=stack_key)
        self.heads = Heads(config.heads, config.embeddings, model_dim, key=heads_key, init=init)
        self.config = config

    def __call__(
        self,
        batch: Batch,
        *,
        dropout_key: Key[Array, ""] | None = None,
        memory: Memory | None = None,
    ) -> Predictions:
        """Return scores of every position of the encoder's stream, and the updated memory.

        With ``batch.ranks``, the order of prediction, or ``batch.attention_mask``, the same as a mask, each token is
        predicted from the tokens visible to it and not from itself. Without them every token is known, as in
        fine-tuning. Rows where ``batch.continues`` is 1 attend to their part of the memory.
        """
        segment_ids = batch.encoder_segment_ids
        memory = recall_memory(memory, batch)
        mask = segment_mask(segment_ids, segment_ids)
        if batch.attention_mask is not None:
            mask = combine_masks(mask, batch.attention_mask[:, None])
        if batch.ranks is not None:
            mask = combine_masks(mask, strict_rank_mask(batch.ranks))
        read = self.read(
            batch.encoder_input_tokens,
            mask=mask,
            token_types=batch.token_types,
            with_queries=batch.attention_mask is not None or batch.ranks is not None,
            zero_fully_masked=True,
            memory=None if memory is None else memory.states,
            memory_mask=None if memory is None else memory_mask_of(memory, segment_ids),
            keep_memory=memory is not None,
            dropout_key=dropout_key,
        )
        if memory is not None and read.memory is not None:
            segments = jnp.ones_like(batch.encoder_input_tokens) if segment_ids is None else segment_ids
            memory = Memory(read.memory, visible_after(memory, segments[:, : self.config.reuse_length]))
        logits, pooled, scores = self.heads(
            read.output, self.embedding, segment_ids, dropout_key=fold(dropout_key, HEADS_SITE)
        )
        return Predictions(
            logits=logits,
            encoder_output=read.output,
            pooled=pooled,
            heads=scores,
            memory=memory,
        )

    def read(
        self,
        tokens: Int[Array, "B L"],
        *,
        mask: Bool[Array, "B 1 #L L"] | None = None,
        token_types: Int[Array, "B L"] | None = None,
        with_queries: bool = False,
        target_mapping: Float[Array, "B T L"] | None = None,
        zero_fully_masked: bool = False,
        memory: Float[Array, "N B P D"] | None = None,
        memory_mask: Bool[Array, "B 1 #L P"] | None = None,
        keep_memory: bool = False,
        dropout_key: Key[Array, ""] | None = None,
    ) -> TwoStreamOutput:
        """Run the stack over one segment.

        Args:
          tokens: Token ids of the segment.
          mask: ``False`` prevents attention to a key of the segment; the content stream always attends to itself.
          token_types: Ids of text segments, which are 0 in the memory; ``None`` doesn't distinguish any.
          with_queries: Run the query stream too.
          target_mapping: One-hot rows with the position of each query; ``None`` has a query at every position.
          zero_fully_masked: See ``RelativeAttention``.
          memory: Inputs of all blocks at earlier positions.
          memory_mask: ``False`` prevents attention to a key of the memory.
          keep_memory: Return the memory for the following segment.
          dropout_key: ``None`` for no dropout.
        """
        batch_size, length = tokens.shape
        past = 0 if memory is None else memory.shape[2]
        dtype = jnp.dtype(self.config.compute_dtype)
        num_queries = length if target_mapping is None else target_mapping.shape[1]
        queries = jnp.broadcast_to(
            self.query_embedding[...].astype(dtype), (batch_size, num_queries, self.config.stack.model_dim)
        )
        streams = Streams(self.embedding(tokens, dtype), queries if with_queries else None)
        context = self._context(length, past, mask, memory_mask, token_types)
        context = context._replace(target_mapping=target_mapping, zero_fully_masked=zero_fully_masked)
        with named_activations.scope("encoder"):
            ran = self.stack(
                streams, memory, context, dropout_key=fold(dropout_key, 0), collect_inputs=keep_memory
            )
        content, queries = ran.streams
        remembered = None
        if ran.inputs is not None:
            reused = ran.inputs.content[:, :, : self.config.reuse_length]
            remembered = remember(memory, reused, length=self.config.memory_length)
        return TwoStreamOutput(content if queries is None else queries, remembered)

    def new_memory(self, num_rows: int) -> Memory | None:
        """Return the empty memory that training begins with; ``None`` where its length is not limited."""
        length, stack = self.config.memory_length, self.config.stack
        if length is None:
            return None
        dtype = jnp.dtype(self.config.compute_dtype)
        return start_memory(jnp.zeros((stack.num_layers, num_rows, length, stack.model_dim), dtype))

    def start_cache(
        self,
        prompts: Int[Array, "B M"],
        prompt_mask: Int[Array, "B M"] | None = None,
        *,
        max_new_tokens: int,
    ) -> tuple[Int[Array, " B"], TwoStreamCache]:
        """Put all tokens of the prompts but the last into a new cache.

        Args:
          prompts: Token ids.
          prompt_mask: 1 for real tokens; padding must be on the left.
          max_new_tokens: Room in the cache for new tokens.

        Returns:
          The prompts' last tokens, for the first ``decode_step``, and the cache.
        """
        real = jnp.ones(prompts.shape, bool) if prompt_mask is None else prompt_mask > 0
        room = ((0, 0), (0, max_new_tokens))
        cache = TwoStreamCache(
            tokens=jnp.pad(prompts, room),
            real=jnp.pad(real, room, constant_values=True),
            index=jnp.asarray(prompts.shape[1] - 1, jnp.int32),
        )
        return prompts[:, -1], cache

    def decode_step(
        self, tokens: Int[Array, " R"], cache: TwoStreamCache
    ) -> tuple[Float[Array, "R V"], TwoStreamCache]:
        """Read each row's tokens up to the given one again, and return scores of the next one and the updated cache."""
        written = jax.lax.dynamic_update_slice_in_dim(cache.tokens, tokens[:, None], cache.index, axis=1)
        indices = jnp.arange(written.shape[1])
        known = cache.real & (indices <= cache.index)[None]
        target = jnp.broadcast_to(indices == cache.index + 1, (len(tokens), 1, len(indices)))
        read = self.read(
            written,
            mask=known[:, None, None],
            with_queries=True,
            target_mapping=target.astype(jnp.float32),
        )
        assert self.heads.lm_head is not None, "a model without a head over the vocabulary can't generate"
        logits = self.heads.lm_head.logits(read.output, self.embedding)[:, 0]
        return logits, cache._replace(tokens=written, index=cache.index + 1)

    def reorder_cache(self, cache: TwoStreamCache, origins: Int[Array, "B J"]) -> TwoStreamCache:
        """Return the cache in which beam ``j`` of input ``b`` is its former beam ``origins[b, j]``."""
        rows = beam_rows(origins, num_rows=len(cache.tokens))
        return cache._replace(tokens=cache.tokens[rows], real=cache.real[rows])

    def keep_inputs(self, cache: TwoStreamCache, inputs: Int[Array, " C"], num_inputs: int) -> TwoStreamCache:
        """Return the cache of the inputs with the given indices, out of ``num_inputs``."""
        rows = input_rows(inputs, num_rows=len(cache.tokens), num_inputs=num_inputs)
        return cache._replace(tokens=cache.tokens[rows], real=cache.real[rows])

    def _context(
        self,
        length: int,
        past: int,
        mask: Bool[Array, "B 1 #L L"] | None,
        memory_mask: Bool[Array, "B 1 #L P"] | None,
        token_types: Int[Array, "B L"] | None,
    ) -> RelativeAttentionContext:
        config, num_keys = self.config, past + length
        distances = distances_between(length, num_keys, bidirectional=config.direction == "bidirectional")
        own = None if mask is None else mask | jnp.eye(length, dtype=bool)[None, None]
        query_mask = join_memory_mask(mask, memory_mask, length=length, past=past)
        content_mask = join_memory_mask(own, memory_mask, length=length, past=past)
        if config.direction != "bidirectional":
            reach = past if config.direction == "unidirectional_same_length" else None
            seen = past_mask(length, num_keys, reach=reach)
            query_mask, content_mask = combine_masks(query_mask, seen), combine_masks(content_mask, seen)
        is_other_segment = None
        if token_types is not None:
            types_BM = jnp.pad(token_types, ((0, 0), (past, 0)))
            is_other_segment = token_types[:, :, None] != types_BM[:, None, :]
        return RelativeAttentionContext(
            distances=encode_distances(
                distances,
                config.stack.model_dim,
                jnp.dtype(config.compute_dtype),
                max_distance=config.stack.max_distance,
            ),
            mask=content_mask,
            query_mask=query_mask,
            is_other_segment=is_other_segment,
        )
