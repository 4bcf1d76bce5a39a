"""Attention maps: where each head of each layer looks, measured over texts and drawn for a few."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from t5x_like.analysis.analysis import Analysis, AnalysisFigure, AnalysisResult, AnalysisTable, Row
from t5x_like.analysis.text_activations import TextActivations, map_texts, stack_of
from t5x_like.config_class import config_class
from t5x_like.model.named_activations import PROBABILITIES
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from t5x_like.reports.rendering import printable
from t5x_like.reports.svg_figure import FAINT, INK, svg_panels

# Measures of a head, each with its heading and the digits that a cell shows.
_MEASURES = {
    "entropy": "entropy, nats",
    "previous": "on the previous token, %",
    "next": "on the next token, %",
    "same": "on the token itself, %",
    "first": "on the first token, %",
    "separator": "on separators, %",
    "distance": "mean distance, tokens",
}
_SHARES = ("previous", "next", "same", "first", "separator")
_MAP = "Blues"
_MOST_LABELS = 40  # tokens that a large map has room for
_LABEL = 14  # characters of a token's label
_MOST_NUMBERS = 16  # heads up to which cells have numbers
_WIDTH = 7.6  # inches of a page's figure


class _Text(NamedTuple):
    """Sums of a text, and its weights where it is drawn.

    Attributes:
      measures: Sums over its tokens by measure, [N, H].
      counts: Number of tokens of each sum.
      probabilities: Attention weights [N, H, L, L] of a text that is drawn; ``None`` for others.
      ids: Token ids, [L].
    """

    measures: dict[str, np.ndarray]
    counts: dict[str, int]
    probabilities: np.ndarray | None
    ids: np.ndarray


@config_class
class AttentionMaps(Analysis):
    """Entropy and aims of the heads of self-attention over all texts, and pictures of the first ones.

    Shares are of a token's attention, averaged over tokens: on the one before it, after it, on itself, on the first of
    the text and on separators, which are the special ids that end texts and stand between them. They follow Clark et
    al. 2019, https://arxiv.org/abs/1906.04341. Of an encoder-decoder the encoder is measured.

    Attributes:
      pictures: Number of the first texts to draw.
      picture_length: Number of tokens to draw of a text.
      drawn_heads: Number of heads to draw large with the tokens' names: those that are the most extreme by a measure.
    """

    pictures: int = 2
    picture_length: int = 24
    drawn_heads: int = 6

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.pictures, self.drawn_heads) < 0:
            raise ValueError(
                f"pictures is {self.pictures} and drawn_heads is {self.drawn_heads}; give 0 or more"
            )
        if not 2 <= self.picture_length <= _MOST_LABELS:
            raise ValueError(
                f"picture_length is {self.picture_length}; give 2 to {_MOST_LABELS}, which is what has room"
            )

    def run(self, model: Pretrained, rows: Sequence[Row]) -> AnalysisResult:
        """Measure and draw the heads; see the class."""
        name = f"{stack_of(model)}/{PROBABILITIES[0]}"
        tokenizer = model.checkpoint.tokenizer
        separators = _separators(model)

        def summarize(text: TextActivations) -> _Text:
            probabilities = text.activations[name]
            sums, counts = head_sums(probabilities, np.isin(text.ids, separators))
            kept = probabilities if text.index < self.pictures else None
            return _Text(sums, counts, kept, text.ids)

        results = map_texts(
            model,
            self.texts_of(rows),
            name,
            summarize,
            batch_size=self.batch_size,
            max_length=self.max_length,
            shown=True,
        )
        heads = {
            measure: np.sum([each.measures[measure] for each in results], axis=0)
            / max(sum(each.counts[measure] for each in results), 1)
            for measure in _MEASURES
        }
        figures = [_measures_figure(heads)]
        for index, text in enumerate(results[: self.pictures], start=1):
            assert text.probabilities is not None
            maps = text.probabilities[..., : self.picture_length, : self.picture_length]
            labels = [token_label(tokenizer.piece(int(each))) for each in text.ids[: self.picture_length]]
            figures.append(_overview(maps, labels, index))
            if self.drawn_heads:
                figures.append(_large(maps, labels, index, notable_heads(heads, self.drawn_heads)))
        values = {
            "texts": len(results),
            "tokens": sum(len(each.ids) for each in results),
            "separators": [tokenizer.piece(each) for each in separators],
            "heads": heads,
        }
        headlines = {"mean entropy, first layer": float(heads["entropy"][0].mean())}
        headlines["mean entropy, last layer"] = float(heads["entropy"][-1].mean())
        for measure in ("previous", "separator"):
            headlines[f"heads with half of it on the {measure} token"] = float((heads[measure] > 50).sum())
        return AnalysisResult(headlines, values, figures, [_table(heads)])


def head_sums(
    probabilities: np.ndarray, is_separator: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Return the sum of each measure over the tokens of a text by layer and head, and the number of tokens in it.

    Shares are times 100. The first token has no previous one and the last no next one; those sums leave them out.

    Args:
      probabilities: Attention weights from each token to each, [N, H, L, L].
      is_separator: Tokens that are separators, [L].
    """
    weights = probabilities.astype(np.float64)
    length = weights.shape[-1]
    positions = np.arange(length)
    logs = np.log(np.where(weights > 0, weights, 1.0))
    sums = {
        "entropy": -(weights * logs).sum((-2, -1)),
        "previous": np.trace(weights, offset=-1, axis1=-2, axis2=-1),
        "next": np.trace(weights, offset=1, axis1=-2, axis2=-1),
        "same": np.trace(weights, axis1=-2, axis2=-1),
        "first": weights[..., 0].sum(-1),
        "separator": weights[..., is_separator].sum((-2, -1)),
        "distance": (weights * np.abs(positions[:, None] - positions)).sum((-2, -1)),
    }
    counts = {name: length - (name in ("previous", "next")) for name in sums}
    return {name: each * (100 if name in _SHARES else 1) for name, each in sums.items()}, counts


