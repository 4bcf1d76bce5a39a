"""Means and standard deviations of metrics over runs with different seeds."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class RunStatistics(NamedTuple):
    """A metric over several runs.

    Attributes:
      mean: Mean over the runs.
      deviation: Sample standard deviation (n - 1); ``None`` for one run.
      runs: Number of runs.
    """

    mean: float
    deviation: float | None
    runs: int


def over_runs(runs: Sequence[Mapping[str, float | None]]) -> dict[str, RunStatistics]:
    """Compute mean and standard deviation of every metric that is a finite number in all runs.

    Raises:
      ValueError: There are no runs.
    """
    if not runs:
        raise ValueError("no runs to take the mean of")
    common = [name for name in runs[0] if all(_is_number(run.get(name)) for run in runs)]
    return {name: _over([float(run[name] or 0.0) for run in runs]) for name in common}


def _over(values: list[float]) -> RunStatistics:
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return RunStatistics(statistics.fmean(values), deviation, len(values))


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
