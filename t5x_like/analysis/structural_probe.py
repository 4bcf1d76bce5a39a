"""Structural probe: trees of syntax in the distances and the norms of linearly projected states."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from t5x_like.analysis.analysis import Analysis, AnalysisFigure, AnalysisResult, AnalysisTable, Row
from t5x_like.analysis.fresh_model import fresh_model
from t5x_like.analysis.treebank import shortest_tree, tree_depths, tree_distances, tree_edges
from t5x_like.analysis.words import (
    Pieces,
    encode_texts_of_words,
    split_texts,
    states_of_words,
    values_of_words,
    words_in,
)
from t5x_like.config_class import config_class
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from t5x_like.reports.svg_figure import COLORS, FAINT, INK, svg_figure
from t5x_like.text.metrics.correlation import spearman_corrcoef

_SIZE = (7.2, 3.3)
_LENGTHS = range(5, 51)  # words of sentences whose correlations are averaged (Hewitt and Manning 2019, §4.2)
_INITIAL = 0.05  # largest weight of a fresh projection
_MEASURES = {
    "uuas": "UUAS",
    "distance_spearman": "distances, Spearman",
    "root_accuracy": "root accuracy",
    "depth_spearman": "depths, Spearman",
}


class Tree(NamedTuple):
    """A sentence with its tree.

    Attributes:
      words: Its words, [W].
      heads: Number of each word's head, from 1; 0 for the root.
      distances: Edges between each two words, [W, W].
      depths: Edges between each word and the root, [W].
    """

    words: tuple[str, ...]
    heads: tuple[int, ...]
    distances: np.ndarray
    depths: np.ndarray

    @property
    def counted(self) -> np.ndarray:
        """Indices of the words that are no punctuation; trees are compared without it."""
        return np.array([i for i, word in enumerate(self.words) if any(map(str.isalnum, word))], int)


@config_class
class StructuralProbe(Analysis):
    """Dependency trees in the states of each layer (Hewitt and Manning 2019, https://aclanthology.org/N19-1419/).

    A linear map to few dimensions is learned, after which squared distances of words are those in the tree, and another
    one after which squared norms are depths. Layers are scaled to the same size first. The measures are:

    - UUAS, the share of the tree's edges in the shortest spanning tree of the predicted distances;
    - the Spearman correlations of each word's distances, 0 to itself included, and of the depths, averaged over
      sentences of equal length and then over the lengths from 5 to 50 words;
    - root accuracy, the share of roots that have the smallest predicted depth.

    Edges and roots are compared without punctuation. Words in a row are the baseline of UUAS.

    Attributes:
      words: Column of words: lists, or texts with spaces between words.
      heads: Column with the number of each word's head, from 1, and 0 for the root.
      pooling: A word is the state of its first token, or the mean of all.
      layers: Layers to probe; all if empty. Layer 0 is the input of the first layer.
      num_texts: Number of different sentences to draw; 0 for all.
      test_share: Share of the sentences to test on.
      rank: Number of dimensions of the linear map.
      steps: Training steps.
      sentences_per_step: Number of sentences of a step.
      learning_rate: Learning rate of Adam, which falls to 0 linearly.
      random_model: Probe a model of fresh weights as well.
      seed: Seed of the split, the maps, the order of sentences and the fresh weights.
    """

    words: str = "words"
    heads: str = "heads"
    pooling: Pieces = "mean"
    layers: tuple[int, ...] = ()
    num_texts: int = 2000
    test_share: float = 0.2
    rank: int = 64
    steps: int = 1000
    sentences_per_step: int = 20
    learning_rate: float = 1e-3
    random_model: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("rank", "steps", "sentences_per_step"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give at least 1")
        if not 0 < self.test_share < 1:
            raise ValueError(f"test_share is {self.test_share}; give a share above 0 and below 1")

    def run(self, model: Pretrained, rows: Sequence[Row]) -> AnalysisResult:
        """Train and test the probes; see the class."""
        words = words_in(rows, self.words)
        trees = _trees(words, values_of_words(rows, self.heads, words))
        encoded = encode_texts_of_words(model, words, self.max_length)
        whole = [i for i, text in enumerate(encoded) if len(text.starts) == len(words[i]) > 1]
        split = split_texts([words[index] for index in whole], self.test_share, self.num_texts, self.seed)
        sides = [[whole[index] for index in side] for side in split]
        gold = [[trees[index] for index in side] for side in sides]
        layers = self._layers(model, [[encoded[index] for index in side] for side in sides], gold)
        if self.random_model:
            fresh = fresh_model(model, self.seed)
            others = self._layers(fresh, [[encoded[index] for index in side] for side in sides], gold)
            for layer, other in zip(layers, others, strict=True):
                layer["random_model"] = {name: other[name] for name in _MEASURES}
        baseline = _uuas(
            gold[1], [np.abs(np.subtract.outer(*[np.arange(len(each.words))] * 2)) for each in gold[1]]
        )
        values = {
            "sentences": {"train": len(sides[0]), "test": len(sides[1]), "left_out": len(words) - len(whole)},
            "uuas_of_words_in_a_row": baseline,
            "layers": layers,
        }
        best = max(layers, key=lambda layer: layer["uuas"])
        headlines = {
            f"UUAS, layer {best['layer']} (best)": best["uuas"],
            "UUAS of words in a row": baseline,
            f"root accuracy, layer {best['layer']}": best["root_accuracy"],
        }
        figures = [_figure(layers, baseline)]
        return AnalysisResult(headlines, values, figures, [_table(layers, values)])

    def _layers(
        self, model: Pretrained, encoded: Sequence[Sequence[Any]], trees: Sequence[Sequence[Tree]]
    ) -> list[dict[str, Any]]:
        """Return the measures of each layer on the second side, with probes of the first."""
        states = [
            states_of_words(model, side, self.pooling, self.layers, batch_size=self.batch_size)
            for side in encoded
        ]
        numbers = self.layers or range(len(states[0][0]))
        return [
            {"layer": number, **self.measure(*([each[index] for each in side] for side in states), *trees)}
            for index, number in enumerate(numbers)
        ]

    def measure(
        self,
        train: Sequence[np.ndarray],
        test: Sequence[np.ndarray],
        train_trees: Sequence[Tree],
        test_trees: Sequence[Tree],
    ) -> dict[str, float]:
        """Train both probes on some sentences, and return their measures on others.

        Args:
          train: States of the words of each sentence to train on, [W, D].
          test: States of the words of each sentence to test on.
          train_trees: Trees of the sentences to train on.
          test_trees: Trees of the sentences to test on.
        """
        size = np.sqrt(np.mean(np.concatenate(train) ** 2))
        states = _padded([each / size for each in train])
        real = np.arange(states.shape[1]) < np.array([[len(each)] for each in train])
        distances, depths = _projections(
            jnp.asarray(states),
            jnp.asarray(real),
            jnp.asarray(_padded([tree.distances for tree in train_trees], square=True)),
            jnp.asarray(_padded([tree.depths for tree in train_trees])),
            jax.random.key(self.seed),
            rank=min(self.rank, states.shape[-1]),
            steps=self.steps,
            batch=min(self.sentences_per_step, len(train)),
            learning_rate=self.learning_rate,
        )
        tested = jnp.asarray(_padded([each / size for each in test]))
        lengths = [len(each) for each in test]
        predicted = np.asarray(_squared_distances(tested @ distances))
        norms = np.asarray(jnp.sum((tested @ depths) ** 2, axis=-1))
        of_pairs = [each[:length, :length] for each, length in zip(predicted, lengths, strict=True)]
        of_words = [each[:length] for each, length in zip(norms, lengths, strict=True)]
        return {
            "uuas": _uuas(test_trees, of_pairs),
            "distance_spearman": _spearman([tree.distances for tree in test_trees], of_pairs),
            "root_accuracy": _root_accuracy(test_trees, of_words),
            "depth_spearman": _spearman(
                [tree.depths[None] for tree in test_trees], [each[None] for each in of_words]
            ),
        }


def _trees(words: Sequence[tuple[str, ...]], heads: Sequence[tuple[object, ...]]) -> list[Tree]:
    """Return the trees of sentences.

    Raises:
      ValueError: The heads of a row are no tree.
    """
    trees = []
    for index, (text, row) in enumerate(zip(words, heads, strict=True), start=1):
        try:
            numbers = tuple(int(str(head)) for head in row)
        except ValueError:
            raise ValueError(f"row {index} has the heads {row}; give whole numbers, 0 for the root") from None
        try:
            trees.append(Tree(text, numbers, tree_distances(numbers), tree_depths(numbers)))
        except ValueError as error:
            raise ValueError(f"row {index}: {error}") from None
    return trees


def _padded(arrays: Sequence[np.ndarray], *, square: bool = False) -> np.ndarray:
    """Return arrays of sentences with zeros up to the longest one, float32 [S, W, …].

    Args:
      arrays: An array of each sentence, whose first axis is that of its words.
      square: The second axis is that of its words, too.
    """
    longest = max(map(len, arrays))
    padded = []
    for array in arrays:
        gap = (0, longest - len(array))
        widths = [gap, gap if square else (0, 0)][: array.ndim]
        padded.append(np.pad(array, widths).astype(np.float32))
    return np.stack(padded)


def _squared_distances(projected: jax.Array) -> jax.Array:
    """Return the squared distance of each two words, [S, W, W]."""
    norms = jnp.sum(projected**2, axis=-1)
    products = jnp.einsum("swk,svk->swv", projected, projected, precision="float32")
    return jnp.maximum(norms[:, :, None] + norms[:, None] - 2 * products, 0.0)


@partial(jax.jit, static_argnames=("rank", "steps", "batch"))
def _projections(
    states: jax.Array,
    real: jax.Array,
    distances: jax.Array,
    depths: jax.Array,
    key: jax.Array,
    *,
    rank: int,
    steps: int,
    batch: int,
    learning_rate: float,
) -> tuple[jax.Array, jax.Array]:
    """Return the linear maps for distances and for depths, each [D, K], after training.

    Errors are absolute. Those of a sentence are divided by the number of its pairs of words, or of its words (§2.2).
    """
    optimizer = optax.adam(optax.linear_schedule(learning_rate, 0.0, steps))
    *start_keys, order_key = jax.random.split(key, 3)
    shape = (states.shape[-1], rank)
    start = [jax.random.uniform(each, shape, minval=-_INITIAL, maxval=_INITIAL) for each in start_keys]

    def loss(maps: Sequence[jax.Array], rows: jax.Array) -> jax.Array:
        of_pairs, of_words = (jnp.matmul(states[rows], each, precision="float32") for each in maps)
        words = real[rows].astype(jnp.float32)
        pairs = words[:, :, None] * words[:, None]
        errors = jnp.abs(_squared_distances(of_pairs) - distances[rows]) * pairs
        depth_errors = jnp.abs(jnp.sum(of_words**2, axis=-1) - depths[rows]) * words
        per_sentence = errors.sum((1, 2)) / pairs.sum((1, 2)) + depth_errors.sum(1) / words.sum(1)
        return per_sentence.mean()

    def step(carry: Any, each: jax.Array) -> tuple[Any, None]:
        maps, state = carry
        rows = jax.random.choice(each, len(states), (batch,), replace=False)
        updates, state = optimizer.update(jax.grad(loss)(maps, rows), state)
        return (optax.apply_updates(maps, updates), state), None

    keys = jax.random.split(order_key, steps)
    (maps, _), _ = jax.lax.scan(step, (start, optimizer.init(start)), keys)
    return maps[0], maps[1]


def _uuas(trees: Sequence[Tree], distances: Sequence[np.ndarray]) -> float:
    """Return the share of edges between words other than punctuation that distances have, times 100."""
    right = total = 0
    for tree, predicted in zip(trees, distances, strict=True):
        counted = tree.counted
        if len(counted) < 2:
            continue
        within = set(counted.tolist())
        edges = {edge for edge in tree_edges(tree.heads) if within.issuperset(edge)}
        guess = shortest_tree(predicted[np.ix_(counted, counted)])
        right += len(edges & {(int(counted[first]), int(counted[second])) for first, second in guess})
        total += len(edges)
    return 100 * right / total if total else float("nan")


def _root_accuracy(trees: Sequence[Tree], depths: Sequence[np.ndarray]) -> float:
    """Return the share of sentences whose root has the smallest depth of all words but punctuation, times 100."""
    hits = [
        tree.depths[tree.counted[np.argmin(predicted[tree.counted])]] == 0
        for tree, predicted in zip(trees, depths, strict=True)
        if len(tree.counted)
    ]
    return 100 * float(np.mean(hits)) if hits else float("nan")


def _spearman(truth: Sequence[np.ndarray], predicted: Sequence[np.ndarray]) -> float:
    """Return the rank correlation of the rows of sentences, averaged by length and then over lengths, times 100."""
    by_length: dict[int, list[float]] = {}
    for wanted, guess in zip(truth, predicted, strict=True):
        if wanted.shape[1] in _LENGTHS:
            pairs = zip(wanted.tolist(), guess.tolist(), strict=True)
            correlations = [spearman_corrcoef(*pair)["spearman_corrcoef"] for pair in pairs]
            by_length.setdefault(wanted.shape[1], []).extend(
                np.array(correlations)[np.isfinite(correlations)]
            )
    means = [np.mean(each) for each in by_length.values() if each]
    return float(np.mean(means)) if means else float("nan")


def _figure(layers: Sequence[Mapping[str, Any]], baseline: float) -> AnalysisFigure:
    numbers = [layer["layer"] for layer in layers]

    def draw(axes: Any) -> None:
        for color, (name, label) in zip(COLORS, _MEASURES.items(), strict=False):
            axes.plot(
                numbers, [layer[name] for layer in layers], "o-", color=color, label=label, markersize=4
            )
        if "random_model" in layers[0]:
            uuas = [layer["random_model"]["uuas"] for layer in layers]
            axes.plot(numbers, uuas, ":", color=COLORS[0], label="UUAS, fresh weights")
        axes.axhline(baseline, color=FAINT, linestyle="--", label="UUAS, words in a row")
        axes.set(xlabel="layer", ylabel="%", xticks=numbers)
        axes.legend(frameon=False, labelcolor=INK, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))

    caption = (
        "Trees of sentences that the probe has not learned from. UUAS is the share of edges that the projected states "
        "have; the dashed line connects each word with the next one."
    )
    return AnalysisFigure("Trees by layer", caption, svg_figure(draw, title="trees", size_inches=_SIZE))


def _table(layers: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> AnalysisTable:
    header = ["layer", *(f">{label}" for label in _MEASURES.values())]
    rows = [[layer["layer"], *(_shown(layer[name]) for name in _MEASURES)] for layer in layers]
    if "random_model" in layers[0]:
        header.append(">UUAS, fresh weights")
        rows = [
            [*row, _shown(layer["random_model"]["uuas"])] for row, layer in zip(rows, layers, strict=True)
        ]
    sentences = values["sentences"]
    caption = f"{sentences['train']:,} sentences to train on, {sentences['test']:,} to test on."
    if sentences["left_out"]:
        caption += f" {sentences['left_out']:,} are left out: they have one word, or are longer than the model reads."
    return AnalysisTable("Layers", caption, header, rows)


def _shown(value: float) -> str:
    return f"{value:.1f}" if np.isfinite(value) else "–"
