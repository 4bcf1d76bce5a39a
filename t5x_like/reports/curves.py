"""Loss curves: read from a run's ``metrics.jsonl``, drawn as an SVG element for an HTML page."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from t5x_like.io.files import as_path, read_jsonl
from t5x_like.reports.svg_figure import COLORS, FAINT, INK, svg_figure

PathLike = str | os.PathLike[str]

_LOSSES = ("cross_entropy", "loss")  # cross_entropy has no z-loss, so it can be compared with an entropy


class Curve(NamedTuple):
    """Loss curve of one task on training or validation data.

    Attributes:
      task: Name of the task.
      held_out: True for validation data.
      steps: Steps of the points.
      losses: Cross-entropies in nats per target token, or losses of another kind.
      is_cross_entropy: False for losses of another kind, such as those of pairs of answers.
    """

    task: str
    held_out: bool
    steps: list[int]
    losses: list[float]
    is_cross_entropy: bool = True


def read_curves(run_directory: PathLike) -> list[Curve]:
    """Return the loss curves of a run's log; see ``curves_of``.

    Raises:
      ValueError: The run logged no loss.
    """
    path = as_path(run_directory) / "metrics.jsonl"
    curves = curves_of(read_jsonl(path))
    if not curves:
        raise ValueError(f"{path} has no line of the split 'train' or 'validation/…' with a loss")
    return curves


def curves_of(lines: Iterable[Mapping[str, Any]]) -> list[Curve]:
    """Return the loss curves of logged lines: training first, then validation; one per task if it has several."""
    points: dict[tuple[str, bool], list[tuple[int, float]]] = {}
    is_cross_entropy = False
    for line in lines:
        side, _, name = line["split"].partition("/")
        if side not in ("train", "validation"):
            continue
        is_cross_entropy = is_cross_entropy or any(name.startswith(_LOSSES[0]) for name in line)
        weights = "@average" if name.endswith("@average") else ""  # of averaged weights
        for task, loss in _losses(line).items():
            label = f"{task}{weights}" if task else name
            points.setdefault((label, side == "validation"), []).append((line["step"], loss))
    curves = [
        Curve(task, held_out, *map(list, zip(*sorted(at), strict=True)), is_cross_entropy=is_cross_entropy)
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
    tasks = sorted({curve.task for curve in curves if curve.held_out or curve.task})

    def draw(axes: Any) -> None:
        ends = []
        for curve in curves:
            color = COLORS[tasks.index(curve.task) % len(COLORS)] if curve.task in tasks else FAINT
            _draw(axes, curve, color)
            ends.append((curve.losses[-1], _label(curve, len(tasks)), color))
        if unigram_entropy is not None:
            axes.axhline(unigram_entropy, color=INK, linewidth=1, linestyle=(0, (5, 4)))
            ends.append((unigram_entropy, "unigram entropy", INK))
        _style_axes(axes, last_step=max(curve.steps[-1] for curve in curves))
        axes.set_ylabel("loss (nats per token)" if curves[0].is_cross_entropy else "loss", color=INK)
        _label_ends(axes, ends)

    return svg_figure(draw, title=title, size_inches=(width_inches, 3.3))


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
    axes.set_xlim(0, last_step)
    axes.set_xlabel("step", color=INK)
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
