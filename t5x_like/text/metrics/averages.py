"""GLUE's and SuperGLUE's averages as T5 defines them, and what several runs say together."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

# Benchmark: group: the metrics whose mean is the group's score, named "task/metric". WNLI and AX are in no average
# (Raffel et al. 2020, §2.3, https://arxiv.org/abs/1910.10683).
AVERAGES: dict[str, dict[str, tuple[str, ...]]] = {
    "glue": {
        "CoLA": ("glue_cola_v002/matthews_corrcoef",),
        "SST-2": ("glue_sst2_v002/accuracy",),
        "MRPC": ("glue_mrpc_v002/f1", "glue_mrpc_v002/accuracy"),
        "STSB": ("glue_stsb_v002/pearson_corrcoef", "glue_stsb_v002/spearman_corrcoef"),
        "QQP": ("glue_qqp_v002/f1", "glue_qqp_v002/accuracy"),
        "MNLI": ("glue_mnli_matched_v002/accuracy", "glue_mnli_mismatched_v002/accuracy"),
        "QNLI": ("glue_qnli_v002/accuracy",),
        "GLUE RTE": ("glue_rte_v002/accuracy",),
    },
    "super_glue": {
        "BoolQ (accuracy)": ("super_glue_boolq_v102/accuracy",),
        "CB": ("super_glue_cb_v102/mean_3class_f1", "super_glue_cb_v102/accuracy"),
        "CoPA": ("super_glue_copa_v102/accuracy",),
        "MultiRC": ("super_glue_multirc_v102/f1", "super_glue_multirc_v102/exact_match"),
        "ReCoRD": ("super_glue_record_v102/f1", "super_glue_record_v102/em"),
        "SuperGLUE RTE": ("super_glue_rte_v102/accuracy",),
        "WiC": ("super_glue_wic_v102/accuracy",),
        "WSC": ("super_glue_wsc_v102_simple_eval/accuracy",),
    },
}


def missing_parts(benchmark: str, scores: Mapping[str, float | None]) -> list[str]:
    """The metrics, "task/metric", that the average needs and ``scores`` lacks (or has as ``None``).

    Raises:
      ValueError: there is no such average.
    """
    return [name for names in _groups(benchmark).values() for name in names if scores.get(name) is None]


def average(benchmark: str, scores: Mapping[str, float | None]) -> float | None:
    """The mean over the benchmark's groups of the mean of each group's metrics; ``None`` where a part is missing.

    ``scores`` are by "task/metric", times 100. One that is not a number makes the average none, too.

    Raises:
      ValueError: there is no such average.
    """
    if missing_parts(benchmark, scores):
        return None
    means = [_mean([float(scores[name] or 0.0) for name in names]) for names in _groups(benchmark).values()]
    return _mean(means)


def averages(scores: Mapping[str, float | None]) -> dict[str, float | None]:
    """All averages, by benchmark, of which any part is there."""
    return {
        benchmark: average(benchmark, scores)
        for benchmark, groups in AVERAGES.items()
        if any(name in scores for names in groups.values() for name in names)
    }


class OverRuns(NamedTuple):
    """A metric over runs that differ by their seed. ``deviation`` is of the sample (n - 1), ``None`` for one run."""

    mean: float
    deviation: float | None
    runs: int


def over_runs(runs: Sequence[Mapping[str, float | None]]) -> dict[str, OverRuns]:
    """Mean and standard deviation of every metric that all runs have a number for.

    Raises:
      ValueError: there is no run.
    """
    if not runs:
        raise ValueError("no runs to take the mean of")
    common = [name for name in runs[0] if all(_is_number(run.get(name)) for run in runs)]
    return {name: _over([float(run[name] or 0.0) for run in runs]) for name in common}


def _over(values: list[float]) -> OverRuns:
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return OverRuns(statistics.fmean(values), deviation, len(values))


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return sum(values) / len(values)


def _groups(benchmark: str) -> dict[str, tuple[str, ...]]:
    if benchmark not in AVERAGES:
        raise ValueError(f"there is no average of {benchmark!r}, only of {', '.join(AVERAGES)}")
    return AVERAGES[benchmark]
