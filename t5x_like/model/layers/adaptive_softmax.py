"""Adaptive softmax and input embeddings for large vocabularies.

Grave et al. 2017, https://arxiv.org/abs/1609.04309; Baevski and Auli 2019, https://arxiv.org/abs/1809.10853. Ids are
sorted by frequency and cut into clusters. The first softmax covers the most frequent words and one entry for each
further cluster; each further cluster has a softmax of its own. Rarer clusters can have narrower embeddings.
"""

from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from t5x_like.config_class import config_class
from t5x_like.model.layers.embedding import Embedding
from t5x_like.model.layers.linear import Linear, Normal, matmul


class Cluster(NamedTuple):
    """A range of ids.

    Attributes:
      start: First id.
      stop: One more than the last id.
      dim: Width of the cluster's embeddings.
    """

    start: int
    stop: int
    dim: int


@config_class
class AdaptiveConfig:
    """A vocabulary in clusters of falling frequency. Names are those of transformers' TransfoXL.

    Attributes:
      vocab_size: Number of token ids.
      embed_dim: Width of the first cluster's embeddings.
      cutoffs: First id of each further cluster, rising; empty for one plain softmax.
      div_val: Each cluster's embeddings are this many times narrower than those of the cluster before.
      tie_word_embeddings: The softmax uses the embeddings' tables.
      tie_projections: For each cluster, if its softmax uses the embeddings' projection. Clusters beyond the end of
        the tuple have projections of their own.
      stddev: Standard deviation of fresh tables.
      projection_stddev: Standard deviation of fresh projections.
      pad_vocab_to_multiple_of: Each table is padded to a multiple of this many rows, so that a mesh can split it.
    """

    vocab_size: int
    embed_dim: int
    cutoffs: tuple[int, ...] = ()
    div_val: int = 1
    tie_word_embeddings: bool = True
    tie_projections: tuple[bool, ...] = ()
    stddev: float = 0.02
    projection_stddev: float = 0.01
    pad_vocab_to_multiple_of: int = 128

    def __post_init__(self) -> None:
        borders = (0, *self.cutoffs, self.vocab_size)
        if list(borders) != sorted(set(borders)):
            raise ValueError(
                f"cutoffs are {self.cutoffs}; give rising ids between 0 and the vocabulary's {self.vocab_size}"
            )
        if self.div_val < 1 or self.clusters[-1].dim < 1:
            raise ValueError(
                f"embeddings {self.embed_dim} wide can't be divided by div_val={self.div_val} for each of "
                f"{len(self.cutoffs)} cutoffs"
            )

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        """Clusters, from the most frequent words on."""
        borders = (0, *self.cutoffs, self.vocab_size)
        return tuple(
            Cluster(start, stop, self.embed_dim // self.div_val**index)
            for index, (start, stop) in enumerate(pairwise(borders))
        )

    @property
    def tables(self) -> tuple[Cluster, ...]:
        """Clusters that have a table: each one, or a single table for all ids where ``div_val`` is 1."""
        return self.clusters if self.div_val > 1 else (Cluster(0, self.vocab_size, self.embed_dim),)

    def num_rows(self, table: Cluster) -> int:
        """Return the padded number of rows of a table."""
        rows = table.stop - table.start
        return rows + -rows % self.pad_vocab_to_multiple_of

    def is_projected(self, model_dim: int) -> bool:
        """Return True if embeddings are projected to ``model_dim``."""
        return self.div_val > 1 or self.embed_dim != model_dim

    def is_tied(self, cluster: int) -> bool:
        """Return True if cluster ``cluster`` of the softmax uses the embeddings' projection."""
        return cluster < len(self.tie_projections) and self.tie_projections[cluster]


def _tables(config: AdaptiveConfig, key: Array) -> dict[str, Embedding]:
    return {
        str(index): Embedding(
            table.stop - table.start,
            table.dim,
            key=jax.random.fold_in(key, index),
            stddev=config.stddev,
            multiple=config.pad_vocab_to_multiple_of,
        )
        for index, table in enumerate(config.tables)
    }


class AdaptiveEmbedding(nnx.Module):
    """Looks ids up in their clusters' tables and projects the vectors to ``model_dim``."""

    def __init__(self, config: AdaptiveConfig, model_dim: int, *, key: Key[Array, ""]):
        tables_key, projections_key = jax.random.split(key)
        self.tables = nnx.Dict(_tables(config, tables_key))
        self.projections = nnx.Dict()
        for index, table in enumerate(config.tables if config.is_projected(model_dim) else ()):
            self.projections[str(index)] = Linear(
                table.dim,
                model_dim,
                axes=("embed_factor", "embed"),
                key=jax.random.fold_in(projections_key, index),
                init=Normal(config.projection_stddev),
            )
        self.config = config

    def __call__(self, ids: Int[Array, "B L"], dtype: jnp.dtype) -> Float[Array, "B L D"]:
        """Return embeddings in ``dtype``; an id outside the vocabulary gives not-a-number."""
        total = None
        for index, table in enumerate(self.config.tables):
            inside = (ids >= table.start) & (ids < table.stop)
            vectors = self.tables[str(index)](jnp.where(inside, ids - table.start, 0), dtype)
            vectors = self.projections[str(index)](vectors) if self.projections else vectors
            vectors = jnp.where(inside[..., None], vectors, jnp.zeros((), dtype))
            total = vectors if total is None else total + vectors
        assert total is not None
        known = (ids >= 0) & (ids < self.config.vocab_size)
        return jnp.where(known[..., None], total, jnp.full((), jnp.nan, dtype))

    def projection(self, cluster: int) -> Float[Array, "E D"]:
        """Return the kernel from a cluster's embeddings to the residual stream."""
        return self.projections[str(cluster if self.config.div_val > 1 else 0)].merged()[0]


class AdaptiveSoftmax(nnx.Module):
    """Computes log-probabilities of all ids."""

    def __init__(self, config: AdaptiveConfig, model_dim: int, *, key: Key[Array, ""]):
        tables_key, projections_key, clusters_key = jax.random.split(key, 3)
        self.tables = None if config.tie_word_embeddings else nnx.Dict(_tables(config, tables_key))
        self.biases = nnx.Dict(
            {
                str(index): nnx.Param(jnp.zeros((config.num_rows(table),)), axes=("vocab",))
                for index, table in enumerate(config.tables)
            }
        )
        self.projections = nnx.Dict()
        for index, cluster in enumerate(config.clusters if config.is_projected(model_dim) else ()):
            if not config.is_tied(index):
                self.projections[str(index)] = Linear(
                    model_dim,
                    cluster.dim,
                    axes=("embed", "embed_factor"),
                    key=jax.random.fold_in(projections_key, index),
                    init=Normal(config.projection_stddev),
                )
        self.clusters = (
            Linear(
                config.embed_dim,
                len(config.cutoffs),
                axes=("embed_factor", "classes"),
                key=clusters_key,
                init=Normal(config.stddev),
                bias=True,
            )
            if config.cutoffs
            else None
        )
        self.config = config
        self.is_projected = config.is_projected(model_dim)

    def __call__(
        self, x: Float[Array, "B L D"], embedding: AdaptiveEmbedding | None = None
    ) -> Float[Array, "B L V"]:
        """Return float32 log-probabilities of the vocabulary.

        Args:
          x: Outputs of the stack.
          embedding: Input embeddings, whose tables and projections are used where they are tied; ``None`` where
            nothing is.
        """
        clusters = self.config.clusters
        projected = self._project(x, 0, embedding)
        head = self._logits(projected, 0, embedding)
        if self.clusters is not None:
            choice = self.clusters(projected, output_dtype=jnp.dtype(jnp.float32))
            head = jnp.concatenate([head, choice], axis=-1)
        head = jax.nn.log_softmax(head, axis=-1)
        parts = [head[..., : clusters[0].stop]]
        for cluster in range(1, len(clusters)):
            index = clusters[0].stop + cluster - 1
            tail = self._logits(self._project(x, cluster, embedding), cluster, embedding)
            parts.append(head[..., index : index + 1] + jax.nn.log_softmax(tail, axis=-1))
        return jnp.concatenate(parts, axis=-1)

    def _project(
        self, x: Float[Array, "B L D"], cluster: int, embedding: AdaptiveEmbedding | None
    ) -> Float[Array, "B L E"]:
        if not self.is_projected:
            return x
        if self.config.is_tied(cluster):
            assert embedding is not None, "a tied projection is that of the embeddings"
            return matmul(x, embedding.projection(cluster).astype(x.dtype).T)
        return self.projections[str(cluster)](x)

    def _logits(
        self, x: Float[Array, "B L E"], cluster_index: int, embedding: AdaptiveEmbedding | None
    ) -> Float[Array, "B L C"]:
        cluster, table = (
            self.config.clusters[cluster_index],
            str(cluster_index if self.config.div_val > 1 else 0),
        )
        start = cluster.start - self.config.tables[int(table)].start
        rows = slice(start, start + cluster.stop - cluster.start)
        tables = self.tables
        if tables is None:
            assert embedding is not None, "tied tables are those of the embeddings"
            tables = embedding.tables
        weights_CE = tables[table].table[...][rows].astype(x.dtype)
        logits = matmul(x, weights_CE.T, jnp.float32)
        return logits + self.biases[table][...][rows][None, None]
