"""TransE: vectors of a graph's entities, between which relations are translations (Bordes et al. 2013).

https://papers.nips.cc/paper/5071-translating-embeddings-for-modeling-multi-relational-data.
"""

import functools
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.ancestors.word_vectors.link_prediction import KnowledgeGraph
from t5x_like.ancestors.word_vectors.training_batches import check_loss, check_settings, stacked_batches
from t5x_like.ancestors.word_vectors.word_vectors import WordVectors
from t5x_like.io.progress import Progress

Distance: TypeAlias = Literal["l1", "l2"]

_LEAST_SQUARE = 1e-12  # under the root of a distance, whose slope at 0 is infinite


class TransETables(NamedTuple):
    """Weights: a vector of length 1 for each entity, and one of any length for each relation.

    Attributes:
      entities: float32 [E, D].
      relations: float32 [R, D].
    """

    entities: Float[Array, "E D"]
    relations: Float[Array, "R D"]


class GraphVectors(NamedTuple):
    """Vectors of a graph.

    Attributes:
      entities: Vectors of entities by name.
      relations: Vectors of relations by name.
    """

    entities: WordVectors
    relations: WordVectors


@dataclass(frozen=True, kw_only=True)
class TransE:
    """Translations with a margin loss (algorithm 1).

    A triple ``(h, r, t)`` learns ``max(0, margin + d(h + r, t) - d(h' + r, t'))``, where either head or tail of the
    wrong triple is a random entity. Entities have length 1 after each step. Wrong triples may be right by chance.

    Attributes:
      dim: Dimensions of the vectors; ERNIE has 100.
      margin: Distance by which wrong triples are to be farther.
      distance: Sum of absolute differences, ``"l1"``, or Euclidean distance, ``"l2"``.
      epochs: Times that the graph is read; the paper has at most 1,000.
      learning_rate: Rate of gradient descent, which stays the same.
      batch_size: Triples whose gradients are added up to one step.
      seed: Seed of fresh vectors, order and wrong triples.
    """

    dim: int = 100
    margin: float = 1.0
    distance: Distance = "l1"
    epochs: int = 100
    learning_rate: float = 0.01
    batch_size: int = 128
    seed: int = 0

    def __post_init__(self) -> None:
        check_settings(
            dim=self.dim,
            margin=self.margin,
            epochs=self.epochs,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
        )
        if self.distance not in get_args(Distance):
            raise ValueError(f"distance is {self.distance!r}; choose l1 or l2")

    def train(self, graph: KnowledgeGraph, *, progress: bool = False) -> tuple[GraphVectors, list[float]]:
        """Return the vectors, and the mean loss of a triple in each epoch.

        Args:
          graph: Triples to learn.
          progress: Show a progress bar.

        Raises:
          ValueError: Training diverged.
        """
        rng, key = np.random.default_rng(self.seed), jax.random.key(self.seed)
        tables = self.fresh(graph, jax.random.fold_in(key, 0))
        losses, total, columns = [], self.epochs * len(graph.triples), tuple(graph.triples.T)
        with Progress("TransE", total, "triples", shown=progress) as bar:
            for epoch in range(self.epochs):
                epoch_loss = 0.0
                for group_index, (share, triples, is_real) in enumerate(
                    stacked_batches(columns, self.batch_size, rng)
                ):
                    step_key = jax.random.fold_in(jax.random.fold_in(key, epoch + 1), group_index)
                    tables, loss = _train_steps(
                        tables, triples, is_real, step_key, self.learning_rate, self.margin, self.distance
                    )
                    epoch_loss += float(loss)
                    bar.reach(int((epoch + share) * len(graph.triples)))
                check_loss(epoch_loss)
                losses.append(epoch_loss / len(graph.triples))
                bar.relabel(f"TransE, loss {losses[-1]:.3f}")
            bar.reach(total)
        entities, relations = (np.asarray(table) for table in tables)
        return GraphVectors(
            WordVectors(graph.entities, entities), WordVectors(graph.relations, relations)
        ), losses

    def fresh(self, graph: KnowledgeGraph, key: Key[Array, ""]) -> TransETables:
        """Draw vectors evenly from ``±6 / sqrt(dim)``, and give them length 1.

        Args:
          graph: Entities and relations.
          key: Random key.
        """
        limit = 6 / self.dim**0.5
        tables = (
            jax.random.uniform(each, (len(names), self.dim), minval=-limit, maxval=limit)
            for each, names in zip(jax.random.split(key), (graph.entities, graph.relations), strict=True)
        )
        return TransETables(*map(unit, tables))