def notable_heads(heads: Mapping[str, np.ndarray], count: int) -> list[tuple[int, int, str]]:
    """Return layer, head and the reason of the heads that are the most extreme by a measure.

    Args:
      heads: Measures by layer and head, [N, H].
      count: Number of different heads; as many as there are at most.
    """
    reasons = [(name, heads[name]) for name in (*_SHARES, "entropy")]
    order = {name: np.argsort(-values, axis=None, kind="stable") for name, values in reasons}
    chosen: dict[tuple[int, int], str] = {}
    for rank in range(heads["entropy"].size):
        for name, values in reasons:
            layer, head = (int(each) for each in np.unravel_index(order[name][rank], values.shape))
            if len(chosen) < count and (layer, head) not in chosen:
                value = f"{values[layer, head]:.2f}" if name == "entropy" else f"{values[layer, head]:.0f} %"
                chosen[layer, head] = f"{_MEASURES[name].partition(',')[0]}: {value}"
    return [(layer, head, reason) for (layer, head), reason in chosen.items()]


def token_label(piece: str) -> str:
    """Return a token's name that is safe to draw: printable, without line breaks, and not too long.

    Args:
      piece: Piece of a vocabulary, of any characters.
    """
    text = printable("".join("␣" if each.isspace() else each for each in piece))
    return text if len(text) <= _LABEL else f"{text[: _LABEL - 1]}…"


def _separators(model: Pretrained) -> list[int]:
    """Return the ids of separators: those that end a text, and those that stand between two."""
    checkpoint = model.checkpoint
    between = checkpoint.tokenizer.special.sep
    return sorted({*checkpoint.prompt_encoder.suffix_ids, *(() if between is None else (between,))})


