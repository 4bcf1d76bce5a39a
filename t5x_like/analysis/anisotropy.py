"""Anisotropy: how narrow the cone is in which a model's vectors lie, by layer, and what cures it."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from t5x_like.analysis.analysis import (
    Analysis,
    AnalysisFigure,
    AnalysisResult,
    AnalysisTable,
    Row,
    cells_of,
    numbers_of,
)
from t5x_like.analysis.flow import Flow
from t5x_like.analysis.text_activations import TextActivations, hidden_states_name, map_texts
from t5x_like.analysis.vectors import (
    alignment,
    mean_cosine,
    uniformity,
    unit_vectors,
    variance_shares,
    whitening,
    without_components,
)
from t5x_like.config_class import config_class
from t5x_like.model.layers.embedding import Embedding
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from t5x_like.reports.rendering import plural
from t5x_like.reports.svg_figure import COLORS, INK, svg_figure
from t5x_like.text.metrics.correlation import spearman_corrcoef

_COMPONENTS = 10  # of the spectrum that is kept
_SIZE = (7.2, 3.3)
_UNCHANGED = "unchanged"
_COSINES = {
    "mean_cosine": "tokens of different texts",
    "self_similarity": "the same token in different texts",
    "mean_cosine_of_texts": "mean states of texts",
}


class _Tokens(NamedTuple):
    """Some tokens of a text.

    Attributes:
      ids: Their token ids, int32 [S].
      states: Their hidden states by layer, [N + 1, S, D].
    """

    ids: np.ndarray
    states: np.ndarray


@config_class
class Anisotropy(Analysis):
    """Vectors of tokens and of whole texts by layer, and vectors of similar texts with and without cures.

    - Mean cosine of two tokens of different texts, and of one token in two texts (self-similarity): Ethayarajh 2019,
      https://arxiv.org/abs/1909.00512.
    - The share of the variance in the largest principal components, and mean lengths, of layers and of the word table.
    - With ``second_text`` and ``score``, the Spearman correlation of cosines and scores by layer, and after cures.
      Cures are fitted on the vectors of all texts, whose scores they don't read.

    Attributes:
      second_text: Column of a second text, to compare with the first; empty for none.
      score: Column of the similarity of both texts, such as STS-B's from 0 to 5; empty for none.
      tokens_per_text: Number of tokens of a text that are compared with those of others.
      removed_components: Numbers of principal components to remove.
      whitened_dimensions: Numbers of dimensions to keep by whitening; 0 for all.
      flow_steps: Training steps of a normalizing flow of the vectors (Li et al. 2020); 0 for none.
      seed: Seed of the tokens that are drawn, and of the flow.
    """

    second_text: str = ""
    score: str = ""
    tokens_per_text: int = 4
    removed_components: tuple[int, ...] = (1, 3)
    whitened_dimensions: tuple[int, ...] = (0,)
    flow_steps: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.score) != bool(self.second_text):
            raise ValueError(
                f"second_text is {self.second_text!r} and score is {self.score!r}; give the columns of the second text "
                "and of the similarity of both, or none of them"
            )
        if self.flow_steps < 0:
            raise ValueError(f"flow_steps is {self.flow_steps}; give 0 for no flow, or more")
        if self.tokens_per_text < 1:
            raise ValueError(f"tokens_per_text is {self.tokens_per_text}; give at least 1")

    def run(self, model: Pretrained, rows: Sequence[Row]) -> AnalysisResult:
        """Measure a model's vectors; see the class."""
        pairs = [self.texts_of(rows)]
        if self.second_text:
            pairs.append(cells_of(rows, self.second_text))
        scores = numbers_of(rows, self.score) if self.score else None
        texts = list(dict.fromkeys(chain(*pairs)))
        if len(texts) < 2:
            raise ValueError("anisotropy compares texts, and there is one; give at least two different ones")
        means, tokens = self._states(model, texts)
        layers = [{"layer": layer, **_measures(means[layer], tokens, layer)} for layer in range(len(means))]
        values: dict[str, Any] = {"texts": len(texts), "layers": layers}
        table = _word_table(model)
        if table is not None:
            values["word_table"] = {"mean_cosine": mean_cosine(table), **_spread(table)}
        headlines = {
            "mean cosine, first layer": layers[0]["mean_cosine"],
            "mean cosine, last layer": layers[-1]["mean_cosine"],
        }
        figures, tables = [_cosines_figure(layers), _spectrum_figure(layers)], [_layers_table(layers)]
        if scores is not None:
            order = {text: index for index, text in enumerate(texts)}
            indices = [np.array([order[text] for text in side]) for side in pairs]
            similarity = self._similarity(means, indices[0], indices[1], scores)
            values["similarity"] = similarity
            last = similarity[-1]["spearman"]
            headlines |= {f"Spearman, last layer, {name}": value for name, value in last.items()}
            figures.append(_similarity_figure(similarity))
            tables.append(_similarity_table(similarity))
        return AnalysisResult(headlines, values, figures, tables)

    def _states(self, model: Pretrained, texts: Sequence[str]) -> tuple[np.ndarray, list[_Tokens]]:
        """Return the mean state of each text by layer, [N + 1, T, D], and some of its tokens."""
        name = hidden_states_name(model)
        seeds = np.random.SeedSequence(self.seed).spawn(len(texts))

        def summarize(text: TextActivations) -> tuple[np.ndarray, _Tokens]:
            states = text.activations[name].astype(np.float64)
            order = np.random.default_rng(seeds[text.index]).permutation(len(text.ids))
            drawn = order[: self.tokens_per_text]
            return states.mean(axis=1), _Tokens(text.ids[drawn], states[:, drawn])

        results = map_texts(
            model,
            texts,
            name,
            summarize,
            batch_size=self.batch_size,
            max_length=self.max_length,
            shown=True,
        )
        return np.stack([mean for mean, _ in results], axis=1), [tokens for _, tokens in results]

    def _similarity(
        self, means: np.ndarray, first: np.ndarray, second: np.ndarray, scores: np.ndarray
    ) -> list[dict[str, Any]]:
        """Return for each layer the correlations of cosines and scores, before and after cures."""
        layers: list[dict[str, Any]] = []
        highest = scores == scores.max()
        for layer, vectors in enumerate(means):
            cured = {_UNCHANGED: vectors}
            for number in self.removed_components:
                name = f"without {plural(number, 'component')}"
                cured[name] = without_components(vectors, number)(vectors)
            for number in self.whitened_dimensions:
                name = f"whitened to {plural(number, 'dimension')}" if number else "whitened"
                cured[name] = whitening(vectors, number or None)(vectors)
            if self.flow_steps:
                cured["flow"] = Flow.fit(vectors, self.flow_steps, seed=self.seed)(vectors)
            units = unit_vectors(vectors)
            layers.append(
                {
                    "layer": layer,
                    "spearman": {
                        name: _spearman(each[first], each[second], scores) for name, each in cured.items()
                    },
                    "alignment": alignment(units[first[highest]], units[second[highest]]),
                    "uniformity": uniformity(units),
                }
            )
        return layers


