"""Input embeddings: the sum of word, position and type embeddings, normalized and projected where configured."""

from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from t5x_like.config_class import config_class
from t5x_like.model.layers.linear import Linear, Normal, matmul
from t5x_like.model.layers.norm import NormConfig
from t5x_like.model.layers.sinusoids import SinusoidalPositions, sinusoids, sinusoids_of

_FEW_ROWS = 16


class Embedding(nnx.Module):
    """A table of vectors [V, D].

    Args:
      num_rows: Number of ids.
      model_dim: Width of the vectors.
      key: Random key of the fresh table.
      stddev: Standard deviation of the fresh table.
      multiple: The table is padded with zero rows to a multiple of this number, so that a mesh can split it.
      axes: Names of the table's dimensions for the partitioning rules.
    """

    def __init__(
        self,
        num_rows: int,
        model_dim: int,
        *,
        key: Key[Array, ""],
        stddev: float = 1.0,
        multiple: int = 1,
        axes: tuple[str, str] = ("vocab", "embed"),
    ):
        table = stddev * jax.random.normal(key, (num_rows, model_dim))
        self.table = nnx.Param(jnp.pad(table, ((0, -num_rows % multiple), (0, 0))), axes=axes)
        self.num_rows = num_rows
        self.adapter: str | None = None

    def __call__(self, ids: Int[Array, "B L"], dtype: jnp.dtype) -> Float[Array, "B L D"]:
        """Return the vectors of ``ids``; an id outside the table gives not-a-number, which no loss hides."""
        vectors = self.rows_of(self.table[...].astype(dtype), ids)
        return vectors if self.adapter is None else vectors + getattr(self, self.adapter)(self, ids, dtype)

    def rows_of(self, table: Float[Array, "V F"], ids: Int[Array, "B L"]) -> Float[Array, "B L F"]:
        """Return the rows of some ids in a table like this one; an id outside it gives not-a-number.

        Args:
          table: Table of as many rows.
          ids: Indices of rows.
        """
        ids = jnp.where((ids >= 0) & (ids < self.num_rows), ids, len(table))
        return _rows_of_few(table, ids) if len(table) <= _FEW_ROWS else _rows_of(table, ids)

    def first(self, num_rows: int, dtype: jnp.dtype, *, start: int = 0) -> Float[Array, "1 {num_rows} D"]:
        """Return the vectors of so many ids from ``start`` on, for all rows of a batch.

        Args:
          num_rows: Number of ids.
          dtype: Type of the vectors.
          start: First id.
        """
        if self.adapter is not None:
            return self(jnp.arange(start, start + num_rows)[None], dtype)
        return self.table[...][None, start : start + num_rows].astype(dtype)

    def adapt(self, name: str, module: nnx.Module) -> None:
        """Let ``module`` change the vectors; its weights are at ``name`` below the table's folder.

        Args:
          name: Attribute for the module.
          module: Called as ``module(embedding, ids, dtype)``, returns what is added; ``module.merged(embedding)``
            returns a table to the same effect.
        """
        setattr(self, name, module)
        self.adapter = name

    def logits(self, x: Float[Array, "B L D"]) -> Float[Array, "B L V"]:
        """Return the inner product of ``x`` with every row, in float32. An adapter changes inputs only, as in PEFT."""
        return matmul(x, self.table[...].astype(x.dtype).T, jnp.float32)


@config_class
class LearnedPositions:
    """Learned position embeddings.

    Attributes:
      max_position_embeddings: Number of positions, which limits the sequence length.
      offset: Unused rows before position 0: 2 in RoBERTa and BART.
      sinusoidal: The table begins with sinusoids and gets no gradient. Files may have another one (PEGASUS).
    """

    max_position_embeddings: int
    offset: int = 0
    sinusoidal: bool = False