def unit(vectors: Float[Array, "*rows D"]) -> Float[Array, "*rows D"]:
    """Return vectors of length 1."""
    return vectors / jnp.linalg.norm(vectors, axis=-1, keepdims=True)


def translation_distance(
    heads: Float[Array, "*rows D"],
    relations: Float[Array, "*rows D"],
    tails: Float[Array, "*rows D"],
    distance: Distance,
) -> Float[Array, "*rows"]:
    """Return ``d(h + r, t)``.

    Args:
      heads: ``h``.
      relations: ``r``.
      tails: ``t``.
      distance: ``d``.
    """
    difference = heads + relations - tails
    if distance == "l1":
        return jnp.sum(jnp.abs(difference), axis=-1)
    return jnp.sqrt(jnp.sum(jnp.square(difference), axis=-1) + _LEAST_SQUARE)


def margin_losses(
    right: tuple[Float[Array, "B D"], Float[Array, "B D"], Float[Array, "B D"]],
    wrong: tuple[Float[Array, "B D"], Float[Array, "B D"], Float[Array, "B D"]],
    margin: float,
    distance: Distance,
) -> Float[Array, "B"]:
    """Return ``max(0, margin + d(h + r, t) - d(h' + r, t'))`` of each pair of triples (equation 1).

    Args:
      right: Heads, relations and tails of triples of the graph.
      wrong: Heads, relations and tails of corrupted triples.
      margin: Distance by which they are to be farther.
      distance: ``d``.
    """
    return jax.nn.relu(
        margin + translation_distance(*right, distance) - translation_distance(*wrong, distance)
    )


def corrupt(
    heads: Int[Array, "B"], tails: Int[Array, "B"], num_entities: int, key: Key[Array, ""]
) -> tuple[Int[Array, "B"], Int[Array, "B"]]:
    """Return heads and tails of which one is another entity, in half of the triples the head.

    Args:
      heads: Entities.
      tails: Entities.
      num_entities: Number of entities to draw from.
      key: Random key.
    """
    side_key, entity_key = jax.random.split(key)
    is_head = jax.random.bernoulli(side_key, 0.5, heads.shape)
    old = jnp.where(is_head, heads, tails)
    drawn = jax.random.randint(entity_key, heads.shape, 0, num_entities - 1)
    new = drawn + (drawn >= old)  # any but the old one
    return jnp.where(is_head, new, heads), jnp.where(is_head, tails, new)


@functools.partial(jax.jit, donate_argnums=0, static_argnames=("distance",))
def _train_steps(
    tables: TransETables,
    triples: tuple[Int[Array, "S B"], Int[Array, "S B"], Int[Array, "S B"]],
    is_real: Bool[Array, "S B"],
    key: Key[Array, ""],
    rate: float,
    margin: float,
    distance: Distance,
) -> tuple[TransETables, Float[Array, ""]]:
    def step(tables: TransETables, batch: tuple) -> tuple[TransETables, Array]:
        (heads, relations, tails), is_real, key = batch
        wrong = corrupt(heads, tails, len(tables.entities), key)
        entities = jnp.stack([heads, tails, *wrong])

        def total(vectors: Array, translations: Array) -> Array:
            right, bad = ((vectors[side], translations, vectors[side + 1]) for side in (0, 2))
            return jnp.sum(jnp.where(is_real, margin_losses(right, bad, margin, distance), 0))

        loss, (of_entities, of_relations) = jax.value_and_grad(total, argnums=(0, 1))(
            tables.entities[entities], tables.relations[relations]
        )
        moved = tables.entities.at[entities].add(-rate * of_entities)
        # Others have length 1 already.
        return TransETables(
            moved.at[entities].set(unit(moved[entities])),
            tables.relations.at[relations].add(-rate * of_relations),
        ), loss

    tables, losses = jax.lax.scan(step, tables, (triples, is_real, jax.random.split(key, len(is_real))))
    return tables, jnp.sum(losses)
