"""Figures of reports as SVG elements."""

import io
from collections.abc import Callable
from typing import Any

# Okabe and Ito's palette, distinguishable with any color vision: https://jfly.uni-koeln.de/color/
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
INK, FAINT = "#333333", "#8a8a8a"
_IMAGE_DPI = 216  # of images in figures; lines and text have no resolution


def svg_figure(draw: Callable[[Any], None], *, title: str, size_inches: tuple[float, float]) -> str:
    """Return a figure of one pair of axes as an SVG element.

    Args:
      draw: Draws on matplotlib's axes.
      title: Text that makes the ids of this figure's elements unique in a page.
      size_inches: Width and height of the figure.
    """

    def draw_axes(figure: Any) -> None:
        axes = figure.add_subplot()
        draw(axes)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(FAINT)
        axes.tick_params(colors=INK, length=3)
        axes.grid(axis="y", color="#e6e6e6", linewidth=0.7)
        axes.set_axisbelow(True)

    return svg_panels(draw_axes, title=title, size_inches=size_inches)


def svg_panels(draw: Callable[[Any], None], *, title: str, size_inches: tuple[float, float]) -> str:
    """Return a figure of any number of axes as an SVG element.

    Args:
      draw: Adds axes to matplotlib's figure, and draws on them.
      title: Text that makes the ids of this figure's elements unique in a page.
      size_inches: Width and height of the figure.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    # Text stays searchable; the salt makes the ids of two figures in one page different.
    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": title,
        "font.size": 10,
        "axes.linewidth": 0.8,
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=size_inches, layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        file = io.StringIO()
        figure.savefig(file, format="svg", dpi=_IMAGE_DPI, metadata={"Date": None}, transparent=True)
    svg = file.getvalue()
    return svg[svg.index("<svg") :]
