"""Text tables of evaluation scores for a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from t5x_like.evaluation.scores_file import Entry, ScoresFile, TaskResult, flat_scores
from t5x_like.text.metrics.averages import RunStatistics
from t5x_like.text.metrics.baselines import MOST_FREQUENT

_COUNT_ERRORS = ("error_rate", "loss", "perplexity", "distance", "cross_entropy", "squared_error")


def lower_is_better(metric: str) -> bool:
    """Return True if a metric counts errors."""
    return metric.endswith(_COUNT_ERRORS)


def scores_table(scores: ScoresFile) -> str:
    """Return a line for each task's metric with its interval, then the averages, then remarks."""
    baseline = _baseline_header(scores["tasks"].values())
    rows = [("task", "metric", "score", "95 % interval", baseline, "rows", "invalid", "cut")]
    notes = []
    for task, entry in scores["tasks"].items():
        common = (f"{entry['examples']:,}", f"{entry['invalid']:,}", f"{entry['cut_inputs']:,}")
        for metric, score in entry["scores"].items():
            interval = entry["intervals"].get(metric)
            shown = f"{interval['low']:.2f} – {interval['high']:.2f}" if interval else "-"
            rows.append((task, metric, _number(score), shown, _baseline(entry, metric), *common))
        if not entry["scores"]:
            rows.append((task, "-", "-", "-", "-", *common))
        notes += _notes(task, entry)
    lines = [aligned(rows, left=2)]
    for benchmark, each in scores["averages"].items():
        lacking = dict.fromkeys(name.partition("/")[0] for name in each["missing"])
        missing = f" (missing: {', '.join(lacking)})" if lacking else ""
        lines.append(f"{benchmark} average: {_number(each['score'])}{missing}")
    return "\n".join([*lines, *notes, *left_out(scores)])


def left_out(scores: ScoresFile) -> list[str]:
    """Return a line for each task that was not evaluated."""
    return [f"left out: {task}, {reason}" for task, reason in scores.get("left_out", {}).items()]


def _notes(task: str, entry: Entry) -> list[str]:
    notes = []
    if "withheld" in entry:
        notes.append(f"{task}: no scores, {entry['withheld']}; its predictions are written")
    elif entry["unlabeled"]:
        notes.append(f"{task}: {entry['unlabeled']:,} rows have no label and are not scored")
    for metric in entry.get("not_numbers", []):
        notes.append(f"{task}: {metric} is not a number, as where all answers are the same")
    if "head_of" in entry:
        notes.append(f"{task}: the head was trained on {entry['head_of']}, not on this")
    if "class_order" in entry:
        notes.append(f"{task}: {entry['class_order']}")
    if entry["cut_inputs"]:
        notes.append(
            f"{task}: {entry['cut_inputs']:,} of {entry['examples']:,} inputs are longer than the model is given, and "
            "were cut"
        )
    if "published" in entry:
        num_rows = entry["examples"] + entry.get("skipped", 0)
        notes.append(f"{task}: its files have {num_rows:,} rows, of {entry['published']:,} published")
    if entry.get("skipped"):
        first = f"; first: {entry['first_skipped'][0]}" if entry["first_skipped"] else ""
        notes.append(f"{task}: {entry['skipped']:,} bad rows were skipped{first}")
    if entry["dropped_examples"]:
        notes.append(
            f"{task}: {entry['dropped_examples']:,} examples of prompts did not fit and were left out"
        )
    return notes


def steps_table(steps: Mapping[int, ScoresFile]) -> str:
    """Return a line for each step, with a column for each metric."""
    names = list(dict.fromkeys(name for scores in steps.values() for name in flat_scores(scores)))
    rows = [("step", *names)]
    rows += [
        (f"{step:,}", *(_number(flat_scores(scores).get(name)) for name in names))
        for step, scores in sorted(steps.items())
    ]
    return aligned(rows, left=0)


def over_runs_table(means: Mapping[str, RunStatistics]) -> str:
    """Return mean and deviation of each metric over several runs."""
    rows = [("metric", "mean", "± deviation", "runs")]
    rows += [
        (name, _number(each.mean), _number(each.deviation), str(each.runs)) for name, each in means.items()
    ]
    return aligned(rows, left=1)


def perplexities_table(measured: Mapping[str, tuple[Any, Mapping[str, float]]]) -> str:
    """Return a line for each text with its perplexity per token, word and byte."""
    rows: list[tuple[str, ...]] = [
        ("text", "tokens", "for a token", "for a word", "for a byte", "bits a byte")
    ]
    for name, (cost, measures) in measured.items():
        rows.append((name, f"{cost.tokens:,}", *(f"{value:,.4g}" for value in measures.values())))
    return aligned(rows, left=1)


def run_table(results: Mapping[str, TaskResult]) -> str:
    """Return a line for each metric of a run's own tasks: its score and that of a baseline."""
    baseline = _baseline_header(result.entry for result in results.values())
    rows = [("task", "metric", "score", baseline, "rows")]
    for task, result in results.items():
        count = f"{len(result.rows):,}"
        for metric, score in result.scores.items():
            rows.append((task, metric, f"{score:.2f}", _baseline(result.entry, metric), count))
        if not result.scores:  # a split without labels
            rows.append((task, "-", "-", "-", count))
    return aligned(rows, left=2)


def win_rate_table(result: Mapping[str, Any]) -> str:
    """Return the win rate of the first answers by the judge and by length, and the mean lengths.

    Args:
      result: Contents of ``win_rate.json``.
    """
    names = ("judge", "win rate", "95 % interval", "wins", "ties", "losses", "contradictions")
    rows: list[tuple[str, ...]] = [names]
    for judge, counts in ((result["judge"], result), ("the longer answer", result["longer_answer"])):
        interval = counts["interval"]
        rows.append(
            (
                judge,
                _number(counts["win_rate"]),
                f"{interval['low']:.2f} – {interval['high']:.2f}" if interval else "-",
                *(f"{counts[name]:,}" for name in ("wins", "ties", "losses")),
                f"{counts['contradictions']:.2f} %",
            )
        )
    lengths = " and ".join(
        f"{result['mean_length'][side]:.1f} of {result[side]}" for side in ("first", "second")
    )
    return (
        f"{result['first']} against {result['second']}, {result['pairs']:,} pairs of answers\n"
        + "\n".join((aligned(rows, left=1), f"mean lengths in characters: {lengths}"))
    )


def aligned(rows: Sequence[Sequence[str]], *, left: int) -> str:
    """Return rows as lines of text with aligned columns.

    Args:
      rows: Cells of each row; all rows have the same number.
      left: Number of first columns to align on the left; others are aligned on the right.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            f"{cell:<{width}}" if column < left else f"{cell:>{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _baseline_header(entries: Iterable[Entry]) -> str:
    is_usual = all(entry["baseline_name"] == MOST_FREQUENT for entry in entries)
    return "most frequent answer" if is_usual else "baseline"


def _baseline(entry: Entry, metric: str) -> str:
    """Return the score of the most frequent answer, or of another baseline with its name."""
    value = entry["baseline"].get(metric)
    is_usual = value is None or entry["baseline_name"] == MOST_FREQUENT
    return _number(value) if is_usual else f"{_number(value)} ({entry['baseline_name']})"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