@config_class
class EmbeddingsConfig:
    """Sum of word, position and type embeddings. Type ids that a batch lacks count as 0.

    Attributes:
      vocab_size: Number of token ids.
      embed_dim: Width of the tables.
      positions: Learned position embeddings; ``None`` where positions act in attention.
      sinusoidal_positions: Adds sinusoids of the positions; ``None`` for none.
      block_positions: Learned embeddings of positions inside a masked span (GLM).
      num_token_types: Types of tokens, such as first and second sentence (BERT); 0 for none.
      num_task_types: Types of pretraining tasks (ERNIE 2.0); 0 for none.
      norm: Norm of the sum; ``None`` for none.
      projected: Projects the normalized sum from ``embed_dim`` to the stack's width (ALBERT, ELECTRA);
        ``"before_norm"`` projects before the norm, without a bias (DeBERTa).
      scale: Multiplies word embeddings (Gemma: the square root of the width).
      stddev: Standard deviation of fresh tables.
      pad_vocab_to_multiple_of: The word table is padded to a multiple of this many rows, so that a mesh can split it.
    """

    vocab_size: int
    embed_dim: int
    positions: LearnedPositions | None = None
    sinusoidal_positions: SinusoidalPositions | None = None
    block_positions: LearnedPositions | None = None
    num_token_types: int = 0
    num_task_types: int = 0
    norm: NormConfig | None = None
    projected: bool | Literal["before_norm"] = False
    scale: float = 1.0
    stddev: float = 1.0
    pad_vocab_to_multiple_of: int = 128

    def __post_init__(self) -> None:
        for name in ("vocab_size", "embed_dim", "pad_vocab_to_multiple_of"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a positive number")

    @property
    def padded_vocab_size(self) -> int:
        """Rows of the word table, padding included."""
        return self.vocab_size + -self.vocab_size % self.pad_vocab_to_multiple_of


class Embeddings(nnx.Module):
    """Input embeddings of a stack.

    Args:
      config: Tables and their sizes.
      model_dim: Width of the stack.
      key: Random key of fresh weights.
      with_words: ``False`` leaves out the word table, for a decoder that uses its encoder's.

    Attributes:
      prompt: Learned word embeddings of virtual tokens, whose ids are -1, -2 and so on (Lester et al. 2021); ``None``
        for none.
    """

    def __init__(
        self,
        config: EmbeddingsConfig,
        model_dim: int,
        *,
        key: Key[Array, ""],
        with_words: bool = True,
    ):
        keys = jax.random.split(key, 6)
        table = {"stddev": config.stddev, "multiple": config.pad_vocab_to_multiple_of}
        self.tokens = (
            Embedding(config.vocab_size, config.embed_dim, key=keys[0], **table) if with_words else None
        )

        def small(num_rows: int, key: Array) -> Embedding | None:
            axes = ("positions", "embed")
            rows = num_rows, config.embed_dim
            return Embedding(*rows, key=key, stddev=config.stddev, axes=axes) if num_rows else None

        self.positions = small(_rows(config.positions), keys[1])
        if self.positions is not None and config.positions is not None and config.positions.sinusoidal:
            table = self.positions.table
            rows = jnp.arange(len(table))[None] - config.positions.offset
            table[...] = sinusoids(rows, table.shape[-1], SinusoidalPositions())[0]
        sinusoidal = config.sinusoidal_positions
        is_scaled = sinusoidal is not None and sinusoidal.scaled
        self.position_scale = nnx.Param(jnp.ones(()), axes=()) if is_scaled else None
        self.block_positions = small(_rows(config.block_positions), keys[2])
        self.token_types = small(config.num_token_types, keys[3])
        self.task_types = small(config.num_task_types, keys[4])
        width = model_dim if config.projected == "before_norm" else config.embed_dim
        self.norm = None if config.norm is None else config.norm.build(width)
        self.projection = projection_to(model_dim, config, key=keys[5])
        self.prompt: nnx.Module | None = None
        self.config = config

    def __call__(
        self,
        tokens: Int[Array, "B L"],
        *,
        dtype: jnp.dtype,
        positions: Int[Array, "B L"] | None = None,
        block_positions: Int[Array, "B L"] | None = None,
        token_types: Int[Array, "B L"] | None = None,
        task_types: Int[Array, "B L"] | None = None,
    ) -> Float[Array, "B L D"]:
        """Return the stack's inputs.

        Args:
          tokens: Token ids.
          dtype: Type of the activations.
          positions: Positions of the tokens; ``None`` counts from 0 in each row.
          block_positions: Positions inside masked spans (GLM).
          token_types: Ids of token types.
          task_types: Ids of task types.

        Raises:
          ValueError: There are more tokens than learned positions.
        """
        summed = self.unprojected(
            self.words(tokens, dtype),
            tokens,
            positions=positions,
            block_positions=block_positions,
            token_types=token_types,
            task_types=task_types,
        )
        return self.project(summed)

    @property
    def num_virtual_tokens(self) -> int:
        """Length of the prompt; 0 without one."""
        return 0 if self.prompt is None else self.prompt.length  # pyright: ignore[reportAttributeAccessIssue, reportReturnType]

    def words(self, tokens: Int[Array, "B L"], dtype: jnp.dtype) -> Float[Array, "B L E"]:
        """Return scaled word embeddings.

        Args:
          tokens: Token ids.
          dtype: Type of the vectors.
        """
        assert self.tokens is not None
        x = self.tokens(tokens, dtype) if self.prompt is None else self.prompt(tokens, self.tokens, dtype)  # pyright: ignore[reportCallIssue]
        # Gemma rounds the factor to the activations' type.
        return x if self.config.scale == 1.0 else x * jnp.asarray(self.config.scale, dtype)

    def unprojected(
        self,
        words: Float[Array, "B L E"],
        tokens: Int[Array, "B L"],
        *,
        positions: Int[Array, "B L"] | None = None,
        block_positions: Int[Array, "B L"] | None = None,
        token_types: Int[Array, "B L"] | None = None,
        task_types: Int[Array, "B L"] | None = None,
    ) -> Float[Array, "B L E"]:
        """Return the sum of all embeddings before projection, normalized unless that comes after it.

        Args:
          words: Word embeddings.
          tokens: Token ids.
          positions: Position of each token; None for its index in the row.
          block_positions: Position inside a masked span (GLM).
          token_types: Type of each token; None for type 0.
          task_types: Type of each token's task; None for type 0.
        """
        x, dtype = words, words.dtype
        if self.positions is not None and self.config.positions is not None:
            learned, freeze = self.config.positions, jax.lax.stop_gradient
            if positions is None:
                _check_length(tokens.shape[1], learned)
                rows = self.positions.first(tokens.shape[1], dtype, start=learned.offset)
                x = _add_to_rows(x, freeze(rows) if learned.sinusoidal else rows)
            else:
                rows = self.positions(positions + learned.offset, dtype)
                x = x + (freeze(rows) if learned.sinusoidal else rows)
        if (sinusoidal := self.config.sinusoidal_positions) is not None:
            vectors = sinusoids_of(tokens, positions, x.shape[-1], sinusoidal)
            if self.position_scale is not None:
                vectors = vectors * self.position_scale[...]
            x = x + vectors.astype(dtype)
        if self.config.num_token_types == 1:  # as RoBERTa has it: all tokens are of that type
            token_types = None
        for table, ids in (
            (self.block_positions, block_positions),
            (self.token_types, token_types),
            (self.task_types, task_types),
        ):
            if table is not None:
                x = _add_to_rows(x, table.first(1, dtype)) if ids is None else x + table(ids, dtype)
        is_later = self.config.projected == "before_norm"
        return x if self.norm is None or is_later else self.norm(x)

    def project(self, x: Float[Array, "B L E"]) -> Float[Array, "B L D"]:
        """Project to the width of the stack, where the tables have another."""
        x = x if self.projection is None else self.projection(x)
        is_left = self.config.projected == "before_norm" and self.norm is not None
        return self.norm(x) if is_left else x  # pyright: ignore[reportOptionalCall]


def projection_to(model_dim: int, config: EmbeddingsConfig, *, key: Key[Array, ""]) -> Linear | None:
    """Return the projection from ``embed_dim`` to ``model_dim``, if ``config`` has one.

    Args:
      model_dim: Width of the hidden states.
      config: Embeddings, whose width may be another.
      key: Random key of the weights.
    """
    if not config.projected:
        return None
    axes, init = ("embed_factor", "embed"), Normal(config.stddev)
    has_bias = config.projected != "before_norm"
    return Linear(config.embed_dim, model_dim, axes=axes, key=key, init=init, bias=has_bias)


def _rows(positions: LearnedPositions | None) -> int:
    return 0 if positions is None else positions.max_position_embeddings + positions.offset


def _check_length(length: int, learned: LearnedPositions) -> None:
    if length > learned.max_position_embeddings:
        raise ValueError(
            f"sequence of {length} tokens exceeds the {learned.max_position_embeddings} learned positions; give "
            "shorter sequences, or a model with more positions"
        )


def _rows_of(table: Array, ids: Array) -> Array:
    return jnp.take(table, ids, axis=0, mode="fill", fill_value=jnp.nan)


# The gradient of few rows is a product. Adding tokens one by one to the rows of types and positions took 113 of the 329
# ms of a step of BERT large on an H200.
_rows_of_few = jax.custom_vjp(_rows_of)


def _few_forward(table: Array, ids: Array) -> tuple[Array, tuple[int, Array]]:
    return _rows_of(table, ids), (len(table), ids)


def _few_backward(kept: tuple[int, Array], gradient: Array) -> tuple[Array, None]:
    num_rows, ids = kept
    is_row = jax.nn.one_hot(ids, num_rows, dtype=gradient.dtype)
    return jnp.einsum("...n,...d->nd", is_row, gradient, precision="highest"), None


_rows_of_few.defvjp(_few_forward, _few_backward)


@jax.custom_vjp
def _add_to_rows(x: Float[Array, "B L E"], vectors: Float[Array, "1 N E"]) -> Float[Array, "B L E"]:
    """Add the same vectors to all rows of a batch; N is L or 1.

    The gradient is a sum over the batch. As a sum, XLA for GPUs makes that dimension the innermost one, and transposes
    activations of all layers that aren't in a loop (639 transpositions of BERT large): it is a product with ones.
    """
    return x + vectors


def _add_forward(x: Array, vectors: Array) -> tuple[Array, Array]:
    return x + vectors, vectors


def _add_backward(vectors: Array, gradient: Array) -> tuple[Array, Array]:
    summed, equation = (1, "nb,bld->nld") if vectors.shape[1] > 1 else (2, "nbl,bld->nd")
    ones = jnp.ones((1, *gradient.shape[:summed]), gradient.dtype)
    precision = "highest" if gradient.dtype == jnp.float32 else None
    sums = jnp.einsum(equation, ones, gradient, precision=precision)
    return gradient, sums.reshape(vectors.shape)


_add_to_rows.defvjp(_add_forward, _add_backward)