def _spearman(first: np.ndarray, second: np.ndarray, scores: np.ndarray) -> float:
    """Return the rank correlation of cosines and scores, times 100."""
    cosines = np.sum(unit_vectors(first) * unit_vectors(second), axis=1)
    return spearman_corrcoef(scores.tolist(), cosines.tolist())["spearman_corrcoef"]


def _measures(means: np.ndarray, tokens: Sequence[_Tokens], layer: int) -> dict[str, Any]:
    """Return the measures of one layer.

    Args:
      means: Mean states of texts, [T, D].
      tokens: Some tokens of each text.
      layer: Number of the layer.
    """
    firsts = np.stack([each.states[layer, 0] for each in tokens])  # one of each text
    cosine = mean_cosine(firsts)
    same = _self_similarity(tokens, layer)
    states = np.concatenate([each.states[layer] for each in tokens])
    return {
        "mean_cosine": cosine,
        "self_similarity": same,
        "adjusted_self_similarity": None if same is None else same - cosine,
        "mean_cosine_of_texts": mean_cosine(means),
        **_spread(states),
    }


def _spread(vectors: np.ndarray) -> dict[str, Any]:
    """Return the mean length of vectors, and the shares of their largest principal components."""
    return {
        "mean_length": float(np.linalg.norm(vectors, axis=1).mean()),
        "variance_shares": variance_shares(vectors)[:_COMPONENTS].tolist(),
    }


def _self_similarity(tokens: Sequence[_Tokens], layer: int) -> float | None:
    """Return the mean cosine of a token in two texts, averaged over tokens; None if none is in two texts."""
    contexts: dict[int, list[np.ndarray]] = {}
    for each in tokens:
        for token, index in dict(zip(each.ids.tolist(), range(len(each.ids)), strict=True)).items():
            contexts.setdefault(token, []).append(each.states[layer, index])
    similarities = [mean_cosine(states) for states in contexts.values() if len(states) > 1]
    return float(np.mean(similarities)) if similarities else None


