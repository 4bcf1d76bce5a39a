"""Transformer-XL: a causal stack with a memory of earlier segments (Dai et al. 2019, arXiv:1901.02860)."""

from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.families.family import FamilyName, Predictions, PromptContinuation, as_decoder_batch
from t5x_like.model.families.segment_memory import (
    Memory,
    join_memory_mask,
    memory_mask_of,
    recall_memory,
    start_memory,
    visible_after,
)
from t5x_like.model.heads import HEADS_SITE, Heads, HeadsConfig
from t5x_like.model.layers.adaptive_softmax import AdaptiveConfig, AdaptiveEmbedding, AdaptiveSoftmax
from t5x_like.model.layers.dropout import fold
from t5x_like.model.layers.kv_cache import beam_rows, input_rows
from t5x_like.model.layers.masks import combine_masks, segment_mask
from t5x_like.model.layers.relative_attention import distances_between, encode_distances, past_mask
from t5x_like.model.layers.relative_stack import (
    RelativeAttentionContext,
    RelativeStack,
    RelativeStackConfig,
    Streams,
    remember,
)


@config_class
class RecurrentConfig:
    """Adaptive embeddings, one causal stack with a memory, and an adaptive softmax.

    Attributes:
      words: The vocabulary in clusters.
      stack: Blocks.
      memory_length: Positions of earlier segments that are kept.
      same_length: Every token attends to ``memory_length`` tokens, itself included, and no more.
      scores_words: The model has a head over the vocabulary.
      heads: Other heads.
      compute_dtype: Type of activations. Weights are float32.
    """

    words: AdaptiveConfig
    stack: RelativeStackConfig
    memory_length: int
    same_length: bool = False
    scores_words: bool = True
    heads: HeadsConfig = HeadsConfig()
    compute_dtype: Literal["float32", "bfloat16"] = "float32"

    def build(self, key: Key[Array, ""]) -> "Recurrent":
        """Build the model with fresh weights drawn from ``key``."""
        return Recurrent(self, key=key)


class RecurrentOutput(NamedTuple):
    """Outputs of the stack.

    Attributes:
      output: Output of the last block.
      memory: If kept, the memory for the following segment.
    """

    output: Float[Array, "B L D"]
    memory: Float[Array, "N B Q D"] | None


class RecurrentCache(NamedTuple):
    """State of decoding: the memory, and True where it holds a token."""

    memory: Float[Array, "N R P D"]
    real: Bool[Array, "R P"]