def _panels(draw: Any, title: str, size: tuple[float, float]) -> str:
    """Return a figure; characters that matplotlib's font lacks are drawn by the browser's."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*missing from.*font", category=UserWarning)
        return svg_panels(draw, title=title, size_inches=size)


def _measures_figure(heads: Mapping[str, np.ndarray]) -> AnalysisFigure:
    num_layers, num_heads = heads["entropy"].shape
    columns = 2 if num_heads <= _MOST_NUMBERS else 1
    rows = -(-len(_MEASURES) // columns)

    def draw(figure: Any) -> None:
        for index, (name, title) in enumerate(_MEASURES.items(), start=1):
            axes, values = figure.add_subplot(rows, columns, index), heads[name]
            top = 100.0 if name in _SHARES else float(max(values.max(), 1e-6))
            axes.imshow(values, cmap=_MAP, vmin=0.0, vmax=top, aspect="auto", interpolation="nearest")
            axes.set_title(title, fontsize=9, color=INK)
            axes.set(xticks=range(num_heads), yticks=range(num_layers))
            axes.tick_params(colors=INK, length=0, labelsize=7)
            axes.spines[:].set_visible(False)
            for (layer, head), value in np.ndenumerate(values):
                if num_heads <= _MOST_NUMBERS:
                    shown = f"{value:.0f}" if name in _SHARES else f"{value:.1f}"
                    color = "white" if value > 0.6 * top else INK
                    axes.text(head, layer, shown, ha="center", va="center", fontsize=6.5, color=color)
            if index > len(_MEASURES) - columns:
                axes.set_xlabel("head", fontsize=8, color=INK)
            if index % columns == 1 or columns == 1:
                axes.set_ylabel("layer", fontsize=8, color=INK)

    caption = "Each measure of each head, averaged over the tokens of all texts."
    size = (_WIDTH, rows * (0.55 + 0.2 * num_layers))
    return AnalysisFigure("Heads", caption, _panels(draw, "heads", size))


def _overview(maps: np.ndarray, labels: Sequence[str], index: int) -> AnalysisFigure:
    """Return the picture of all heads for a text; the maps are [N, H, L, L]."""
    num_layers, num_heads, length, _ = maps.shape
    tile = length + 1  # the last row and column are a line between heads
    image = np.full((num_layers * tile + 1, num_heads * tile + 1), np.nan)
    for layer, head in np.ndindex(num_layers, num_heads):
        image[layer * tile + 1 :, head * tile + 1 :][:length, :length] = maps[layer, head]

    def draw(figure: Any) -> None:
        from matplotlib import colormaps
        from matplotlib.colors import PowerNorm

        axes = figure.add_subplot()
        colors = colormaps[_MAP].with_extremes(bad="#bbbbbb")
        axes.imshow(image, cmap=colors, norm=PowerNorm(0.5, vmin=0.0, vmax=1.0), interpolation="nearest")
        centers = tile / 2 + np.arange(max(num_layers, num_heads)) * tile
        axes.set_xticks(centers[:num_heads], range(num_heads))
        axes.set_yticks(centers[:num_layers], range(num_layers))
        axes.tick_params(colors=INK, length=0, labelsize=8, top=False, labeltop=True, labelbottom=False)
        axes.set_ylabel("layer", fontsize=9, color=INK)
        axes.set_title("head", fontsize=9, color=INK)
        axes.spines[:].set_visible(False)

    caption = (
        f"{' '.join(labels)} — each square is a head. Rows are the tokens that look, columns those that they look at; "
        "the first token is at the top left. The darkest blue is all of a token's attention; shades follow the square "
        "root, so that weak attention shows."
    )
    size = (_WIDTH, 0.6 + (_WIDTH - 0.5) * num_layers / num_heads)
    return AnalysisFigure(f"Text {index}: all heads", caption, _panels(draw, f"overview {index}", size))


def _large(
    maps: np.ndarray, labels: Sequence[str], index: int, heads: Sequence[tuple[int, int, str]]
) -> AnalysisFigure:
    """Return the picture of some heads with the names of the tokens."""
    rows = -(-len(heads) // 2)

    def draw(figure: Any) -> None:
        for place, (layer, head, reason) in enumerate(heads, start=1):
            axes = figure.add_subplot(rows, 2, place)
            axes.imshow(maps[layer, head], cmap=_MAP, vmin=0.0, vmax=1.0, interpolation="nearest")
            for axis, turned in ((axes.xaxis, 90), (axes.yaxis, 0)):
                texts = {"fontsize": 7, "rotation": turned, "parse_math": False}
                axis.set_ticks(range(len(labels)), labels, **texts)
            axes.tick_params(colors=INK, length=0, top=False, labeltop=True, labelbottom=False)
            axes.set_title(f"layer {layer}, head {head}\n{reason}", fontsize=8, color=INK)
            axes.spines[:].set_color(FAINT)

    caption = (
        "Heads that are the most extreme by a measure over all texts; rows are the tokens that look. The darkest blue "
        "is all of a token's attention."
    )
    size = (_WIDTH, rows * (1.3 + 0.12 * len(labels)))
    return AnalysisFigure(f"Text {index}: heads with tokens", caption, _panels(draw, f"large {index}", size))


def _table(heads: Mapping[str, np.ndarray]) -> AnalysisTable:
    header = ["layer", *(f">{title}" for title in _MEASURES.values())]
    rows = [
        [layer, *(f"{heads[name][layer].mean():.2f}" for name in _MEASURES)]
        for layer in range(len(heads["entropy"]))
    ]
    return AnalysisTable("Layers", "Each measure, averaged over the heads of a layer.", header, rows)
