"""Colors and saving, shared by the pictures: each exists for light and for dark pages."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True, kw_only=True)
class Palette:
    """Colors on a light or a dark page.

    Attributes:
      name: "light" or "dark".
      ink: text and lines.
      faint: secondary text, axes, arrows.
      line: borders and grids.
      paper: boxes.
      accents: colors that differ for people with any color vision (after Okabe and Ito, https://jfly.uni-koeln.de/color/).
    """

    name: str
    ink: str
    faint: str
    line: str
    paper: str
    accents: tuple[str, ...]


LIGHT = Palette(
    name="light",
    ink="#1f2328",
    faint="#59636e",
    line="#c8ced6",
    paper="#f3f5f8",
    accents=("#0072B2", "#D55E00", "#009E73", "#B35C92", "#B8860B", "#3A96C8"),
)
DARK = Palette(
    name="dark",
    ink="#e6edf3",
    faint="#9aa5b1",
    line="#4a5360",
    paper="#272d36",
    accents=("#5CB3E6", "#FF9A5C", "#3CC79A", "#E39BC8", "#E8C04C", "#9AD4F5"),
)
PALETTES = (LIGHT, DARK)

Draw = Callable[[Palette], Figure]


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure of ``width`` by ``height`` inches, and axes over all of it whose unit is the inch."""
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.set_axis_off()
    return figure, axes


def add_box(
    axes: Axes, left: float, bottom: float, width: float, height: float, *, face: str, edge: str
) -> None:
    """Draw a box with round corners."""
    style = "round,pad=0,rounding_size=0.07"
    axes.add_patch(
        FancyBboxPatch(
            (left, bottom), width, height, boxstyle=style, facecolor=face, edgecolor=edge, linewidth=1
        )
    )


def add_arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], color: str, *, curve: float = 0.0
) -> None:
    """Draw an arrow; ``curve`` bends it by this part of its length."""
    axes.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=11, color=color, linewidth=1.2,
            connectionstyle=f"arc3,rad={curve}", shrinkA=0, shrinkB=0,
        )
    )  # fmt: skip


def svg_of(draw: Draw, palette: Palette, name: str) -> str:
    """Return the picture as SVG; the same code gives the same bytes."""
    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "font.family": "sans-serif",
        "font.size": 10,
    }
    style |= {"text.color": palette.ink, "axes.labelcolor": palette.ink}
    with matplotlib.rc_context(style):
        figure = draw(palette)
        FigureCanvasSVG(figure)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"
