"""One page about an evaluation on benchmarks: scores beside published ones, confusions, the worst answers."""

import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from t5x_like.evaluation.scores_file import read_predictions, read_scores
from t5x_like.io.files import write_text
from t5x_like.reports.evaluation_answers import confusion_table, worst_table
from t5x_like.reports.evaluation_scores import average_facts, metrics_table, sources_list
from t5x_like.reports.page import Headline, Section, page
from t5x_like.reports.tables import facts_table, number, words
from t5x_like.text.benchmarks.suites import SUITES

PathLike = str | os.PathLike[str]

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


def write_evaluation_report(directory: PathLike, *, worst: int = 6) -> str:
    """Writes ``report.html`` beside ``scores.json`` and the tasks' predictions, and returns where.

    Of each task it shows ``worst`` wrong answers: those whose right answer the model found least likely.
    """
    found = read_scores(directory)
    output = Path(directory) / "report.html"
    tasks = found["tasks"]
    sections = [
        Section("Scores", _scores_body(found)),
        *(
            _task_section(task, entry, read_predictions(directory, task), worst)
            for task, entry in tasks.items()
        ),
        Section("How it was made", _facts_body(found)),
    ]
    text = page(
        title=f"{_name(found)} on {_benchmarks(tasks)}",
        introduction=_introduction(found),
        headlines=_headlines(found),
        sections=sections,
        style_of="evaluation.css",
    )
    write_text(output, text)
    return str(output)


def _name(found: Mapping[str, Any]) -> str:
    return Path(found["checkpoint"]).name or str(found["checkpoint"])


def _benchmarks(tasks: Mapping[str, Any]) -> str:
    if len(tasks) == 1:
        return words(next(iter(tasks)))
    suites = [
        suite.title for suite in SUITES.values() if all(task.startswith(f"{suite.name}_") for task in tasks)
    ]
    return suites[0] if suites else f"{len(tasks)} tasks"


def _introduction(found: Mapping[str, Any]) -> str:
    examples = sum(entry["examples"] for entry in found["tasks"].values())
    methods: list[str] = sorted({entry["method"] for entry in found["tasks"].values()})
    ways = {
        "generate": "written word by word",
        "rank": "ranked by likelihood",
        "head": "told by a head",
        "measure": "measured",
    }
    settings = found["settings"]
    shots = f", {settings['num_shots']} solved examples before each question" if settings["num_shots"] else ""
    how = " or ".join(ways[each] for each in methods)
    first = f", the first {settings['limit']:,} of each task" if settings["limit"] is not None else ""
    return (
        f"{examples:,} questions of the {settings['split']} split{first}, answers {how}{shots}. Scores are times 100, "
        "with 95\u00a0% intervals from rows drawn with replacement."
    )


def _headlines(found: Mapping[str, Any]) -> list[Headline]:
    tiles = [
        Headline(f"{SUITES[name].title} average", number(each["score"]), "as T5 defines it", True)
        for name, each in found["averages"].items()
        if each["score"] is not None
    ]
    for task, entry in found["tasks"].items():
        for metric, value in list(entry["scores"].items())[:1]:
            baseline = entry["baseline"].get(metric)
            if value is None or baseline is None:
                continue
            against = f"{entry['baseline_name']} {number(baseline)}"
            label = f"{_short(task)}: {words(metric)}"
            tiles.append(Headline(label, number(value), against, value > baseline))
    return tiles[:12]


def _short(task: str) -> str:
    return words(task.removeprefix("super_").removeprefix("glue_").removesuffix("_v002").replace("_v102", ""))


def _scores_body(found: Mapping[str, Any]) -> str:
    parts = [metrics_table(found["tasks"]), sources_list(found["tasks"])]
    if found["left_out"]:
        listed = "".join(
            f"<li>{escape(words(task))}: {escape(reason)}</li>" for task, reason in found["left_out"].items()
        )
        parts.append(f"<p>Left out:</p><ul>{listed}</ul>")
    if found["averages"]:
        parts.insert(0, facts_table(average_facts(found["averages"])))
    return "\n".join(part for part in parts if part)


def _task_section(
    task: str, entry: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], worst: int
) -> Section:
    facts = {
        "questions": entry["examples"],
        "rows published": entry.get("published"),
        "without a label": entry["unlabelled"],
        "invalid answers": entry["invalid"],
        "inputs cut": entry["cut_inputs"],
        "examples left out": entry["dropped_examples"],
        "bad rows skipped": entry.get("skipped"),
        "seconds": entry.get("seconds"),
    }
    body = [facts_table({name: value for name, value in facts.items() if value})]
    if "withheld" in entry:
        body.append(f"<p>No scores: {escape(entry['withheld'])}. The predictions are written.</p>")
    if "head_of" in entry:
        body.append(f"<p>The head was trained on {escape(entry['head_of'])}, not on this.</p>")
    if "class_order" in entry:
        note = entry["class_order"]
        body.append(f"<p>{escape(note[0].upper() + note[1:])}.</p>")
    if entry["invalid"]:
        body.append(f"<p>{entry['invalid']:,} answers were none that there can be; they count as wrong.</p>")
    for metric in entry.get("not_numbers", []):
        body.append(
            f"<p>{escape(words(metric))} is not a number here, as where all answers are the same.</p>"
        )
    for name, signature in entry.get("signatures", {}).items():
        body.append(f"<p>{escape(name)} as sacreBLEU signs it: <code>{escape(signature)}</code></p>")
    body += [confusion_table(entry["labels"], rows), worst_table(rows, worst)]
    return Section(words(task), "\n".join(part for part in body if part))


def _facts_body(found: Mapping[str, Any]) -> str:
    known = found["settings"] | dict(found)
    facts = {label: known[name] for name, label in _FACTS.items() if known.get(name) is not None}
    return facts_table(facts | {name: str(version) for name, version in found["versions"].items()})
