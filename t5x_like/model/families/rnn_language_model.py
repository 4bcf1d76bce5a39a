"""Language models of recurrent layers, whose state continues from batch to batch (Merity et al. 2018)."""

from typing import Literal, TypeAlias

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model.families.family import Predictions, PromptContinuation, as_decoder_batch
from t5x_like.model.families.segment_memory import Memory, recall_memory, start_memory
from t5x_like.model.heads import HEADS_SITE, Heads, HeadsConfig, whole_logits
from t5x_like.model.layers.dropout import check_rate, dropout, fold
from t5x_like.model.layers.embedding import Embeddings, EmbeddingsConfig
from t5x_like.model.layers.kv_cache import beam_rows, input_rows
from t5x_like.model.layers.rnn_cell import RNNState
from t5x_like.model.layers.rnn_stack import RNNOutput, RNNStack, RNNStackConfig

RNNCache: TypeAlias = tuple[RNNState, ...]

_TABLE_SITE, _INPUTS_SITE, _STACK_SITE, _OUTPUTS_SITE = range(4)  # dropout sites


@config_class
class RNNLanguageModelConfig:
    """Embeddings, recurrent layers and heads.

    Attributes:
      embeddings: Input embeddings.
      stack: Recurrent layers, which read rows forward.
      heads: Heads.
      embedding_dropout_rate: Dropout of whole words: all places of a word in a batch (Merity et al. 2018, §4.3).
      input_dropout_rate: Dropout of the first layer's inputs.
      output_dropout_rate: Dropout of the last layer's outputs.
      compute_dtype: Type of activations. Weights, sums and states are float32.
    """

    embeddings: EmbeddingsConfig
    stack: RNNStackConfig
    heads: HeadsConfig
    embedding_dropout_rate: float = 0.0
    input_dropout_rate: float = 0.0
    output_dropout_rate: float = 0.0
    compute_dtype: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        for name in ("embedding_dropout_rate", "input_dropout_rate", "output_dropout_rate"):
            check_rate(name, getattr(self, name))
        if self.stack.direction != "forward":
            raise ValueError(
                f"direction is {self.stack.direction!r}; a language model's layers read 'forward', or they would see "
                "the words to predict"
            )

    def build(self, key: Key[Array, ""]) -> "RNNLanguageModel":
        """Build the model with fresh weights drawn from ``key``."""
        return RNNLanguageModel(self, key=key)


