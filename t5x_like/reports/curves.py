"""Loss curves: read from a run's ``metrics.jsonl``, drawn as an SVG element for an HTML page."""

import io
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t5x_like.io.files import read_jsonl

PathLike = str | os.PathLike[str]

# Okabe and Ito's palette, distinguishable with any color vision: https://jfly.uni-koeln.de/color/
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_INK, _FAINT = "#333333", "#8a8a8a"
_LOSSES = ("cross_entropy", "loss")  # cross_entropy has no z-loss, so it can be compared with an entropy


class Curve(NamedTuple):
    """Loss curve of one task on training or validation data, in nats per target token."""

    task: str
    held_out: bool
    steps: list[int]
    losses: list[float]


def read_curves(run_directory: PathLike) -> list[Curve]:
    """Return the loss curves of a run's log; see ``curves_of``.

    Raises:
      ValueError: The run logged no loss.
    """
    path = Path(run_directory) / "metrics.jsonl"
    curves = curves_of(read_jsonl(path))
    if not curves:
        raise ValueError(f"{path} has no line of the split 'train' or 'validation/…' with a loss")
    return curves


def curves_of(lines: Iterable[Mapping[str, Any]]) -> list[Curve]:
    """Return the loss curves of logged lines: training first, then validation; one per task if it has several."""
    points: dict[tuple[str, bool], list[tuple[int, float]]] = {}
    for line in lines:
        side, _, name = line["split"].partition("/")
        if side not in ("train", "validation"):
            continue
        weights = "@average" if name.endswith("@average") else ""  # of averaged weights
        for task, loss in _losses(line).items():
            label = f"{task}{weights}" if task else name
            points.setdefault((label, side == "validation"), []).append((line["step"], loss))
    curves = [
        Curve(task, held_out, *map(list, zip(*sorted(at), strict=True)))
        for (task, held_out), at in points.items()
    ]
    return sorted(curves, key=lambda curve: (curve.held_out, curve.task))


def _losses(line: Mapping[str, Any]) -> dict[str, float]:
    """Return the loss of each task in a logged line, or of all tasks together under an empty name."""
    prefix = "cross_entropy/"
    by_task = {key.removeprefix(prefix): value for key, value in line.items() if key.startswith(prefix)}
    total = next((line[name] for name in _LOSSES if name in line), None)
    return by_task or ({} if total is None else {"": total})


def draw_loss_curves(
    curves: Sequence[Curve], *, title: str, unigram_entropy: float | None = None, width_inches: float = 7.2
) -> str:
    """Draw an SVG element with a labeled line for each curve.

    Curves of one task share a color: thin for training, with points for validation.

    Args:
      curves: Curves to draw.
      title: Text that makes the ids of this figure's elements unique in a page.
      unigram_entropy: Height of a dashed line, if given.
      width_inches: Width of the figure.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    tasks = sorted({curve.task for curve in curves if curve.held_out or curve.task})
    # Text stays searchable; the salt makes the ids of two figures in one page different.
    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": title,
        "font.size": 10,
        "axes.linewidth": 0.8,
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(width_inches, 3.3), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        ends = []
        for curve in curves:
            color = _COLORS[tasks.index(curve.task) % len(_COLORS)] if curve.task in tasks else _FAINT
            _draw(axes, curve, color)
            ends.append((curve.losses[-1], _label(curve, len(tasks)), color))
        if unigram_entropy is not None:
            axes.axhline(unigram_entropy, color=_INK, linewidth=1, linestyle=(0, (5, 4)))
            ends.append((unigram_entropy, "unigram entropy", _INK))
        _style_axes(axes, last_step=max(curve.steps[-1] for curve in curves))
        _label_ends(axes, ends)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
    svg = file.getvalue()
    return svg[svg.index("<svg") :]


def _draw(axes: Any, curve: Curve, color: str) -> None:
    if curve.held_out:
        axes.plot(
            curve.steps, curve.losses, color=color, linewidth=2, marker="o", markersize=4, clip_on=False
        )
    else:
        axes.plot(curve.steps, curve.losses, color=color, linewidth=1.1, alpha=0.75)


def _label(curve: Curve, num_tasks: int) -> str:
    side = "validation" if curve.held_out else "training"
    return side if num_tasks <= 1 or not curve.task else f"{curve.task.replace('_', ' ')}, {side}"


def _style_axes(axes: Any, *, last_step: int) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_FAINT)
    axes.tick_params(colors=_INK, length=3)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_xlim(0, last_step)
    axes.set_xlabel("step", color=_INK)
    axes.set_ylabel("loss (nats per token)", color=_INK)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.0) if low < 0.25 * high else low, high)


def _label_ends(axes: Any, ends: list[tuple[float, str, str]]) -> None:
    """Label each line at its right end, moving labels apart that would overlap."""
    low, high = axes.get_ylim()
    ends = sorted(ends, key=lambda end: end[0] if math.isfinite(end[0]) else math.inf)
    wanted = [(value - low) / (high - low) if math.isfinite(value) else 1.0 for value, _, _ in ends]
    for position, (value, label, color) in zip(_pushed_apart(wanted, gap=0.075), ends, strict=True):
        axes.text(
            1.015,
            position,
            f"{label}  {value:.2f}",
            color=color,
            transform=axes.transAxes,
            va="center",
            fontsize=9.5,
            parse_math=False,
        )


def _pushed_apart(wanted: Sequence[float], *, gap: float) -> list[float]:
    """Return rising positions at least ``gap`` apart, as near to the ``wanted`` ones as possible."""
    positions: list[float] = []
    for position in wanted:
        positions.append(max(position, positions[-1] + gap if positions else 0.0))
    ceiling = 1.0 + gap
    for index in reversed(range(len(positions))):
        ceiling = positions[index] = min(positions[index], ceiling - gap)
    return positions
