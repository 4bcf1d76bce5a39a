"""Findings: differences of pairs of settings with their intervals, by finding."""

import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from docs.pictures.style import Palette

RESULT = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "findings.json"
_ROW, _HEADING = 0.2, 0.42  # inches
_VERDICTS = ("same", "other", "undecided")


def draw(palette: Palette) -> Figure:
    """Draw a line for each pair, in units of the widest interval of its finding."""
    entries: list[dict[str, Any]] = json.loads(RESULT.read_text(encoding="utf-8"))
    groups: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        groups.setdefault(entry["finding"], []).append(entry)
    height = _HEADING * len(groups) + _ROW * len(entries) + 0.5
    figure = Figure(figsize=(8.4, height))
    axes = figure.add_axes((0.47, 0.0, 0.5, 1.0))
    axes.set_axis_off()
    axes.set_xlim(-1.05, 1.05)
    axes.set_ylim(-height, 0)
    colors = dict(zip(_VERDICTS, (palette.accents[0], palette.accents[1], palette.faint), strict=True))
    axes.axvline(0, color=palette.line, linewidth=1, ymin=0, ymax=1 - 0.4 / height)
    for place, (verdict, color) in enumerate(colors.items()):
        axes.text(-0.7 + 0.7 * place, -0.18, verdict, color=color, ha="center", va="center", fontsize=9.5)
    top = 0.3
    for finding, pairs in groups.items():
        top += _HEADING
        axes.text(-2.0, -top + 0.12, finding, color=palette.ink, va="center", fontsize=9.5, fontweight="bold")
        unit = max(abs(end) for pair in pairs for end in (*pair["interval"], pair["difference"])) or 1.0
        for pair in pairs:
            top += _ROW
            low, high = (end / unit for end in pair["interval"])
            color = colors[pair["verdict"]]
            axes.plot([low, high], [-top, -top], color=color, linewidth=1.6, solid_capstyle="butt")
            axes.plot([pair["difference"] / unit], [-top], "o", color=color, markersize=3.5)
            label = f"{pair['better']}  >  {pair['worse']}"
            axes.text(-1.08, -top, label, color=palette.faint, va="center", ha="right", fontsize=7.5)
    return figure
