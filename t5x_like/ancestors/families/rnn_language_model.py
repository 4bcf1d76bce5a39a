"""Language models of recurrent layers, whose state continues from batch to batch (Merity et al. 2018)."""

import math
from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeAlias

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key, PyTree

from t5x_like.ancestors.layers.rnn_cell import RNNState
from t5x_like.ancestors.layers.rnn_stack import RNNOutput, RNNStack, RNNStackConfig
from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.families.family import (
    ExtraLoss,
    FamilyName,
    Predictions,
    PromptContinuation,
    as_decoder_batch,
)
from t5x_like.model.families.segment_memory import Memory, recall_memory, start_memory
from t5x_like.model.heads import HEADS_SITE, Heads, HeadsConfig, whole_logits
from t5x_like.model.layers.dropout import check_rate, dropout, fold
from t5x_like.model.layers.embedding import Embeddings, EmbeddingsConfig
from t5x_like.model.layers.kv_cache import beam_rows, input_rows

RNNCache: TypeAlias = tuple[RNNState, ...]

_REGULARIZATIONS = ("activation_regularization", "temporal_activation_regularization")

_TABLE_SITE, _INPUTS_SITE, _STACK_SITE, _OUTPUTS_SITE = range(4)  # dropout sites


@config_class
class PieceReading:
    """Reading of long rows in pieces of equal length, each with the state after the one before.

    Outputs are those of the whole row. All of them enter the head, and gradients reach the last pieces only: BPT3C,
    backpropagation through time for text classification (Howard and Ruder 2018, §3.3,
    https://arxiv.org/abs/1801.06146). Memory of the other pieces doesn't grow with their number. Each piece draws
    dropout of its own.

    Attributes:
      length: Tokens of a piece. Pieces are counted from the last real token of each row, and the first may be shorter.
      num_trained: Pieces at the end that gradients reach, through the states between them, too; ``None`` for all.
    """

    length: int
    num_trained: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("length", self.length), ("num_trained", self.num_trained)):
            if value is not None and value < 1:
                raise ValueError(f"{name} of pieces is {value}; give a positive number")


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
      direction: ``"backward"`` reads rows for heads from their end. Rows of a language model are read as they come:
        those of a backward one come from the end (``ContiguousLM.backward``).
      pieces: Reading of rows for heads in pieces; ``None`` for the whole row at once.
      carries_state: Rows of a language model may continue those of the batch before.
      activation_regularization: Weight of the mean square of the dropped outputs: AR (Merity et al. 2018, §4.6).
      temporal_activation_regularization: Weight of the mean square of the difference between an output and the next
        one, without dropout: TAR (§4.6).
      compute_dtype: Type of activations. Weights, sums and states are float32.
    """

    embeddings: EmbeddingsConfig
    stack: RNNStackConfig
    heads: HeadsConfig
    embedding_dropout_rate: float = 0.0
    input_dropout_rate: float = 0.0
    output_dropout_rate: float = 0.0
    direction: Literal["forward", "backward"] = "forward"
    pieces: PieceReading | None = None
    carries_state: bool = True
    activation_regularization: float = 0.0
    temporal_activation_regularization: float = 0.0
    compute_dtype: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        for name in ("embedding_dropout_rate", "input_dropout_rate", "output_dropout_rate"):
            check_rate(name, getattr(self, name))
        for name in _REGULARIZATIONS:
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; give 0 or a positive number")
        if self.stack.direction != "forward":
            raise ValueError(
                f"direction is {self.stack.direction!r}; a language model's layers read 'forward', or they would see "
                "the words to predict"
            )
        scores = self.heads.scores
        if self.direction == "backward" and scores and (self.heads.lm_head or scores[0].input == "tokens"):
            raise ValueError(
                "direction is 'backward', and this head reads every token in its place; a backward model has heads for "
                "whole rows, and not that over the vocabulary as well"
            )

    def build(self, key: Key[Array, ""]) -> "RNNLanguageModel":
        """Build the model with fresh weights drawn from ``key``."""
        return RNNLanguageModel(self, key=key)


class RNNLanguageModel(PromptContinuation, nnx.Module):
    """Recurrent layers between embeddings and heads."""

    family_name: ClassVar[FamilyName] = "decoder"

    def __init__(self, config: RNNLanguageModelConfig, *, key: Key[Array, ""]):
        embedding_key, stack_key, heads_key = jax.random.split(key, 3)
        self.embedding = Embeddings(config.embeddings, config.stack.input_dim, key=embedding_key)
        self.rnn = RNNStack(config.stack, key=stack_key)
        width = config.stack.output_dims[-1]
        self.heads = Heads(config.heads, config.embeddings, width, key=heads_key, init=config.stack.init)
        self.config = config

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of losses that are logged next to that of the targets."""
        return tuple(name for name in _REGULARIZATIONS if getattr(self.config, name) > 0)

    def __call__(
        self,
        batch: Batch,
        *,
        dropout_key: Key[Array, ""] | None = None,
        memory: Memory | None = None,
    ) -> Predictions:
        """Return scores of the token after every position, and the updated memory.

        Rows where ``batch.continues`` is 1 begin with the state after the batch before; no gradient reaches that batch
        (truncated backpropagation through time). Hidden states narrower than the widest end with zeros.
        """
        is_for_head = batch.decoder_input_tokens is None
        batch = as_decoder_batch(batch)
        tokens, segment_ids = batch.decoder_input_tokens, batch.decoder_segment_ids
        memory = recall_memory(memory, batch)
        is_turned = is_for_head and self.config.direction == "backward"
        if is_turned:
            tokens, segment_ids = _from_the_end(tokens), _from_the_end(segment_ids)
        if is_for_head and self.config.pieces is not None:
            embedded, read = self._read_in_pieces(
                tokens, segment_ids, self.config.pieces, dropout_key=dropout_key
            )
        else:
            states = None if memory is None else self._states_in(memory)
            embedded, read = self.read(tokens, segment_ids, states, dropout_key=dropout_key)
        output_key = fold(dropout_key, _OUTPUTS_SITE)
        output = self.rnn.drop(read.output, self.config.output_dropout_rate, output_key)
        logits, pooled, scores = self.heads(
            output, self.embedding.tokens, segment_ids, dropout_key=fold(dropout_key, HEADS_SITE)
        )
        with named_activations.scope("decoder"):
            axis = 2 if is_turned else ()
            named_activations.keep_hidden(lambda: jnp.flip(read.hidden_states(embedded), axis))
        return Predictions(
            logits=logits,
            decoder_output=_from_the_end(output) if is_turned else output,
            pooled=pooled,
            heads=scores,
            memory=None if memory is None else _memory_after(memory, read.states, segment_ids),
            extra_losses=self._regularization(output, read.output, segment_ids) if self.measured else None,
        )

    def read(
        self,
        tokens: Int[Array, "B L"],
        segment_ids: Int[Array, "B L"] | None = None,
        states: RNNCache | None = None,
        *,
        dropout_key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B L D"], RNNOutput]:
        """Return the embedded tokens and the outputs of the layers; see ``RNNStack``.

        Args:
          tokens: Token ids.
          segment_ids: 0 for padding; each segment begins with a state of zeros. None for one segment without padding.
          states: States before the first token; None for zeros.
          dropout_key: None for no dropout.
        """
        with named_activations.scope("decoder"):
            embedded = self.embed(tokens, dropout_key=fold(dropout_key, _TABLE_SITE))
            embedded = named_activations.edited_hidden(embedded, 0, len(self.config.stack.hidden_dims))
            x = self.rnn.drop(embedded, self.config.input_dropout_rate, fold(dropout_key, _INPUTS_SITE))
            return embedded, self.rnn(x, segment_ids, states, dropout_key=fold(dropout_key, _STACK_SITE))

    def _regularization(
        self,
        dropped: Float[Array, "B L D"],
        output: Float[Array, "B L D"],
        segment_ids: Int[Array, "B L"] | None,
    ) -> dict[str, ExtraLoss]:
        """Return the weighted sums over real tokens of squares' means over units."""
        ids = jnp.ones(output.shape[:2], jnp.int32) if segment_ids is None else segment_ids
        squares = jnp.mean(jnp.square(dropped.astype(jnp.float32)), axis=-1)
        steps = jnp.mean(jnp.square(jnp.diff(output.astype(jnp.float32), axis=1)), axis=-1)
        follows = (ids[:, 1:] == ids[:, :-1]) & (ids[:, 1:] > 0)
        totals = (jnp.sum(squares * (ids > 0)), jnp.sum(steps * follows))
        losses = {
            name: ExtraLoss(total, getattr(self.config, name))
            for name, total in zip(_REGULARIZATIONS, totals, strict=True)
        }
        return {name: losses[name] for name in self.measured}

    def _read_in_pieces(
        self,
        tokens: Int[Array, "B L"],
        segment_ids: Int[Array, "B L"] | None,
        pieces: PieceReading,
        *,
        dropout_key: Key[Array, ""] | None,
    ) -> tuple[Float[Array, "B L D"], RNNOutput]:
        """Return what ``read`` returns of rows with one example each; see ``PieceReading``."""
        num_rows, num_tokens = tokens.shape
        num_pieces = -(-num_tokens // pieces.length)
        num_constant = 0 if pieces.num_trained is None else max(num_pieces - pieces.num_trained, 0)
        segment_ids = jnp.ones_like(tokens) if segment_ids is None else segment_ids
        # All rows end with the last piece, so that the same pieces are trained in each.
        indices = jnp.arange(num_tokens)[None]
        num_after = num_tokens - 1 - jnp.max(jnp.where(segment_ids > 0, indices, 0), axis=1, keepdims=True)

        def cut(rows: Int[Array, "B L"]) -> Int[Array, "N B P"]:
            rows = jnp.take_along_axis(rows, (indices - num_after) % num_tokens, axis=1)
            rows = jnp.pad(rows, ((0, 0), (num_pieces * pieces.length - num_tokens, 0)))
            return jnp.swapaxes(rows.reshape(num_rows, num_pieces, pieces.length), 0, 1)

        def join(parts: Float[Array, "N B P W"]) -> Float[Array, "B L W"]:
            rows = jnp.swapaxes(parts, 0, 1).reshape(num_rows, -1, parts.shape[-1])[:, -num_tokens:]
            return jnp.take_along_axis(rows, ((indices + num_after) % num_tokens)[..., None], axis=1)

        def reading_with(model: "RNNLanguageModel") -> Callable[[RNNCache, PyTree], tuple[RNNCache, PyTree]]:
            def read(states: RNNCache, piece: PyTree) -> tuple[RNNCache, PyTree]:
                (own_tokens, own_ids), key = piece
                embedded, reads = model.read(own_tokens, own_ids, states, dropout_key=key)
                return reads.states, (embedded, reads.output, reads.layers)

            return read

        keys = None if dropout_key is None else jax.random.split(dropout_key, num_pieces)
        every = ((cut(tokens), cut(segment_ids)), keys)
        states, reads = self.rnn.zero_states(num_rows), []
        if num_constant:
            constant = jax.tree.map(jax.lax.stop_gradient, self)
            first = jax.tree.map(lambda rows: rows[:num_constant], every)
            states, read = jax.lax.scan(reading_with(constant), states, first)
            reads.append(read)
        last = jax.tree.map(lambda rows: rows[num_constant:], every)
        states, read = jax.lax.scan(reading_with(self), states, last)
        reads.append(read)
        embedded, output, layers = jax.tree.map(lambda *parts: join(jnp.concatenate(parts)), *reads)
        return embedded, RNNOutput(output, layers, states)

    def embed(
        self, tokens: Int[Array, "B L"], *, dropout_key: Key[Array, ""] | None = None
    ) -> Float[Array, "B L D"]:
        """Return embedded tokens; a dropped word is zero at all its places.

        Args:
          tokens: Token ids.
          dropout_key: None for no dropout.
        """
        config = self.config
        x = self.embedding(tokens, dtype=jnp.dtype(config.compute_dtype))
        if dropout_key is None or config.embedding_dropout_rate == 0.0:
            return x
        words = jnp.ones((config.embeddings.vocab_size,), x.dtype)
        return x * dropout(words, config.embedding_dropout_rate, dropout_key)[tokens][..., None]

    def new_memory(self, num_rows: int) -> Memory | None:
        """Return the memory that training begins with: a state of zeros; ``None`` if no state is carried over."""
        if not self.config.carries_state:
            return None
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
          max_new_tokens: Number of new tokens; a state needs no room for them.

        Returns:
          The prompts' last tokens, for the first ``decode_step``, and the states.
        """
        states = self.rnn.zero_states(len(prompts))
        if prompts.shape[1] > 1:
            segment_ids = None if prompt_mask is None else (prompt_mask[:, :-1] > 0).astype(jnp.int32)
            states = self.read(prompts[:, :-1], segment_ids, states)[1].states
        return prompts[:, -1], states

    def decode_step(self, tokens: Int[Array, " R"], cache: RNNCache) -> tuple[Float[Array, "R V"], RNNCache]:
        """Read one token of each row, and return scores of the next one and the updated states.

        Args:
          tokens: Next token of each row.
          cache: States after the tokens before it.
        """
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


def _from_the_end(rows: Any) -> Any:
    """Return rows with their positions from the last to the first; ``None`` stays ``None``."""
    return None if rows is None else jnp.flip(rows, axis=1)


def _joined(states: RNNCache) -> Float[Array, "1 B 1 S"]:
    """Return all states of a row one after the other, as one position of a memory."""
    return jnp.concatenate(jax.tree.leaves(states), axis=-1)[None, :, None]


def _memory_after(memory: Memory, states: RNNCache, segment_ids: Int[Array, "B L"] | None) -> Memory:
    """Return the memory of the states; a row of padding leaves it as it was."""
    read = jnp.ones_like(memory.real) if segment_ids is None else jnp.any(segment_ids > 0, axis=1)[:, None]
    return Memory(_joined(states), memory.real | read)