class RNNLanguageModel(PromptContinuation, nnx.Module):
    """Recurrent layers between embeddings and heads."""

    def __init__(self, config: RNNLanguageModelConfig, *, key: Key[Array, ""]):
        embedding_key, stack_key, heads_key = jax.random.split(key, 3)
        self.embedding = Embeddings(config.embeddings, config.stack.input_dim, key=embedding_key)
        self.rnn = RNNStack(config.stack, key=stack_key)
        width = config.stack.output_dims[-1]
        self.heads = Heads(config.heads, config.embeddings, width, key=heads_key, init=config.stack.init)
        self.config = config

    def __call__(
        self,
        batch: Batch,
        *,
        dropout_key: Key[Array, ""] | None = None,
        collect_hidden: bool = False,
        memory: Memory | None = None,
    ) -> Predictions:
        """Return scores of the token after every position, and the updated memory.

        Rows where ``batch.continues`` is 1 begin with the state after the batch before; no gradient reaches that batch
        (truncated backpropagation through time). Hidden states narrower than the widest end with zeros.
        """
        batch = as_decoder_batch(batch)
        segment_ids = batch.decoder_segment_ids
        memory = recall_memory(memory, batch)
        embedded, read = self.read(
            batch.decoder_input_tokens,
            segment_ids,
            None if memory is None else self._states_in(memory),
            dropout_key=dropout_key,
        )
        output_key = fold(dropout_key, _OUTPUTS_SITE)
        output = self.rnn.drop(read.output, self.config.output_dropout_rate, output_key)
        logits, pooled, scores = self.heads(
            output, self.embedding.tokens, segment_ids, dropout_key=fold(dropout_key, HEADS_SITE)
        )
        return Predictions(
            logits=logits,
            decoder_output=output,
            decoder_hidden=read.hidden_states(embedded) if collect_hidden else None,
            pooled=pooled,
            heads=scores,
            memory=None if memory is None else _memory_after(memory, read.states, segment_ids),
        )

    def read(
        self,
        tokens: Int[Array, "B L"],
        segment_ids: Int[Array, "B L"] | None = None,
        states: RNNCache | None = None,
        *,
        dropout_key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B L D"], RNNOutput]:
        """Return the embedded tokens and the outputs of the layers; see ``RNNStack``."""
        embedded = self.embed(tokens, dropout_key=fold(dropout_key, _TABLE_SITE))
        x = self.rnn.drop(embedded, self.config.input_dropout_rate, fold(dropout_key, _INPUTS_SITE))
        return embedded, self.rnn(x, segment_ids, states, dropout_key=fold(dropout_key, _STACK_SITE))

    def embed(
        self, tokens: Int[Array, "B L"], *, dropout_key: Key[Array, ""] | None = None
    ) -> Float[Array, "B L D"]:
        """Return embedded tokens; a dropped word is zero at all its places."""
        config = self.config
        x = self.embedding(tokens, dtype=jnp.dtype(config.compute_dtype))
        if dropout_key is None or config.embedding_dropout_rate == 0.0:
            return x
        words = jnp.ones((config.embeddings.vocab_size,), x.dtype)
        return x * dropout(words, config.embedding_dropout_rate, dropout_key)[tokens][..., None]

    def new_memory(self, num_rows: int) -> Memory:
        """Return the memory that training begins with: a state of zeros."""
        return start_memory(_joined(self.rnn.zero_states(num_rows)))

    def start_cache(
        self,
        prompts: Int[Array, "B M"],
        prompt_mask: Int[Array, "B M"] | None = None,
        *,
        max_new_tokens: int = 1,  # noqa: ARG002 - as of every family; a state needs no room for them
    ) -> tuple[Int[Array, " B"], RNNCache]:
        """Read all tokens of the prompts but the last.

        Args:
          prompts: Token ids.
          prompt_mask: 1 for real tokens; the last token must be one.
          max_new_tokens: As in other families; a state needs no room for new tokens.

        Returns:
          The prompts' last tokens, for the first ``decode_step``, and the states.
        """
        states = self.rnn.zero_states(len(prompts))
        if prompts.shape[1] > 1:
            segment_ids = None if prompt_mask is None else (prompt_mask[:, :-1] > 0).astype(jnp.int32)
            states = self.read(prompts[:, :-1], segment_ids, states)[1].states
        return prompts[:, -1], states

    def decode_step(self, tokens: Int[Array, " R"], cache: RNNCache) -> tuple[Float[Array, "R V"], RNNCache]:
        """Read one token of each row, and return scores of the next one and the updated states."""
        read = self.read(tokens[:, None], None, cache)[1]
        logits = self.heads(read.output, self.embedding.tokens, None)[0]
        assert logits is not None, "a model without a head over the vocabulary can't generate"
        return whole_logits(logits)[:, 0], read.states

    def reorder_cache(self, cache: RNNCache, origins: Int[Array, "B J"]) -> RNNCache:
        """Return the states in which beam ``j`` of input ``b`` is its former beam ``origins[b, j]``."""
        rows = beam_rows(origins, num_rows=len(cache[0].hidden))
        return jax.tree.map(lambda part: part[rows], cache)

    def keep_inputs(self, cache: RNNCache, inputs: Int[Array, " C"], num_inputs: int) -> RNNCache:
        """Return the states of the inputs with the given indices, out of ``num_inputs``."""
        rows = input_rows(inputs, num_rows=len(cache[0].hidden), num_inputs=num_inputs)
        return jax.tree.map(lambda part: part[rows], cache)

    def _states_in(self, memory: Memory) -> RNNCache:
        """Return the states in a memory; zeros for rows that don't continue."""
        joined = jnp.where(memory.real, memory.states[0, :, 0], 0.0)
        parts, tree = jax.tree.flatten(self.rnn.zero_states(len(joined)))
        ends, total = [], 0
        for part in parts[:-1]:
            total += part.shape[-1]
            ends.append(total)
        return jax.tree.unflatten(tree, jnp.split(joined, ends, axis=-1))


def _joined(states: RNNCache) -> Float[Array, "1 B 1 S"]:
    """Return all states of a row one after the other, as one position of a memory."""
    return jnp.concatenate(jax.tree.leaves(states), axis=-1)[None, :, None]


def _memory_after(memory: Memory, states: RNNCache, segment_ids: Int[Array, "B L"] | None) -> Memory:
    """Return the memory of the states; a row of padding leaves it as it was."""
    read = jnp.ones_like(memory.real) if segment_ids is None else jnp.any(segment_ids > 0, axis=1)[:, None]
    return Memory(_joined(states), memory.real | read)
