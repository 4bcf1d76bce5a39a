"""Held-out loss of every objective next to its baseline, from the file of results."""

import json
from pathlib import Path

from matplotlib.figure import Figure

from docs.pictures.style import Palette

RESULT = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "objectives_cpu.json"


def rows() -> list[tuple[str, float, float]]:
    """Return "objective", loss and baseline of each head that an objective trains."""
    found = []
    for name, result in sorted(json.loads(RESULT.read_text(encoding="utf-8")).items()):
        for head, losses in result["losses"].items():
            label = name.replace("_", " ") + ("" if head == "tokens" else f" ({head.replace('_', ' ')})")
            found.append((label, losses["cross_entropy"], losses["baseline"]))
    return found


def draw(palette: Palette) -> Figure:
    """Draw a line from the baseline to the loss of each objective."""
    found = rows()[::-1]
    figure = Figure(figsize=(7.6, 0.27 * len(found) + 0.9))
    axes = figure.add_axes((0.34, 0.075, 0.63, 0.87))
    axes.set_facecolor("none")
    for place, (_, loss, baseline) in enumerate(found):
        axes.plot((loss, baseline), (place, place), color=palette.line, linewidth=2.5, zorder=1)
    axes.scatter(
        [row[2] for row in found],
        range(len(found)),
        color=palette.faint,
        s=26,
        zorder=2,
        label="baseline: frequencies only",
    )
    axes.scatter(
        [row[1] for row in found],
        range(len(found)),
        color=palette.accents[0],
        s=34,
        zorder=3,
        label="held-out loss",
    )
    axes.set_yticks(range(len(found)), [row[0] for row in found], color=palette.ink, fontsize=9)
    axes.set_ylim(-0.7, len(found) - 0.3)
    axes.set_xlim(left=0)
    axes.set_xlabel("cross entropy (nats)")
    axes.tick_params(colors=palette.faint, length=0)
    axes.tick_params(axis="y", colors=palette.ink)
    axes.grid(axis="x", color=palette.line, linewidth=0.5, alpha=0.6)
    axes.spines[:].set_visible(False)
    legend = axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2, frameon=False, fontsize=9)
    for text in legend.get_texts():
        text.set_color(palette.ink)
    return figure