class Recurrent(PromptContinuation, nnx.Module):
    """One causal stack; its logits are log-probabilities."""

    family_name: ClassVar[FamilyName] = "recurrent"

    def __init__(self, config: RecurrentConfig, *, key: Key[Array, ""]):
        embedding_key, stack_key, softmax_key, heads_key = jax.random.split(key, 4)
        model_dim = config.stack.model_dim
        self.embedding = AdaptiveEmbedding(config.words, model_dim, key=embedding_key)
        self.stack = RelativeStack(config.stack, key=stack_key)
        self.softmax = (
            AdaptiveSoftmax(config.words, model_dim, key=softmax_key) if config.scores_words else None
        )
        self.heads = Heads(config.heads, None, model_dim, key=heads_key, init=config.stack.init)
        self.config = config

    def __call__(
        self,
        batch: Batch,
        *,
        dropout_key: Key[Array, ""] | None = None,
        memory: Memory | None = None,
    ) -> Predictions:
        """Return scores of the token after every position, and the updated memory.

        Rows where ``batch.continues`` is 1 attend to their part of the memory.
        """
        batch = as_decoder_batch(batch)
        segment_ids = batch.decoder_segment_ids
        memory = recall_memory(memory, batch)
        mask = segment_mask(segment_ids, segment_ids)
        if batch.attention_mask is not None:
            mask = combine_masks(mask, batch.attention_mask[:, None])
        read = self.read(
            batch.decoder_input_tokens,
            mask=mask,
            memory=None if memory is None else memory.states,
            memory_mask=None if memory is None else memory_mask_of(memory, segment_ids),
            keep_memory=memory is not None,
            dropout_key=dropout_key,
        )
        if memory is not None and read.memory is not None:
            segments = jnp.ones_like(batch.decoder_input_tokens) if segment_ids is None else segment_ids
            memory = Memory(read.memory, visible_after(memory, segments))
        _, pooled, scores = self.heads(
            read.output, None, segment_ids, dropout_key=fold(dropout_key, HEADS_SITE)
        )
        return Predictions(
            logits=None if self.softmax is None else self.scores(read.output),
            decoder_output=read.output,
            pooled=pooled,
            heads=scores,
            memory=memory,
        )

    def read(
        self,
        tokens: Int[Array, "B L"],
        *,
        mask: Bool[Array, "B 1 #L L"] | None = None,
        memory: Float[Array, "N B P D"] | None = None,
        memory_mask: Bool[Array, "B 1 #L P"] | None = None,
        keep_memory: bool = False,
        dropout_key: Key[Array, ""] | None = None,
    ) -> RecurrentOutput:
        """Run the stack over one segment.

        Args:
          tokens: Token ids of the segment.
          mask: ``False`` prevents attention to a key of the segment; later keys never get any.
          memory: Inputs of all blocks at earlier positions.
          memory_mask: ``False`` prevents attention to a key of the memory.
          keep_memory: Return the memory for the following segment.
          dropout_key: ``None`` for no dropout.
        """
        config, dtype = self.config, jnp.dtype(self.config.compute_dtype)
        length, past = tokens.shape[1], 0 if memory is None else memory.shape[2]
        mask = join_memory_mask(mask, memory_mask, length=length, past=past)
        reach = config.memory_length - 1 if config.same_length else None
        distances = distances_between(length, past + length, bidirectional=False)
        context = RelativeAttentionContext(
            distances=encode_distances(
                distances, config.stack.model_dim, dtype, max_distance=config.stack.max_distance
            ),
            mask=combine_masks(mask, past_mask(length, past + length, reach=reach)),
        )
        embedded = self.embedding(tokens, dtype) * jnp.asarray(config.stack.model_dim**0.5, dtype)
        with named_activations.scope("decoder"):
            ran = self.stack(
                Streams(embedded),
                memory,
                context,
                dropout_key=fold(dropout_key, 0),
                collect_inputs=keep_memory,
            )
        remembered = None
        if ran.inputs is not None:
            remembered = remember(memory, ran.inputs.content, length=config.memory_length)
        return RecurrentOutput(ran.streams.content, remembered)

    def scores(self, output: Float[Array, "B L D"]) -> Float[Array, "B L V"]:
        """Return log-probabilities of the token after each position."""
        assert self.softmax is not None, "a model without a head over the vocabulary can't generate"
        return self.softmax(output, self.embedding)

    def empty_memory(self, batch_size: int) -> Float[Array, "N B P D"]:
        """Return zeros, which tokens attend to as to any others: as transformers starts, unlike the paper."""
        stack, dtype = self.config.stack, jnp.dtype(self.config.compute_dtype)
        return jnp.zeros((stack.num_layers, batch_size, self.config.memory_length, stack.model_dim), dtype)

    def new_memory(self, num_rows: int) -> Memory | None:
        """Return the empty memory that training begins with; ``None`` for a model without a memory."""
        return start_memory(self.empty_memory(num_rows)) if self.config.memory_length else None

    def start_cache(
        self,
        prompts: Int[Array, "B M"],
        prompt_mask: Int[Array, "B M"] | None = None,
        *,
        max_new_tokens: int = 1,  # noqa: ARG002 - as of every family; a memory needs no room for them
        memory: Float[Array, "N B P D"] | None = None,
    ) -> tuple[Int[Array, " B"], RecurrentCache]:
        """Read all tokens of the prompts but the last into a new cache.

        Args:
          prompts: Token ids.
          prompt_mask: 1 for real tokens; padding must be on the left.
          max_new_tokens: Number of new tokens; a memory needs no room for them.
          memory: Memory of the text before the prompts; ``None`` where there is none.

        Returns:
          The prompts' last tokens, for the first ``decode_step``, and the cache.

        Raises:
          ValueError: The model has no memory, or one of another length is given.
        """
        length, batch_size = self.config.memory_length, prompts.shape[0]
        if length < 1 or (memory is not None and memory.shape[2] != length):
            present = "none" if memory is None else f"one of {memory.shape[2]}"
            raise ValueError(
                f"decoding needs a memory of memory_length={length} >= 1 positions; there is {present}"
            )
        real = jnp.full((batch_size, length), memory is not None)
        memory = self.empty_memory(batch_size) if memory is None else memory
        cache = RecurrentCache(memory, real)
        if prompts.shape[1] > 1:
            seen = jnp.ones(prompts.shape, bool) if prompt_mask is None else prompt_mask > 0
            cache = self._advance(prompts[:, :-1], seen[:, :-1], cache)[1]
        return prompts[:, -1], cache

    def decode_step(
        self, tokens: Int[Array, " R"], cache: RecurrentCache
    ) -> tuple[Float[Array, "R V"], RecurrentCache]:
        """Read one token of each row, and return scores of the next one and the updated cache."""
        output, cache = self._advance(tokens[:, None], jnp.ones((len(tokens), 1), bool), cache)
        return self.scores(output)[:, 0], cache

    def reorder_cache(self, cache: RecurrentCache, origins: Int[Array, "B J"]) -> RecurrentCache:
        """Return the cache in which beam ``j`` of input ``b`` is its former beam ``origins[b, j]``."""
        rows = beam_rows(origins, num_rows=len(cache.real))
        return RecurrentCache(cache.memory[:, rows], cache.real[rows])

    def keep_inputs(self, cache: RecurrentCache, inputs: Int[Array, " C"], num_inputs: int) -> RecurrentCache:
        """Return the cache of the inputs with the given indices, out of ``num_inputs``."""
        rows = input_rows(inputs, num_rows=len(cache.real), num_inputs=num_inputs)
        return RecurrentCache(cache.memory[:, rows], cache.real[rows])

    def _advance(
        self, tokens: Int[Array, "R L"], real: Bool[Array, "R L"], cache: RecurrentCache
    ) -> tuple[Float[Array, "R L D"], RecurrentCache]:
        read = self.read(
            tokens,
            mask=real[:, None, None],
            memory=cache.memory,
            memory_mask=cache.real[:, None, None],
            keep_memory=True,
        )
        assert read.memory is not None
        real = jnp.concatenate([cache.real, real], axis=1)[:, tokens.shape[1] :]
        return read.output, RecurrentCache(read.memory, real)
