"""HTML tables of facts, scores and predictions. Every text from outside is escaped here."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

_LOWER_IS_BETTER = ("error_rate", "loss", "perplexity", "distance", "cross_entropy")


class Score(NamedTuple):
    """One metric of one task beside its baseline and, where known, what other methods reach."""

    task: str
    metric: str
    value: float
    baseline: float | None
    baseline_name: str
    examples: int
    references: Mapping[str, float]

    @property
    def lower_is_better(self) -> bool:
        return self.metric.endswith(_LOWER_IS_BETTER)

    @property
    def beats_baseline(self) -> bool | None:
        """None where there is no baseline to beat."""
        if self.baseline is None:
            return None
        return self.value < self.baseline if self.lower_is_better else self.value > self.baseline


def rows_of_scores(
    tasks: Mapping[str, Any], references: Mapping[str, Mapping[str, Mapping[str, float]]] | None = None
) -> list[Score]:
    """The tasks of a ``scores.json`` as rows. ``references`` are {task: {method: {metric: value}}}."""
    rows = []
    for task, entry in tasks.items():
        methods = (references or {}).get(task, {})
        for metric, value in entry["scores"].items():
            value = float("nan") if value is None else value
            known = {method: values[metric] for method, values in methods.items() if metric in values}
            baseline = entry["baseline"].get(metric)
            rows.append(
                Score(task, metric, value, baseline, entry["baseline_name"], entry["examples"], known)
            )
    return rows


def words(name: str) -> str:
    """``wordnet_definitions`` as people write it."""
    return name.replace("_", " ")


def number(value: float) -> str:
    """Three digits or so, thousands apart; what is not a number stays visible as such."""
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.2f}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, css_class: str) -> str:
    """A table whose cells are HTML already; numbers stand right where the header starts with ``>``."""
    names = "".join(f"<th{_align(name)}>{escape(name.lstrip('>'))}</th>" for name in header)
    body = "\n".join(
        "<tr>"
        + "".join(f"<td{_align(name)}>{cell}</td>" for name, cell in zip(header, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return f'<table class="{css_class}"><thead><tr>{names}</tr></thead>\n<tbody>\n{body}\n</tbody></table>'


def _align(name: str) -> str:
    return ' class="number"' if name.startswith(">") else ""


def facts_table(facts: Mapping[str, Any]) -> str:
    """Names and values, as a description list."""
    items = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(_fact(value))}</dd></div>" for name, value in facts.items()
    )
    return f'<dl class="facts">{items}</dl>'


def _fact(value: Any) -> str:
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def scores_table(scores: Sequence[Score]) -> str:
    """A row for each metric: ours, the baseline's, and whether it was beaten."""
    rows = []
    for score in scores:
        arrow = "<small>lower is better</small>" if score.lower_is_better else ""
        baseline = "–" if score.baseline is None else f"{number(score.baseline)}"
        named = "" if score.baseline is None else f"<small>{escape(score.baseline_name)}</small>"
        others = "<br>".join(
            f"{number(v)} <small>{escape(name)}</small>" for name, v in score.references.items()
        )
        rows.append(
            [
                escape(words(score.task)),
                f"{escape(words(score.metric))} {arrow}",
                f"<strong>{number(score.value)}</strong>",
                f"{baseline} {named}",
                others or "–",
                _verdict(score),
                number(score.examples),
            ]
        )
    header = ["task", "metric", ">this model", ">baseline", ">other methods", "", ">examples"]
    return table(header, rows, css_class="scores")


def _verdict(score: Score) -> str:
    if score.beats_baseline is None:
        return ""
    if not score.beats_baseline:
        return '<span class="bad">✗ no better than the baseline</span>'
    side = "below" if score.lower_is_better else "above"
    return f'<span class="good">✓ {side} the baseline</span>'


def predictions_table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Input, target and prediction side by side, marked right or wrong (exactly equal or not)."""
    cells = []
    for row in rows:
        target, prediction = str(row["target"]), str(row["prediction"])
        right = target.strip() == prediction.strip()
        mark = (
            '<span class="good" title="right">✓</span>'
            if right
            else '<span class="bad" title="wrong">✗</span>'
        )
        shown = escape(prediction) if prediction.strip() else "<em>nothing</em>"
        cells.append([mark, escape(str(row["input"])), escape(target), shown])
    return table(["", "input", "target", "prediction"], cells, css_class="predictions")
