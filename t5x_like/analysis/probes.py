"""Probes: classes of texts or of words that a linear classifier reads from the states of each layer."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from t5x_like.analysis.analysis import (
    Analysis,
    AnalysisFigure,
    AnalysisResult,
    AnalysisTable,
    Row,
    cells_of,
)
from t5x_like.analysis.fresh_model import fresh_model
from t5x_like.analysis.linear_probe import LinearProbe, online_code
from t5x_like.analysis.text_activations import TextActivations, hidden_states_name, map_texts
from t5x_like.analysis.words import (
    EncodedWords,
    Pieces,
    encode_texts_of_words,
    split_texts,
    states_of_words,
    values_of_words,
    with_layers,
    words_in,
)
from t5x_like.config_class import config_class
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from t5x_like.reports.svg_figure import COLORS, FAINT, INK, svg_figure

_SIZE = (7.2, 3.3)
_UNLABELED = {"", "-1", "-100", "None"}
_LINES = {"accuracy": "probe", "random_model": "probe of fresh weights", "control": "control task"}


class _Labeled(NamedTuple):
    """Examples of a probe: words, or whole texts.

    Attributes:
      texts: A key of each text, equal for equal texts.
      labels: Label of each example by text; ``None`` for words without one.
      types: Words of each text, for the control task; ``None`` if examples are texts.
      encoded: Tokenized words; ``None`` if examples are texts.
    """

    texts: Sequence[Any]
    labels: Sequence[Sequence[str | None]]
    types: Sequence[Sequence[str]] | None = None
    encoded: Sequence[EncodedWords] | None = None


class _Examples(NamedTuple):
    """Labeled vectors of one side of a split.

    Attributes:
      vectors: Vectors by layer, [N, T, D].
      labels: Class of each, [T].
      types: Type of each word, [T]; empty if examples are texts.
    """

    vectors: np.ndarray
    labels: np.ndarray
    types: np.ndarray


@config_class
class Probes(Analysis):
    """Accuracy of linear probes by layer, with the baselines that say what it is worth.

    The model is frozen. A logistic regression with an L2 penalty learns from the standardized states of some texts, and
    is tested on others. Baselines are the most frequent class, the same probe of fresh weights, and for words a control
    task: each word type gets a class at random, as often as labels have it. The probe's accuracy minus that of the
    control task is its selectivity (Hewitt and Liang 2019, https://arxiv.org/abs/1909.03368). The online code counts
    the bits in which the training labels can be sent (Voita and Titov 2020, https://arxiv.org/abs/2003.12298).

    Attributes:
      label: Column of each text's class.
      words: Column of words, to probe words in place of texts: lists, or texts with spaces between words.
      tags: Column of each word's class. Words with an empty one, -1, -100 or null are left out.
      pooling: States that a probe reads: ``"first"`` is the first token of a word or text, ``"mean"`` the mean of all.
        ``None`` is the first of words, and the mean of texts.
      layers: Layers to probe; all if empty. Layer 0 is the input of the first layer.
      num_texts: Number of different texts to draw; 0 for all.
      test_share: Share of the texts to test on.
      l2: Strength of the L2 penalty against the summed cross-entropy.
      random_model: Probe a model of fresh weights as well.
      codelength: Compute the online code.
      seed: Seed of the split, the control task and the fresh weights.
    """

    label: str = "label"
    words: str = ""
    tags: str = "tags"
    pooling: Pieces | None = None
    layers: tuple[int, ...] = ()
    num_texts: int = 1000
    test_share: float = 0.2
    l2: float = 10.0
    random_model: bool = True
    codelength: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.test_share < 1:
            raise ValueError(f"test_share is {self.test_share}; give a share above 0 and below 1")
        if self.l2 <= 0:
            raise ValueError(f"l2 is {self.l2}; give a strength above 0")
        if self.num_texts < 0:
            raise ValueError(f"num_texts is {self.num_texts}; give 0 for all texts, or more")

    def run(self, model: Pretrained, rows: Sequence[Row]) -> AnalysisResult:
        """Train and test probes; see the class."""
        labeled = self._labeled_words(model, rows) if self.words else self._labeled_texts(rows)
        split = split_texts(labeled.texts, self.test_share, self.num_texts, self.seed)
        classes = sorted(
            {
                label
                for side in split
                for index in side
                for label in labeled.labels[index]
                if label is not None
            }
        )
        if len(classes) < 2:
            column = self.tags if self.words else self.label
            raise ValueError(
                f"the column {column!r} has {len(classes)} class{'es' * (not classes)}; a probe needs at least two"
            )
        values: dict[str, Any] = {
            "classes": classes,
            "texts": {"train": len(split.train), "test": len(split.test)},
        }
        train, test = (self._examples(model, labeled, side, classes) for side in split)
        for name, each in {"training": train, "test": test}.items():
            if not len(each.labels):
                raise ValueError(f"no {name} text has a label; label more texts, or change the seed")
        values["examples"] = {"train": len(train.labels), "test": len(test.labels)}
        values["majority"] = _majority(train.labels, test.labels)
        layers = self._probe(train, test, len(classes))
        if labeled.types is not None:
            values["unseen_types"] = 100 * float(np.mean(~np.isin(test.types, train.types)))
        if self.random_model:
            fresh = fresh_model(model, self.seed)
            others = (self._examples(fresh, labeled, side, classes) for side in split)
            for layer, other in zip(layers, self._accuracies(others, len(classes)), strict=True):
                layer["random_model"] = other
        values["layers"] = layers
        best = max(layers, key=lambda layer: layer["accuracy"])
        headlines = {
            f"accuracy, layer {best['layer']} (best)": best["accuracy"],
            "majority": values["majority"],
        }
        if "selectivity" in best:
            headlines[f"selectivity, layer {best['layer']}"] = best["selectivity"]
        figures = [_accuracy_figure(layers, values["majority"])]
        if self.codelength:
            headlines[f"compression, layer {best['layer']}"] = best["compression"]
            figures.append(_code_figure(layers))
        return AnalysisResult(headlines, values, figures, [_table(layers, values)])

    def _labeled_texts(self, rows: Sequence[Row]) -> _Labeled:
        texts, labels = self.texts_of(rows), cells_of(rows, self.label)
        return _Labeled(texts, [(label,) for label in labels])

    def _labeled_words(self, model: Pretrained, rows: Sequence[Row]) -> _Labeled:
        words = words_in(rows, self.words)
        labels = [
            tuple(None if str(tag) in _UNLABELED else str(tag) for tag in tags)
            for tags in values_of_words(rows, self.tags, words)
        ]
        return _Labeled(words, labels, words, encode_texts_of_words(model, words, self.max_length))

    def _examples(
        self, model: Pretrained, labeled: _Labeled, indices: np.ndarray, classes: Sequence[str]
    ) -> _Examples:
        """Return the vectors and the classes of some texts."""
        numbers = {name: index for index, name in enumerate(classes)}
        if labeled.encoded is None:
            vectors = self._states_of_texts(model, [labeled.texts[index] for index in indices])
            labels = [
                numbers[label] for index in indices for label in labeled.labels[index] if label is not None
            ]
            return _Examples(vectors, np.array(labels), np.array([]))
        encoded = [labeled.encoded[index] for index in indices]
        states = states_of_words(
            model, encoded, self.pooling or "first", self.layers, batch_size=self.batch_size
        )
        kept, types = [], []
        for index, text in zip(indices, encoded, strict=True):
            kept += labeled.labels[index][: len(text.starts)]
            types += (labeled.types or [])[index][: len(text.starts)]
        known = np.array([label is not None for label in kept], bool)
        labels = np.array([numbers[label] for label in kept if label is not None], int)
        return _Examples(np.concatenate(states, axis=1)[:, known], labels, np.array(types)[known])

    def _states_of_texts(self, model: Pretrained, texts: Sequence[str]) -> np.ndarray:
        """Return a vector of each text by layer, [N, T, D]."""
        name = hidden_states_name(model)

        def summarize(text: TextActivations) -> np.ndarray:
            states = with_layers(text.activations[name], self.layers)
            return states[:, 0] if self.pooling == "first" else states.mean(axis=1)

        options: dict[str, Any] = {"batch_size": self.batch_size, "max_length": self.max_length}
        return np.stack(map_texts(model, texts, name, summarize, **options, shown=True), axis=1)

    def _probe(self, train: _Examples, test: _Examples, num_classes: int) -> list[dict[str, Any]]:
        """Return the measures of each layer."""
        numbers = self.layers or tuple(range(len(train.vectors)))
        layers: list[dict[str, Any]] = [
            {"layer": layer, "accuracy": accuracy}
            for layer, accuracy in zip(numbers, self._accuracies((train, test), num_classes), strict=True)
        ]
        if train.types.size:
            task = control_task(train.types, train.labels, self.seed)
            controls = [
                side._replace(labels=np.array([task(each) for each in side.types])) for side in (train, test)
            ]
            for layer, accuracy in zip(layers, self._accuracies(controls, num_classes), strict=True):
                layer |= {"control": accuracy, "selectivity": layer["accuracy"] - accuracy}
        if self.codelength:
            for layer, vectors in zip(layers, train.vectors, strict=True):
                code = online_code(vectors, train.labels, num_classes, l2=self.l2)
                layer |= {"codelength": code.kilobits, "compression": code.compression}
        return layers

    def _accuracies(self, sides: Iterable[_Examples], num_classes: int) -> list[float]:
        """Return the accuracy on the second side of a probe of the first, by layer."""
        train, test = sides
        return [
            LinearProbe.fit(trained, train.labels, num_classes, l2=self.l2).accuracy(tested, test.labels)
            for trained, tested in zip(train.vectors, test.vectors, strict=True)
        ]


def control_task(types: np.ndarray, labels: np.ndarray, seed: int) -> Callable[[str], int]:
    """Return a function from a word type to its random class (Hewitt and Liang 2019, §2.1).

    Classes are drawn as often as the labels have them. The class of a type is the same in all texts.

    Args:
      types: Word types of the training examples, whose classes are drawn first.
      labels: Classes of the training examples.
      seed: Seed of the draw.
    """
    generator = np.random.default_rng(seed)
    classes = {name: int(generator.choice(labels)) for name in sorted(set(types.tolist()))}

    def class_of_type(name: str) -> int:
        if name not in classes:
            classes[name] = int(generator.choice(labels))
        return classes[name]

    return class_of_type


def _majority(train: np.ndarray, test: np.ndarray) -> float:
    """Return the accuracy of the most frequent class of the training examples."""
    ((most_frequent, _),) = Counter(train.tolist()).most_common(1)
    return 100 * float(np.mean(test == most_frequent))


def _accuracy_figure(layers: Sequence[Mapping[str, Any]], majority: float) -> AnalysisFigure:
    numbers = [layer["layer"] for layer in layers]

    def draw(axes: Any) -> None:
        for color, (name, label) in zip(COLORS, _LINES.items(), strict=False):
            if name in layers[0]:
                axes.plot(
                    numbers, [layer[name] for layer in layers], "o-", color=color, label=label, markersize=4
                )
        axes.axhline(majority, color=FAINT, linestyle="--", label="most frequent class")
        axes.set(xlabel="layer", ylabel="accuracy, %", xticks=numbers)
        axes.legend(frameon=False, labelcolor=INK, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))

    caption = "Accuracy on texts that the probe has not learned from."
    if "control" in layers[0]:
        caption += (
            " In the control task each word type has a class at random: what a probe reaches there, it learned by "
            "heart, and does not say what the states hold."
        )
    return AnalysisFigure("Accuracy by layer", caption, svg_figure(draw, title="accuracy", size_inches=_SIZE))


def _code_figure(layers: Sequence[Mapping[str, Any]]) -> AnalysisFigure:
    numbers = [layer["layer"] for layer in layers]

    def draw(axes: Any) -> None:
        axes.plot(numbers, [layer["compression"] for layer in layers], "o-", color=COLORS[0], markersize=4)
        axes.set(xlabel="layer", ylabel="compression", xticks=numbers)

    caption = (
        "A code of equal probabilities for the classes is this many times as long as the online code, in which a probe "
        "learns from the labels that were sent before. Higher is better: the classes are easier to extract."
    )
    return AnalysisFigure("Compression by layer", caption, svg_figure(draw, title="code", size_inches=_SIZE))


def _table(layers: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> AnalysisTable:
    names = {
        "accuracy": "accuracy",
        "random_model": "fresh weights",
        "control": "control",
        "selectivity": "selectivity",
        "codelength": "code, kbit",
        "compression": "compression",
    }
    shown = [name for name in names if name in layers[0]]
    rows = [[layer["layer"], *(f"{layer[name]:.2f}" for name in shown)] for layer in layers]
    examples = values["examples"]
    caption = (
        f"{len(values['classes'])} classes; {examples['train']:,} examples to train on, {examples['test']:,} to test "
        f"on. The most frequent class has {values['majority']:.1f} %."
    )
    if "unseen_types" in values:
        caption += f" {values['unseen_types']:.1f} % of the words to test on are in no training text."
    return AnalysisTable("Layers", caption, ["layer", *(f">{names[name]}" for name in shown)], rows)