def _word_table(model: Pretrained) -> np.ndarray | None:
    """Return the vectors of the words, [V, D]; None for models whose words have no single table."""
    embedding = getattr(model.model, "embedding", None)
    words = getattr(embedding, "tokens", embedding)
    return (
        np.asarray(words.table[...], np.float64)[: words.num_rows] if isinstance(words, Embedding) else None
    )


def _cosines_figure(layers: Sequence[Mapping[str, Any]]) -> AnalysisFigure:
    def draw(axes: Any) -> None:
        numbers = [each["layer"] for each in layers]
        for color, (name, label) in zip(COLORS, _COSINES.items(), strict=False):
            if all(each[name] is not None for each in layers):
                axes.plot(
                    numbers, [each[name] for each in layers], "o-", color=color, label=label, clip_on=False
                )
        axes.set_ylim(min(0.0, axes.get_ylim()[0]), 1)
        axes.set_xlabel("layer (0: embeddings)", color=INK)
        axes.set_ylabel("mean cosine", color=INK)
        axes.legend(frameon=False)

    caption = (
        "Cosines of tokens of different texts are near 0 where vectors point in all directions, and near 1 in a narrow "
        "cone. The same token's cosine above that line is what contexts leave of its meaning."
    )
    return AnalysisFigure("Cosines by layer", caption, svg_figure(draw, title="cosines", size_inches=_SIZE))


def _spectrum_figure(layers: Sequence[Mapping[str, Any]]) -> AnalysisFigure:
    def draw(axes: Any) -> None:
        for color, layer in zip(
            COLORS, {0: None, len(layers) // 2: None, len(layers) - 1: None}, strict=False
        ):
            shares = 100 * np.cumsum(layers[layer]["variance_shares"])
            axes.plot(
                range(1, len(shares) + 1), shares, "o-", color=color, label=f"layer {layer}", clip_on=False
            )
        axes.set_ylim(0, 100)
        axes.set_xlabel("principal components", color=INK)
        axes.set_ylabel("share of the variance (%)", color=INK)
        axes.legend(frameon=False)

    caption = "A few components with most of the variance are directions that nearly all tokens share."
    return AnalysisFigure("Spectrum", caption, svg_figure(draw, title="spectrum", size_inches=_SIZE))


def _similarity_figure(similarity: Sequence[Mapping[str, Any]]) -> AnalysisFigure:
    def draw(axes: Any) -> None:
        for color, name in zip(COLORS, similarity[0]["spearman"], strict=False):
            axes.plot(
                [each["layer"] for each in similarity],
                [each["spearman"].get(name, np.nan) for each in similarity],
                "o-",
                color=color,
                label=name,
                clip_on=False,
            )
        axes.set_xlabel("layer (0: embeddings)", color=INK)
        axes.set_ylabel("Spearman × 100", color=INK)
        axes.legend(frameon=False)

    caption = (
        "Rank correlation of the cosines of mean states with the scores of pairs, before and after cures."
    )
    return AnalysisFigure("Similar texts", caption, svg_figure(draw, title="similarity", size_inches=_SIZE))


def _layers_table(layers: Sequence[Mapping[str, Any]]) -> AnalysisTable:
    names = [*_COSINES, "mean_length"]
    rows = [
        [each["layer"], *(_shown(each[name]) for name in names), f"{100 * each['variance_shares'][0]:.1f} %"]
        for each in layers
    ]
    header = ["layer", *(f">{label}" for label in [*_COSINES.values(), "mean length", "largest component"])]
    return AnalysisTable("Layers", "Layer 0 is the input of the first layer.", header, rows)


def _similarity_table(similarity: Sequence[Mapping[str, Any]]) -> AnalysisTable:
    names = list(similarity[0]["spearman"])
    rows = [
        [
            each["layer"],
            *(_shown(each["spearman"].get(name)) for name in names),
            _shown(each["alignment"]),
            _shown(each["uniformity"]),
        ]
        for each in similarity
    ]
    caption = "Alignment is that of the pairs with the highest score. Lower is better (Wang and Isola 2020)."
    header = ["layer", *(f">{name}" for name in [*names, "alignment", "uniformity"])]
    return AnalysisTable("Similar texts by layer", caption, header, rows)


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
