"""Rewards of a run's own answers: their curve against the divergence from the reference, and samples."""

import os
from typing import Any, NamedTuple

from t5x_like.io.files import as_path, read_jsonl
from t5x_like.reports.svg_figure import COLORS, INK, svg_figure

PathLike = str | os.PathLike[str]

_SAMPLES = "samples"  # files that training.rollouts.rollout_files writes


class RewardCurve(NamedTuple):
    """Mean rewards of answers at the steps of a log.

    Attributes:
      steps: Steps of the points.
      rewards: Mean reward since the point before.
      kl: Mean divergence of an answer from the reference, in nats; empty without a reference.
    """

    steps: list[int]
    rewards: list[float]
    kl: list[float]


def read_rewards(run_directory: PathLike) -> RewardCurve | None:
    """Return the rewards that a run has logged; None for a run without answers of its own."""
    lines = [
        line
        for line in read_jsonl(as_path(run_directory) / "metrics.jsonl")
        if line["split"] == "train" and line.get("reward") is not None
    ]
    if not lines:
        return None
    kl = [line["kl"] for line in lines if "kl" in line]
    return RewardCurve(
        [line["step"] for line in lines],
        [line["reward"] for line in lines],
        kl if len(kl) == len(lines) else [],
    )


def read_samples(run_directory: PathLike) -> list[dict[str, Any]]:
    """Return the answers that a run has kept, of its first and of its last such step."""
    files = sorted((as_path(run_directory) / _SAMPLES).glob("*.jsonl"))
    return [row for file in dict.fromkeys([*files[:1], *files[-1:]]) for row in read_jsonl(file)]


def draw_rewards(curve: RewardCurve, *, title: str) -> str:
    """Draw an SVG element with the rewards against the divergence, or against the step without a reference.

    Later points are darker. A reward that rises with the divergence while answers get worse is over-optimized (Gao et
    al. 2023, https://arxiv.org/abs/2210.10760).

    Args:
      curve: The rewards.
      title: Text that makes the ids of this figure's elements unique in a page.
    """
    places = curve.kl or curve.steps

    def draw(axes: Any) -> None:
        axes.plot(places, curve.rewards, color=COLORS[0], linewidth=0.8, alpha=0.35)
        last = max(curve.steps[-1], 1)
        shades = [min(0.2 + 0.8 * step / last, 1.0) for step in curve.steps]
        axes.scatter(places, curve.rewards, color=COLORS[0], alpha=shades, s=18, linewidths=0)
        for index in dict.fromkeys((0, len(places) - 1)):
            axes.annotate(
                f"step {curve.steps[index]:,}",
                (places[index], curve.rewards[index]),
                xytext=(4, 6),
                textcoords="offset points",
                color=INK,
                fontsize=9.5,
            )
        axes.set_xlabel(
            "divergence from the reference (nats for an answer)" if curve.kl else "step", color=INK
        )
        axes.set_ylabel("mean reward", color=INK)

    return svg_figure(draw, title=f"rewards of {title}", size_inches=(7.2, 3.3))
