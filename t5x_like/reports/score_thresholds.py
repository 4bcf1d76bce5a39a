"""Choice of a threshold for scores: precision, recall and the share of rows kept, for many thresholds."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from t5x_like.io.files import as_path, write_json, write_text
from t5x_like.reports.rendering import Tile, number, plural, render, share
from t5x_like.reports.svg_figure import COLORS, INK, svg_figure

PathLike = str | os.PathLike[str]
_NUM_THRESHOLDS = 41
_NUM_ROWS = 11  # of the table


@dataclass(frozen=True, kw_only=True)
class ThresholdOutcome:
    """Rows that a threshold keeps.

    Attributes:
      threshold: Lowest score that is kept.
      kept: Fraction of the rows that it keeps.
      precision: Fraction of these that are good.
      recall: Fraction of the good rows that it keeps.
      f1: Harmonic mean of precision and recall.
    """

    threshold: float
    kept: float
    precision: float
    recall: float
    f1: float


def threshold_outcomes(scores: Sequence[float], are_good: Sequence[bool]) -> list[ThresholdOutcome]:
    """Return the outcomes of thresholds at even distances, from the lowest score to the highest.

    Args:
      scores: A score for each row.
      are_good: True for rows that should be kept.

    Raises:
      ValueError: All rows are good, none is, or all scores are equal.
    """
    values, good = np.asarray(scores, float), np.asarray(are_good, bool)
    if good.all() or not good.any():
        raise ValueError(
            f"{int(good.sum())} of {plural(len(good), 'row')} are good; a threshold needs rows of both kinds"
        )
    if values.min() == values.max():
        raise ValueError(f"all scores are {values[0]:g}; there is nothing to choose")
    return [
        _outcome(values, good, float(threshold))
        for threshold in np.linspace(values.min(), values.max(), _NUM_THRESHOLDS)
    ]


def _outcome(values: np.ndarray, good: np.ndarray, threshold: float) -> ThresholdOutcome:
    kept = values >= threshold
    right = int((kept & good).sum())
    return ThresholdOutcome(
        threshold=threshold,
        kept=float(kept.mean()),
        precision=right / max(int(kept.sum()), 1),
        recall=right / int(good.sum()),
        f1=2 * right / int(kept.sum() + good.sum()),
    )


def best_outcome(outcomes: Sequence[ThresholdOutcome]) -> ThresholdOutcome:
    """Return the outcome of the highest F1, the lowest threshold of equal ones."""
    return max(outcomes, key=lambda outcome: (outcome.f1, -outcome.threshold))


def write_thresholds(
    output: PathLike, outcomes: Sequence[ThresholdOutcome], *, description: str, num_rows: int
) -> None:
    """Write a page with the plot and a table, and its numbers as JSON under the same name.

    Args:
      output: HTML file; the JSON file ends in ``.json`` instead.
      outcomes: Outcomes in the order of their thresholds.
      description: Sentence about the scores and the good rows.
      num_rows: Number of rows that they were counted on.
    """
    best = best_outcome(outcomes)
    values = [asdict(outcome) for outcome in outcomes]
    chosen = {"description": description, "rows": num_rows, "best": asdict(best)}
    write_json(as_path(output).with_suffix(".json"), {**chosen, "thresholds": values})
    header = ("threshold", ">kept", ">precision", ">recall", ">F1")
    rows = [_cells(outcome) for outcome in outcomes[:: max(1, len(outcomes) // (_NUM_ROWS - 1))]]
    page = render(
        "analysis.html.j2",
        title="Thresholds",
        introduction=f"{description} Counted on {plural(num_rows, 'row')}.",
        headlines=[
            Tile("threshold of the best F1", f"{best.threshold:.4g}", "", True),
            Tile("rows kept", share(best.kept, 1), "", False),
            Tile("precision", number(best.precision), "", False),
            Tile("recall", number(best.recall), "", False),
        ],
        figures=[
            {
                "title": "By threshold",
                "svg": _draw(outcomes),
                "caption": "Precision: fraction of the kept rows that are good. Recall: fraction of the good rows that "
                "are kept.",
            }
        ],
        tables=[{"title": "Numbers", "caption": "", "header": header, "rows": rows}],
    )
    write_text(output, page)


def _cells(outcome: ThresholdOutcome) -> tuple[str, ...]:
    fractions = (outcome.precision, outcome.recall, outcome.f1)
    return (f"{outcome.threshold:.4g}", share(outcome.kept, 1), *(f"{value:.3f}" for value in fractions))


def _draw(outcomes: Sequence[ThresholdOutcome]) -> str:
    thresholds = [outcome.threshold for outcome in outcomes]

    def draw(axes: Any) -> None:
        for name, color in zip(("precision", "recall", "kept"), COLORS, strict=False):
            axes.plot(thresholds, [getattr(outcome, name) for outcome in outcomes], color=color, label=name)
        axes.axvline(best_outcome(outcomes).threshold, color=INK, linewidth=1, linestyle=(0, (5, 4)))
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("threshold", color=INK)
        axes.legend(frameon=False, labelcolor=INK)

    return svg_figure(draw, title="thresholds", size_inches=(7.2, 3.3))
