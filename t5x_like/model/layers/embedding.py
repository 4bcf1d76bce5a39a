"""From token ids to the first activations: tables of words, positions and types, added up."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from t5x_like.model.layers.linear import Linear, Normal
from t5x_like.model.layers.norm import NormConfig, norm_of


class Embedding(nnx.Module):
    """A table [V, D]. Rows beyond ``num_rows``, up to a round number that a mesh can cut, belong to no id."""

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

    def __call__(self, ids: Int[Array, "B L"], dtype: jnp.dtype) -> Float[Array, "B L D"]:
        """Looks ids up. One outside the table gives not-a-number, which no loss survives unnoticed."""
        table = self.table[...].astype(dtype)
        ids = jnp.where((ids >= 0) & (ids < self.num_rows), ids, len(table))
        return jnp.take(table, ids, axis=0, mode="fill", fill_value=jnp.nan)

    def logits(self, x: Float[Array, "B L D"]) -> Float[Array, "B L V"]:
        """Scores every row by the inner product with it, in float32."""
        return jnp.matmul(x, self.table[...].astype(x.dtype).T, preferred_element_type=jnp.float32)


@dataclass(frozen=True, kw_only=True)
class LearnedPositions:
    """A vector for each position. ``offset`` rows lie before that of position 0: 2 in RoBERTa and BART."""

    max_position_embeddings: int
    offset: int = 0


@dataclass(frozen=True, kw_only=True)
class EmbeddingsConfig:
    """The sum of all embeddings. Missing types count as 0.

    ``block_positions`` count inside a masked span (GLM). ``embed_dim`` other than the stack's needs ``projected``.
    ``pad_vocab_to_multiple_of``: the table has rows for the next multiple of it. ``scale`` multiplies words (Gemma).
    """

    vocab_size: int
    embed_dim: int
    positions: LearnedPositions | None = None
    block_positions: LearnedPositions | None = None
    num_token_types: int = 0
    num_task_types: int = 0
    norm: NormConfig | None = None
    projected: bool = False
    scale: float = 1.0
    stddev: float = 1.0
    pad_vocab_to_multiple_of: int = 128

    def __post_init__(self) -> None:
        for name in ("vocab_size", "embed_dim", "pad_vocab_to_multiple_of"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a positive number")

    @property
    def padded_vocab_size(self) -> int:
        """The number of rows of the table."""
        return self.vocab_size + -self.vocab_size % self.pad_vocab_to_multiple_of


class Embeddings(nnx.Module):
    """The entrance of a stack. With ``words`` of another's, it has no table of its own for them."""

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
        self.block_positions = small(_rows(config.block_positions), keys[2])
        self.token_types = small(config.num_token_types, keys[3])
        self.task_types = small(config.num_task_types, keys[4])
        self.norm = None if config.norm is None else norm_of(config.norm, config.embed_dim)
        self.projection = projection_to(model_dim, config, key=keys[5])
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
        """Without positions they count from 0.

        Raises:
          ValueError: more tokens than learned positions.
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

    def words(self, tokens: Int[Array, "B L"], dtype: jnp.dtype) -> Float[Array, "B L E"]:
        """The words alone."""
        assert self.tokens is not None
        x = self.tokens(tokens, dtype)
        # Gemma rounds the factor as the activations are.
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
        """Words with what is added to them, normed, as wide as the tables are."""
        x, dtype = words, words.dtype
        if self.positions is not None and self.config.positions is not None:
            positions = _counted(tokens, self.config.positions) if positions is None else positions
            x = x + self.positions(positions + self.config.positions.offset, dtype)
        for table, ids in (
            (self.block_positions, block_positions),
            (self.token_types, token_types),
            (self.task_types, task_types),
        ):
            if table is not None:
                x = x + table(jnp.zeros_like(tokens) if ids is None else ids, dtype)
        return x if self.norm is None else self.norm(x)

    def project(self, x: Float[Array, "B L E"]) -> Float[Array, "B L D"]:
        """As wide as the stack, where tables are not."""
        return x if self.projection is None else self.projection(x)


def projection_to(model_dim: int, config: EmbeddingsConfig, *, key: Key[Array, ""]) -> Linear | None:
    """From the tables' width to a stack's; none where they are as wide."""
    if not config.projected:
        return None
    axes, init = ("embed_factor", "embed"), Normal(config.stddev)
    return Linear(config.embed_dim, model_dim, axes=axes, key=key, init=init, bias=True)


def _rows(positions: LearnedPositions | None) -> int:
    return 0 if positions is None else positions.max_position_embeddings + positions.offset


def _counted(tokens: Int[Array, "B L"], learned: LearnedPositions) -> Int[Array, "B L"]:
    length = tokens.shape[1]
    if length > learned.max_position_embeddings:
        raise ValueError(
            f"sequence of {length} tokens exceeds the {learned.max_position_embeddings} learned positions; give "
            "shorter sequences, or a model with more positions"
        )
    return jnp.broadcast_to(jnp.arange(length), tokens.shape)
