"""Verdicts: whether the scores of two settings have the paper's order, by an interval of their difference."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from scipy import stats

from benchmarks.findings.plan import Finding, Pair
from t5x_like.sweep.comparison import Comparison

Verdict = Literal["same", "other", "undecided"]
CONFIDENCE = 0.95


class Interval(NamedTuple):
    """Confidence interval of a difference of means.

    Attributes:
      difference: First mean minus second.
      low: Lower end.
      high: Upper end.
    """

    difference: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        """``same`` if the interval is above zero, ``other`` below it."""
        return "same" if self.low > 0 else "other" if self.high < 0 else "undecided"


def welch_interval(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Return the interval of a difference of means of samples with unequal variances (Welch 1947).

    >>> [round(value, 3) for value in welch_interval([3.0, 4.0, 5.0], [1.0, 1.5, 2.0])]
    [2.5, 0.498, 4.502]

    Args:
      first: Scores of one setting, at least two.
      second: Scores of the other.
    """
    difference = statistics.fmean(first) - statistics.fmean(second)
    parts = [statistics.variance(scores) / len(scores) for scores in (first, second)]
    error = math.sqrt(sum(parts))
    if not error:
        return Interval(difference, difference, difference)
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(scores) - 1) for part, scores in zip(parts, (first, second), strict=True)
    )
    reach = error * float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom))
    return Interval(difference, difference - reach, difference + reach)


def pair_entries(
    finding: Finding, comparison: Comparison, runs: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the entries of a finding's pairs that have enough seeds, for ``findings.json``.

    Args:
      finding: A finding of the plan.
      comparison: Its comparison.
      runs: All runs that were made, of this plan and of earlier ones.
    """
    by_setting: dict[str, dict[int, Mapping[str, Any]]] = {}
    for run in planned_runs(finding, runs):
        by_setting.setdefault(run["setting"], {})[run["seed"]] = run
    entries = []
    for pair in finding.pairs(comparison):
        better, worse = (by_setting.get(setting, {}) for setting in (pair.better, pair.worse))
        if min(len(better), len(worse)) >= finding.seeds:
            entries.append(
                _entry(finding, pair, better, worse, lowest=finding.held_out_loss or comparison.lowest)
            )
    return entries


def planned_runs(finding: Finding, runs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the finished runs of a finding with the plan's macros and seeds.

    Args:
      finding: A finding of the plan.
      runs: All runs that were made.
    """
    return [
        run
        for run in runs
        if run["finding"] == finding.name
        and run["status"] == "finished"
        and tuple(run["macros"]) == finding.macros
        and run["seed"] in finding.run_seeds
    ]


def _entry(
    finding: Finding,
    pair: Pair,
    better: Mapping[int, Mapping[str, Any]],
    worse: Mapping[int, Mapping[str, Any]],
    *,
    lowest: bool,
) -> dict[str, Any]:
    sign = -1 if lowest else 1
    interval = welch_interval(*([sign * run["score"] for run in runs.values()] for runs in (better, worse)))
    both = [*better.values(), *worse.values()]
    newest = max(both, key=lambda run: run["date"])
    return {
        "finding": finding.name,
        "sentence": finding.sentence,
        "paper": finding.paper,
        "better": pair.better,
        "worse": pair.worse,
        "paper_difference": pair.paper_difference,
        "metric": newest["metric"],
        "difference": round(interval.difference, 4),
        "interval": [round(interval.low, 4), round(interval.high, 4)],
        "seeds": finding.seeds,
        "steps": sum(next(iter(better.values()))["steps"]),
        "parameters": next(iter(better.values()))["parameters"],
        "device": newest["device"],
        "commit": ", ".join(sorted({run["commit"] for run in both})),
        "verdict": interval.verdict,
        "why": None,
    }
