"""Calibration plots: the share of predictions that are right, by the probability that the model gave them."""

from collections.abc import Mapping
from typing import Any

from t5x_like.reports.svg_figure import COLORS, FAINT, INK, svg_figure


def draw_calibration(calibration: Mapping[str, Any], *, title: str) -> str:
    """Draw an SVG element with a bar for each bin, its number of pairs, and a dashed line of perfect calibration.

    Args:
      calibration: Result of ``text.metrics.calibration.pair_calibration``.
      title: Text that makes the ids of this figure's elements unique in a page.
    """
    bins = calibration["bins"]
    low, high = bins[0]["low"], bins[-1]["high"]

    def draw(axes: Any) -> None:
        for each in bins:
            middle, width = (each["low"] + each["high"]) / 2, each["high"] - each["low"]
            if each["pairs"]:
                axes.bar(middle, each["observed"], 0.86 * width, color=COLORS[0], alpha=0.35)
                axes.plot(each["predicted"], each["observed"], "o", color=COLORS[0], clip_on=False)
            axes.text(middle, 104, f"{each['pairs']:,}", color=INK, ha="center", va="bottom", fontsize=9.5)
        axes.plot([low, high], [low, high], color=INK, linewidth=1, linestyle=(0, (5, 4)))
        axes.text(1.015, 1.04, "pairs", color=FAINT, transform=axes.transAxes, va="bottom", fontsize=9.5)
        axes.set_xlim(low, high)
        axes.set_ylim(0, 100)
        axes.set_xticks([bins[0]["low"], *(each["high"] for each in bins)])
        axes.set_xlabel("probability of the preferred answer (%)", color=INK)
        axes.set_ylabel("share that is right (%)", color=INK)

    return svg_figure(draw, title=f"calibration of {title}", size_inches=(7.2, 3.3))
