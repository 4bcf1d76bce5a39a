"""Scores of a sweep's runs, summarized over seeds for each setting, and the best setting."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from t5x_like.evaluation.scores_file import SCORES, flat_scores, read_scores
from t5x_like.io.files import PathLike, as_path, read_jsonl
from t5x_like.reports.metrics_log import METRICS, held_out_scores
from t5x_like.reports.score_tables import aligned
from t5x_like.sweep.comparison import Agreement, Comparison, agreement
from t5x_like.text.metrics.by_name import LOWER_IS_BETTER

Scores = Mapping[str, float]  # "glue_rte_v002/accuracy": 66.4, "validation/king_james/loss": 2.3


class RunOutcome(NamedTuple):
    """Status and scores of a run.

    Attributes:
      name: Folder name of the run.
      settings: Macros as written on the command line.
      seed: Random seed; ``None`` for the recipe's.
      status: State of the run.
      directory: Folder of the run.
      step: Step whose scores count, if the run has finished.
      scores: All scores at that step.
      score: The score to compare.
      num_parameters: Size of the model; ``None`` if it is that of a checkpoint.
    """

    name: str
    settings: dict[str, str]
    seed: int | None
    status: Literal["finished", "failed", "interrupted", "waiting"]
    directory: str
    step: int | None = None
    scores: Scores | None = None
    score: float | None = None
    num_parameters: int | None = None


class SettingSummary(NamedTuple):
    """Scores of a setting over its finished seeds.

    Attributes:
      settings: Macros as written on the command line.
      scores: Scores by seed; ``-`` for the recipe's own seed.
      mean: Mean score; ``None`` if no run has finished.
      std: Sample standard deviation; ``None`` for a single run.
      median: Median score.
      best: Best score.
      num_parameters: Size of the model; ``None`` if it is that of a checkpoint.
    """

    settings: dict[str, str]
    scores: dict[str, float]
    mean: float | None
    std: float | None
    median: float | None
    best: float | None
    num_parameters: int | None = None


def scores_by_step(directory: PathLike) -> dict[int, dict[str, float]]:
    """Return the scores in a run's ``metrics.jsonl``, by step, or those of an evaluation's ``scores.json``."""
    file = as_path(directory) / METRICS
    if not file.exists() and (as_path(directory) / SCORES).exists():
        recorded = read_scores(directory)
        scores = {name: value for name, value in flat_scores(recorded).items() if value is not None}
        return {recorded["step"] or 0: scores}
    return held_out_scores(read_jsonl(file) if file.exists() else ())


def score_of(scores: Scores, metric: str | None) -> float:
    """Return the score to compare.

    It is the value of ``metric``, the mean over the tasks that have it, or without ``metric`` the mean over all tasks.
    A task's score is the mean over its metrics, as in GLUE (Wang et al. 2019, §3), without those that are better when
    they are lower.

    Args:
      scores: Scores by "task/metric".
      metric: Name with or without its task.

    Raises:
      ValueError: No metric of that name was measured.
    """
    if metric is not None:
        if metric in scores:
            return scores[metric]
        named = [value for name, value in scores.items() if name.rpartition("/")[2] == metric]
        of_tasks = [
            value for name, value in scores.items() if name.rpartition("/")[2] == metric and _is_of_task(name)
        ]
        if named:
            return statistics.fmean(of_tasks or named)
        raise ValueError(
            f"the runs have not measured {metric!r}; choose metric among: {', '.join(scores) or 'nothing at all'}"
        )
    tasks: dict[str, list[float]] = {}
    for name, value in scores.items():
        if _is_of_task(name) and name.rpartition("/")[2] not in LOWER_IS_BETTER:
            tasks.setdefault(name.rpartition("/")[0], []).append(value)
    if not tasks:
        raise ValueError(
            "the recipe scores no task, it only measures losses or error rates; say which number to compare, for "
            f"instance metric={next(iter(scores), 'validation/TASK/loss')} with lowest=True"
        )
    return statistics.fmean(statistics.fmean(values) for values in tasks.values())


def _is_of_task(name: str) -> bool:
    """Return False for losses of held-out data, and for scores of averaged weights."""
    return not name.startswith("validation/") and "@average/" not in name


def chosen_step(
    by_step: Mapping[int, Scores], metric: str | None, *, at: Literal["last", "best"], lowest: bool
) -> int:
    """Return the step that represents a run (Raffel et al. 2020, §3.1.3).

    Args:
      by_step: Scores by step.
      metric: See ``score_of``.
      at: The last step, or the one with the best score.
      lowest: True if lower scores are better.

    Raises:
      ValueError: The run has measured nothing.
    """
    if not by_step:
        raise ValueError("the run has measured nothing: the recipe needs evaluations, or validations")
    if at == "last":
        return max(by_step)
    sign = -1 if lowest else 1
    return max(by_step, key=lambda step: (sign * score_of(by_step[step], metric), -step))


def summarize(outcomes: Sequence[RunOutcome], *, lowest: bool = False) -> list[SettingSummary]:
    """Return a summary of every setting, in the grid's order.

    Args:
      outcomes: All runs of the sweep.
      lowest: True if lower scores are better.
    """
    groups: dict[tuple, list[RunOutcome]] = {}
    for outcome in outcomes:
        groups.setdefault(tuple(outcome.settings.items()), []).append(outcome)
    return [_summary(dict(key), group, lowest) for key, group in groups.items()]


def _summary(settings: dict[str, str], group: Sequence[RunOutcome], lowest: bool) -> SettingSummary:
    scores = {"-" if one.seed is None else str(one.seed): one.score for one in group if one.score is not None}
    values = list(scores.values())
    num_parameters = group[0].num_parameters
    if not values:
        return SettingSummary(settings, {}, None, None, None, None, num_parameters)
    return SettingSummary(
        settings,
        scores,
        mean=statistics.fmean(values),
        std=statistics.stdev(values) if len(values) > 1 else None,
        median=statistics.median(values),
        best=min(values) if lowest else max(values),
        num_parameters=num_parameters,
    )


def best_of(settings: Sequence[SettingSummary], *, lowest: bool = False) -> SettingSummary | None:
    """Return the setting with the best mean; the first one on a tie.

    Args:
      settings: Settings with their mean scores.
      lowest: True if lower scores are better.
    """
    known = [setting for setting in settings if setting.mean is not None and math.isfinite(setting.mean)]
    sign = -1 if lowest else 1
    return max(known, key=lambda setting: sign * (setting.mean or 0.0), default=None)


def table(
    settings: Sequence[SettingSummary],
    *,
    metric: str,
    lowest: bool = False,
    comparison: Comparison | None = None,
) -> str:
    """Return a text table with a line for each setting; a star marks the best. Sizes are shown if they differ.

    Args:
      settings: Summaries of ``summarize``.
      metric: Heading of the scores.
      lowest: True if lower scores are better.
      comparison: The recipe's, for published scores next to the measured ones.
    """
    best = best_of(settings, lowest=lowest)
    published = comparison.published if comparison is not None else {}
    names = list(settings[0].settings) if settings else []
    seeded = any(len(setting.scores) > 1 for setting in settings)
    sized = len({setting.num_parameters for setting in settings}) > 1
    heading = ["", *names, *(("parameters",) if sized else ()), metric]
    heading += ["std", "median", "best", "seeds"] if seeded else []
    rows: list[tuple[str, ...]] = [(*heading, *(("published",) if published else ()))]
    for setting in settings:
        size = "-" if setting.num_parameters is None else f"{setting.num_parameters:,}"
        numbers = [*((size,) if sized else ()), _shown(setting.mean)]
        if seeded:
            shown = " ".join(_shown(value) for value in setting.scores.values())
            numbers += [_shown(setting.std), _shown(setting.median), _shown(setting.best), shown]
        if published:
            numbers.append(_shown(published.get(setting.settings.get("setting", ""))))
        rows.append(("*" if setting is best else "", *setting.settings.values(), *numbers))
    return aligned(rows, left=len(rows[0]))


def agreement_with(
    comparison: Comparison, settings: Sequence[SettingSummary], *, lowest: bool
) -> Agreement | None:
    """Return how the order of the settings agrees with the published one; None where fewer than two can be compared.

    Args:
      comparison: The recipe's.
      settings: Summaries of ``summarize``, of a sweep over nothing but the comparison's settings.
      lowest: True if lower measured scores are better.
    """
    if any(set(setting.settings) != {"setting"} for setting in settings):
        return None
    measured = {
        setting.settings["setting"]: (setting.mean, (setting.std or 0.0) / math.sqrt(len(setting.scores)))
        for setting in settings
        if setting.mean is not None and math.isfinite(setting.mean)
    }
    counts = agreement(
        measured, comparison.published, lowest=lowest, published_lowest=comparison.published_lowest
    )
    return counts if sum(counts) else None


def results(
    outcomes: Sequence[RunOutcome],
    *,
    metric: str,
    lowest: bool = False,
    comparison: Comparison | None = None,
) -> dict[str, Any]:
    """Return the contents of ``results.json``.

    Args:
      outcomes: Finished and failed runs.
      metric: Name of the score.
      lowest: True if lower scores are better.
      comparison: Published scores to add next to the measured ones.
    """
    settings = summarize(outcomes, lowest=lowest)
    best = best_of(settings, lowest=lowest)
    described: dict[str, Any] = {
        "metric": metric,
        "lowest_is_best": lowest,
        "best": best and best._asdict(),
        "settings": [setting._asdict() for setting in settings],
        "runs": [outcome._asdict() for outcome in outcomes],
    }
    if comparison is not None and comparison.published:
        agreed = agreement_with(comparison, settings, lowest=lowest)
        described["published"] = {
            "source": comparison.source,
            "scores": dict(comparison.published),
            "lowest_is_best": comparison.published_lowest,
            "pairs": agreed and agreed._asdict(),
        }
    return described


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if abs(value) >= 1 else f"{value:.4f}"
