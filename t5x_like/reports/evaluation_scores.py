"""Scores of an evaluation as a table, each drawn on a line with its interval and with what others have published."""

from collections.abc import Mapping
from html import escape
from typing import Any

from t5x_like.reports.published_scores import Published, published_for
from t5x_like.reports.tables import number, table, words
from t5x_like.text.benchmarks.suites import SUITES

_WIDTH, _HEIGHT = 260, 30


def metrics_table(tasks: Mapping[str, Mapping[str, Any]]) -> str:
    """A row for each metric of each task."""
    rows = []
    for task, entry in tasks.items():
        for metric, value in entry["scores"].items():
            interval = entry["intervals"].get(metric)
            baseline = entry["baseline"].get(metric)
            rows.append(
                [
                    escape(words(task)),
                    escape(words(metric)),
                    "<strong>not a number</strong>" if value is None else f"<strong>{number(value)}</strong>",
                    f"{number(interval['low'])} – {number(interval['high'])}" if interval else "–",
                    "–" if baseline is None else number(baseline),
                    line_of(f"{task}/{metric}", value, interval, baseline),
                    _nearest(f"{task}/{metric}", value),
                ]
            )
        if not entry["scores"]:
            rows.append([escape(words(task)), "<em>no scores</em>", "–", "–", "–", "", ""])
    header = [
        "task",
        "metric",
        ">score",
        ">95 % interval",
        ">commonest answer",
        "0 to 100",
        "published near it",
    ]
    return table(header, rows, css_class="scores lines")


def line_of(
    name: str, value: float | None, interval: Mapping[str, float] | None, baseline: float | None
) -> str:
    """From 0 to 100: a bar for the interval, a dot for the score, ticks for others, a short one for no model at all."""

    def x(score: float) -> float:
        return round(6 + (_WIDTH - 12) * min(max(score, 0.0), 100.0) / 100, 1)

    middle = _HEIGHT / 2
    parts = [f'<line class="axis" x1="6" x2="{_WIDTH - 6}" y1="{middle}" y2="{middle}"/>']
    if baseline is not None:
        parts.append(_tick("baseline", x(baseline), 4, f"commonest answer: {number(baseline)}"))
    for each, score in published_for(name):
        parts.append(_tick(each.split, x(score), 7, f"{each.model} ({each.split}): {number(score)}"))
    if interval:
        low, high = x(interval["low"]), x(interval["high"])
        parts.append(
            f'<rect class="interval" x="{low}" y="{middle - 4}" width="{max(high - low, 1):.1f}" height="8" rx="3"/>'
        )
    if value is not None:
        parts.append(
            f'<circle class="score" cx="{x(value)}" cy="{middle}" r="4.5"><title>{number(value)}</title></circle>'
        )
    label = f"{name}: {'not a number' if value is None else number(value)}"
    return (
        f'<svg class="line" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _tick(css_class: str, x: float, half: int, title: str) -> str:
    middle = _HEIGHT / 2
    return (
        f'<line class="{css_class}" x1="{x}" x2="{x}" y1="{middle - half}" y2="{middle + half}">'
        f"<title>{escape(title)}</title></line>"
    )


def _nearest(name: str, value: float | None) -> str:
    """The published scores next below and above."""
    known = published_for(name)
    if not known:
        return "–"
    below = [pair for pair in known if value is not None and pair[1] <= value][-1:]
    above = [pair for pair in known if pair not in below and (value is None or pair[1] > value)][:1]
    return "<br>".join(f"{number(score)} <small>{_of(each)}</small>" for each, score in (*above, *below))


def _of(each: Published) -> str:
    return f"{escape(each.model)}, {each.split}"


def sources_list(tasks: Mapping[str, Mapping[str, Any]]) -> str:
    """Where the published scores are from; nothing where there are none for these tasks."""
    names = [f"{task}/{metric}" for task, entry in tasks.items() for metric in entry["scores"]]
    used = dict.fromkeys(each.source for name in names for each, _ in published_for(name))
    if not used:
        return ""
    urls = {each.source: each.url for name in names for each, _ in published_for(name)}
    links = "; ".join(f'<a href="{urls[source]}">{escape(source)}</a>' for source in used)
    return (
        '<p class="legend"><i class="dot"></i>this model, with its interval <i class="tick test"></i>published, test '
        'split <i class="tick validation"></i>published, validation <i class="tick baseline"></i>commonest answer</p>'
        f'<p class="sources">Published: {links}. Scores of the two splits are near each other, not the same.</p>'
    )


def average_facts(averages: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The averages, or what they lack."""
    return {
        f"{SUITES[name].title} average": number(each["score"])
        if each["score"] is not None
        else _lacking(each["missing"])
        for name, each in averages.items()
    }


def _lacking(missing: list[str]) -> str:
    tasks = list(dict.fromkeys(name.partition("/")[0] for name in missing))
    return (
        f"none: {', '.join(tasks) if len(tasks) < 4 else f'{len(tasks)} tasks'} missing"
        if tasks
        else "not a number"
    )
