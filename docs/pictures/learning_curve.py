"""The quickstart's pretraining: losses by step, from the file of results."""

import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from docs.pictures.style import Palette

RESULT = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "quickstart_cpu.json"


def draw(palette: Palette) -> Figure:
    """Draw training and validation loss, and the unigram entropy of the targets."""
    result: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))
    figure = Figure(figsize=(7.2, 3.4))
    axes = figure.add_axes((0.09, 0.15, 0.66, 0.8))
    axes.set_facecolor("none")
    ends = []
    for curve in result["curves"]:
        held_out = curve["split"] == "validation"
        color = palette.accents[1 if held_out else 0]
        axes.plot(
            curve["steps"],
            curve["losses"],
            color=color,
            linewidth=2 if held_out else 1.2,
            marker="o" if held_out else None,
            markersize=5,
        )
        ends.append((curve["losses"][-1], curve["split"], color))
    entropy = result["unigram_entropy"]
    axes.axhline(entropy, color=palette.faint, linewidth=1, linestyle=(0, (5, 4)))
    ends.append((entropy, "unigram entropy", palette.faint))
    last, lowest = max(curve["steps"][-1] for curve in result["curves"]), -1.0
    low, high = axes.get_ylim()
    for value, label, color in sorted(ends):
        place = lowest = max((value - low) / (high - low), lowest + 0.075)
        axes.text(
            1.02,
            place,
            f"{label} {value:.2f}",
            color=color,
            transform=axes.transAxes,
            va="center",
            fontsize=9.5,
        )
    axes.set_xlim(0, last)
    axes.set_xlabel("step")
    axes.set_ylabel("cross entropy (nats per token)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(palette.line)
    axes.tick_params(colors=palette.faint, length=3)
    axes.grid(axis="y", color=palette.line, linewidth=0.5, alpha=0.6)
    return figure
