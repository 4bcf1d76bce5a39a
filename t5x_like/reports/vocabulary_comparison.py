"""Picture that compares the cost of a text in different vocabularies."""

import io
from collections.abc import Callable, Sequence
from typing import NamedTuple

from t5x_like.text.vocabularies.compare import Measures

_BAR, _INK, _FAINT = "#56B4E9", "#333333", "#8a8a8a"
_LONGEST_NAME = 40


class _Panel(NamedTuple):
    title: str
    value: Callable[[Measures], float]
    written: str


_PANELS = (
    _Panel("tokens per word", lambda each: each.fertility, "{:.2f}"),
    _Panel("bytes per token", lambda each: each.bytes_per_token, "{:.2f}"),
    _Panel("unknown tokens", lambda each: each.unknown_rate, "{:.2%}"),
)


def draw_comparison(measures: Sequence[Measures]) -> bytes:
    """Draw a PNG with a row for each vocabulary and a column of bars for each measure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 1.3 + 0.5 * len(measures)), layout="constrained")
    FigureCanvasAgg(figure)
    columns = figure.subplots(1, len(_PANELS), sharey=True, squeeze=False)[0]
    for axes, panel in zip(columns, _PANELS, strict=True):
        values = [panel.value(each) for each in measures]
        bars = axes.barh(range(len(values)), values, color=_BAR, height=0.6)
        axes.bar_label(bars, [panel.written.format(value) for value in values], padding=4, color=_INK)
        axes.set_title(panel.title, fontsize=11, loc="left", color=_INK)
        axes.set_xlim(0, 1.25 * max(values) or 1)
        axes.set_xticks([])
        axes.tick_params(length=0)
        axes.spines[["top", "right", "bottom"]].set_visible(False)
        axes.spines["left"].set_color(_FAINT)
    columns[0].set_yticks(range(len(measures)), [_label(each) for each in measures])
    columns[0].invert_yaxis()
    first = measures[0]
    figure.supxlabel(
        f"{first.num_words:,} words, {first.num_bytes:,} bytes of text",
        fontsize=9,
        color=_FAINT,
        x=0.99,
        ha="right",
    )
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=130)
    return content.getvalue()


def _label(measures: Measures) -> str:
    name = measures.name
    name = name if len(name) <= _LONGEST_NAME else f"…{name[-_LONGEST_NAME + 1 :]}"
    return f"{name}\n{measures.kind}, {measures.vocab_size:,} ids"
