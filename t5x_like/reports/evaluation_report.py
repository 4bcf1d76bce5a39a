"""HTML report about an evaluation on benchmarks: scores next to published ones, confusions, the worst answers."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from t5x_like.evaluation.scores_file import (
    Entry,
    Row,
    ScoresFile,
    SuiteAverage,
    is_right,
    read_predictions,
    read_scores,
)
from t5x_like.io.files import as_path, write_text
from t5x_like.reports.published_scores import published_for
from t5x_like.reports.rendering import Tile, number, render, words
from t5x_like.text.benchmarks.suites import SUITES
from t5x_like.text.metrics.baselines import MOST_FREQUENT

PathLike = str | os.PathLike[str]

# Facts of an evaluation and of each task, by their names in scores.json.
_FACTS = {
    "checkpoint": "checkpoint",
    "step": "step",
    "model": "model",
    "parameters": "parameters",
    "split": "split",
    "num_shots": "examples shown",
    "shot_seed": "seed of examples",
    "inputs_length": "longest input, tokens",
    "weights": "hash of the weights",
}
_TASK_FACTS = {
    "examples": "questions",
    "published": "rows published",
    "unlabeled": "without a label",
    "invalid": "invalid answers",
    "cut_inputs": "inputs cut",
    "dropped_examples": "examples left out",
    "skipped": "bad rows skipped",
    "seconds": "seconds",
}
_METHODS = {
    "generate": "written word by word",
    "rank": "ranked by likelihood",
    "head": "predicted by a head",
    "measure": "measured",
    "compare": "compared by the likelihood of whole texts",
}


def write_evaluation_report(directory: PathLike, *, num_worst: int = 6) -> str:
    """Write ``report.html`` next to ``scores.json`` and the tasks' predictions.

    Args:
      directory: Output folder of the evaluation.
      num_worst: Wrong answers to show for each task: those whose target the model found least likely.

    Returns:
      The report's path.
    """
    scores = read_scores(directory)
    tasks = scores["tasks"]
    known = scores["settings"] | dict(scores)
    facts = {label: known[name] for name, label in _FACTS.items() if known.get(name) is not None}
    sections = []
    for task, entry in tasks.items():
        rows = read_predictions(directory, task)
        shown = {label: entry[name] for name, label in _TASK_FACTS.items() if entry.get(name)}
        wrong = worst_answers(rows)
        sections.append(
            {
                "title": words(task),
                "entry": entry,
                "facts": shown,
                "num_wrong": len(wrong),
                "worst": wrong[:num_worst],
            }
        )
    output = as_path(directory) / "report.html"
    html = render(
        "evaluation_report.html.j2",
        title=f"{Path(scores['checkpoint']).name or scores['checkpoint']} on {_benchmarks(tasks)}",
        introduction=_introduction(scores),
        headlines=_headlines(scores),
        averages={
            f"{SUITES[name].title} average": _average(each) for name, each in scores["averages"].items()
        },
        scores=[
            score_line(task, metric, value, entry)
            for task, entry in tasks.items()
            for metric, value in (entry["scores"] or {"": None}).items()
        ],
        sources=_sources(tasks),
        left_out=scores["left_out"],
        tasks=sections,
        facts=facts | {name: str(version) for name, version in scores["versions"].items()},
    )
    write_text(output, html)
    return str(output)


def _benchmarks(tasks: Mapping[str, Entry]) -> str:
    if len(tasks) == 1:
        return words(next(iter(tasks)))
    suites = [
        suite.title for suite in SUITES.values() if all(task.startswith(f"{suite.name}_") for task in tasks)
    ]
    return suites[0] if suites else f"{len(tasks)} tasks"


def _introduction(scores: ScoresFile) -> str:
    examples = sum(entry["examples"] for entry in scores["tasks"].values())
    methods: list[str] = sorted({entry["method"] for entry in scores["tasks"].values()})
    settings = scores["settings"]
    shots = f", {settings['num_shots']} solved examples before each question" if settings["num_shots"] else ""
    first = f", the first {settings['limit']:,} of each task" if settings["limit"] is not None else ""
    return (
        f"{examples:,} questions of the {settings['split']} split{first}, answers "
        f"{' or '.join(_METHODS[each] for each in methods)}{shots}. Scores are times 100, "
        "with 95\u00a0% intervals from rows drawn with replacement."
    )


def _headlines(scores: ScoresFile) -> list[Tile]:
    """Return the averages, and the first metric of each task next to its baseline."""
    tiles = [
        Tile(f"{SUITES[name].title} average", number(each["score"]), SUITES[name].definition, True)
        for name, each in scores["averages"].items()
        if each["score"] is not None
    ]
    for task, entry in scores["tasks"].items():
        for metric, value in list(entry["scores"].items())[:1]:
            baseline = entry["baseline"].get(metric)
            if value is None or baseline is None:
                continue
            short = (
                task.removeprefix("super_").removeprefix("glue_").removesuffix("_v002").replace("_v102", "")
            )
            against = f"{entry['baseline_name']} {number(baseline)}"
            label = f"{words(short)}: {words(metric)}"
            tiles.append(Tile(label, number(value), against, value > baseline))
    return tiles[:12]


def _average(average: SuiteAverage) -> str:
    """Return the average, or the reason why there is none."""
    if average["score"] is not None:
        return number(average["score"])
    tasks = list(dict.fromkeys(name.partition("/")[0] for name in average["missing"]))
    if not tasks:
        return "not a number"
    return f"none: {', '.join(tasks) if len(tasks) < 4 else f'{len(tasks)} tasks'} missing"


def score_line(task: str, metric: str, value: float | None, entry: Entry) -> dict[str, object]:
    """Return a metric with its interval, its baseline and the published scores.

    Args:
      task: Name of the task.
      metric: Name of the metric; empty if the task has no scores.
      value: The score.
      entry: The task's entry in ``scores.json``.
    """
    known = published_for(f"{task}/{metric}")
    below = [pair for pair in known if value is not None and pair[1] <= value][-1:]
    above = [pair for pair in known if pair not in below and (value is None or pair[1] > value)][:1]
    return {
        "task": task,
        "metric": metric,
        "value": value,
        "interval": entry["intervals"].get(metric),
        "baseline": entry["baseline"].get(metric),
        "baseline_name": "" if entry["baseline_name"] == MOST_FREQUENT else entry["baseline_name"],
        "published": known,
        "nearest": [*above, *below],
    }


def _sources(tasks: Mapping[str, Entry]) -> dict[str, str]:
    """Return the sources of the published scores and their addresses."""
    names = [f"{task}/{metric}" for task, entry in tasks.items() for metric in entry["scores"]]
    return {each.source: each.url for name in names for each, _ in published_for(name)}


def worst_answers(rows: Sequence[Row]) -> list[dict[str, object]]:
    """Return wrong answers with their ``gap``, the least likely targets first."""
    wrong = [{**row, "gap": gap(row)} for row in rows if row.get("target") is not None and not is_right(row)]
    return sorted(wrong, key=lambda row: (row["gap"], row["number"]))


def gap(row: Row) -> float:
    """Return the target's log-likelihood; for ranked answers, its difference from the chosen answer's."""
    likelihood = row.get("log_likelihood")
    if likelihood is None:
        return 0.0
    choices = row.get("choices")
    return likelihood - max(choices.values()) if choices else likelihood
