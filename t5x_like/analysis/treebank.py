"""Dependency trees: CoNLL-U files, distances and depths of words, and trees from distances."""

from collections.abc import Iterator, Sequence

import numpy as np

from t5x_like.io.files import PathLike
from t5x_like.io.text_encoding import text_of

_ID, _FORM, _UPOS, _HEAD, _COLUMNS = 0, 1, 3, 6, 10  # https://universaldependencies.org/format.html


def conllu_rows(path: PathLike) -> Iterator[dict[str, object]]:
    """Yield the sentences of a CoNLL-U file as rows with ``text``, ``words``, ``tags`` and ``heads``.

    Tags are universal parts of speech. Lines of several words at once and of empty nodes are left out.

    Args:
      path: File.

    Raises:
      ValueError: A line has no 10 columns, or a head that is no number.
    """
    sentence: list[tuple[str, str, int]] = []
    for line_number, line in enumerate([*text_of(str(path)).split("\n"), ""], start=1):
        line = line.rstrip("\r")
        if not line.strip():
            if sentence:
                words, tags, heads = map(list, zip(*sentence, strict=True))
                yield {"text": " ".join(map(str, words)), "words": words, "tags": tags, "heads": heads}
            sentence = []
        elif not line.startswith("#"):
            cells = line.split("\t")
            if len(cells) != _COLUMNS:
                raise ValueError(
                    f"{path}, line {line_number}: {len(cells)} columns; CoNLL-U has {_COLUMNS} between tabs"
                )
            if cells[_ID].isdecimal():
                if not cells[_HEAD].isdecimal():
                    raise ValueError(
                        f"{path}, line {line_number}: the head is {cells[_HEAD]!r}; give a number"
                    )
                sentence.append((cells[_FORM], cells[_UPOS], int(cells[_HEAD])))


def tree_distances(heads: Sequence[int]) -> np.ndarray:
    """Return the number of edges between each two words of a tree, [W, W].

    Args:
      heads: Number of each word's head, from 1; 0 for the root.

    Raises:
      ValueError: The heads are no tree with one root.
    """
    depths = tree_depths(heads)
    parents = np.array(heads) - 1
    distances = np.zeros((len(heads), len(heads)), int)
    root, *others = np.argsort(depths, kind="stable")  # a parent is before its children
    known = [root]
    for word in others:
        distances[word, known] = distances[known, word] = distances[parents[word], known] + 1
        known.append(word)
    return distances


def tree_depths(heads: Sequence[int]) -> np.ndarray:
    """Return the number of edges between each word and the root, [W].

    Args:
      heads: Number of each word's head, from 1; 0 for the root.

    Raises:
      ValueError: The heads are no tree with one root.
    """
    roots = sum(head == 0 for head in heads)
    if roots != 1:
        raise ValueError(f"{roots} words have the head 0; a tree has one root")
    if not all(0 <= head <= len(heads) for head in heads):
        raise ValueError(
            f"a head is {max(heads, key=abs)}, and there are {len(heads)} words; heads count from 1"
        )
    depths = np.zeros(len(heads), int)
    for word in range(len(heads)):
        head = heads[word]
        while head:
            depths[word] += 1
            if depths[word] >= len(heads):
                raise ValueError(f"the heads of word {word + 1} lead in a circle; a tree has none")
            head = heads[head - 1]
    return depths


def shortest_tree(distances: np.ndarray) -> set[tuple[int, int]]:
    """Return the edges of the spanning tree of the smallest sum of distances, each as two increasing indices.

    Args:
      distances: Distance of each two words, [W, W], symmetric.
    """
    edges: set[tuple[int, int]] = set()
    best, nearest = np.array(distances[0], float), np.zeros(len(distances), int)
    outside = np.arange(len(distances)) > 0
    while outside.any():  # Prim's algorithm; distances of 0 are edges, too
        word = int(np.argmin(np.where(outside, best, np.inf)))
        edges.add((min(word, int(nearest[word])), max(word, int(nearest[word]))))
        outside[word] = False
        closer = distances[word] < best
        best, nearest = np.where(closer, distances[word], best), np.where(closer, word, nearest)
    return edges


def tree_edges(heads: Sequence[int]) -> set[tuple[int, int]]:
    """Return the edges between words, each as two increasing indices.

    Args:
      heads: Number of each word's head, from 1; 0 for the root.
    """
    return {(min(word, head - 1), max(word, head - 1)) for word, head in enumerate(heads) if head}
