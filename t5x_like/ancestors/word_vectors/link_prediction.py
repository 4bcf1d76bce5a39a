"""Graphs of entities, and link prediction: how near the right entity of a triple is among all (Bordes et al. 2013)."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from t5x_like.ancestors.word_vectors.word_vectors import WordVectors
from t5x_like.io.files import PathLike, as_path
from t5x_like.io.paths import find_file


@dataclass(frozen=True, eq=False)
class KnowledgeGraph:
    """Triples of head, relation and tail.

    Attributes:
      entities: Names of entities.
      relations: Names of relations.
      triples: Numbers of head, relation and tail, int64 [N, 3].
    """

    entities: tuple[str, ...]
    relations: tuple[str, ...]
    triples: np.ndarray


class NamedTriple(NamedTuple):
    """A line of a graph's file.

    Attributes:
      head: Name of an entity.
      relation: Name of a relation.
      tail: Name of an entity.
      location: Source (``file:line``).
    """

    head: str
    relation: str
    tail: str
    location: str


def read_triples(files: Sequence[PathLike]) -> list[NamedTriple]:
    """Read triples: on each line head, relation and tail, separated by tabs.

    Args:
      files: UTF-8 text.

    Raises:
      ValueError: A line has another form, a name has a space, or there is no line. The message names file and line.
    """
    triples = []
    for file in files:
        lines = as_path(find_file(file)).read_text(encoding="utf-8").splitlines()
        for index, line in enumerate(lines, start=1):
            names, location = line.split("\t"), f"{file}:{index}"
            if len(names) != 3 or not all(names):
                raise ValueError(
                    f"{location}: {line[:60]!r} is no triple; head, relation and tail are separated by tabs"
                )
            if spaced := [name for name in names if name.split() != [name]]:
                raise ValueError(
                    f"{location}: the name {spaced[0]!r} has a space, which files of vectors have no place for; write _"
                )
            triples.append(NamedTriple(names[0], names[1], names[2], location))
    if not triples:
        raise ValueError(f"{', '.join(map(str, files))}: no triple; a graph needs at least one")
    return triples


def graph_of(triples: Sequence[NamedTriple]) -> KnowledgeGraph:
    """Return the graph of triples; names are in the order of their first occurrence."""
    entities = tuple(dict.fromkeys(name for each in triples for name in (each.head, each.tail)))
    relations = tuple(dict.fromkeys(each.relation for each in triples))
    if len(entities) < 2:
        raise ValueError(f"the graph has the entities {list(entities)}; vectors need at least 2")
    return KnowledgeGraph(entities, relations, numbers_of(triples, entities, relations))


def numbers_of(
    triples: Sequence[NamedTriple], entities: Sequence[str], relations: Sequence[str]
) -> np.ndarray:
    """Return the numbers of triples, int64 [N, 3].

    Args:
      triples: Triples by name.
      entities: Names of entities in order.
      relations: Names of relations in order.

    Raises:
      ValueError: A name is not among them; the message names the triple's line.
    """
    rows = [{name: row for row, name in enumerate(names)} for names in (entities, relations)]
    numbers = []
    for each in triples:
        for name, known, what in zip(
            (each.head, each.relation, each.tail),
            (rows[0], rows[1], rows[0]),
            ("entity", "relation", "entity"),
            strict=True,
        ):
            if name not in known:
                raise ValueError(
                    f"{each.location}: there is no vector of the {what} {name!r} among {len(known):,}; train on "
                    "a graph that has it, or leave the triple out"
                )
        numbers.append((rows[0][each.head], rows[1][each.relation], rows[0][each.tail]))
    return np.array(numbers, np.int64)


class LinkScores(NamedTuple):
    """Means over the heads and the tails of all triples.

    Attributes:
      mean_rank: Mean rank of the right entity, from 1.
      hits_at_10: Percent of right entities that are among the 10 nearest.
      filtered_mean_rank: Mean rank among entities that make no other known triple.
      filtered_hits_at_10: Percent of right entities among the 10 nearest of these.
    """

    mean_rank: float
    hits_at_10: float
    filtered_mean_rank: float
    filtered_hits_at_10: float


def score_links(
    entities: WordVectors,
    relations: WordVectors,
    triples: np.ndarray,
    known: np.ndarray,
    *,
    distance: str,
) -> LinkScores:
    """Rank all entities as heads, and as tails, of each triple (§4.2).

    Entities at the same distance share the mean of their ranks.

    Args:
      entities: Vectors of entities.
      relations: Vectors of relations.
      triples: Triples to score, int64 [N, 3].
      known: Triples that are right: those of training, too.
      distance: Distance that the vectors were trained with, "l1" or "l2".
    """
    right: dict[tuple[str, int, int], set[int]] = defaultdict(set)
    for head, relation, tail in [*known.tolist(), *triples.tolist()]:
        right["tail", head, relation].add(tail)
        right["head", relation, tail].add(head)
    table, raw, filtered = entities.table.astype(np.float64), [], []
    for head, relation, tail in triples.tolist():
        translation = relations.table[relation].astype(np.float64)
        for key, answer, target in (
            (("tail", head, relation), tail, table[head] + translation),
            (("head", relation, tail), head, table[tail] - translation),
        ):
            differences = table - target
            distances = (
                np.abs(differences).sum(axis=1) if distance == "l1" else np.linalg.norm(differences, axis=1)
            )
            raw.append(_rank(distances, answer))
            distances[list(right[key] - {answer})] = np.inf
            filtered.append(_rank(distances, answer))
    return LinkScores(*_means(raw), *_means(filtered))


def _rank(distances: np.ndarray, answer: int) -> float:
    own = distances[answer]
    return 1 + float(np.sum(distances < own)) + float(np.sum(distances == own) - 1) / 2


def _means(ranks: list[float]) -> tuple[float, float]:
    return float(np.mean(ranks)), 100 * float(np.mean(np.array(ranks) <= 10))
