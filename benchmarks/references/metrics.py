"""Scores of metrics, texts that postprocessors return, and averages of benchmarks, as t5 computes them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.references.reference import (
    DifferenceError,
    Reference,
    check_close,
    check_equal,
    check_scores,
    read_json,
    read_rows,
)
from t5x_like.text import metrics, postprocessing
from t5x_like.text.benchmarks.suites import GLUE, SUITES, SUPER_GLUE
from t5x_like.text.metrics.question_answering import normalize_squad, normalize_trivia_qa


def metric_of(name: str) -> Any:
    """Return a metric by its name in t5, such as ``squad`` or ``deduplicate_metric(squad)``.

    Raises:
      DifferenceError: We have none.
    """
    if classes := re.fullmatch(r"mean_(\d+)class_f1", name):
        return metrics.mean_multiclass_f1(int(classes[1]))
    if composed := re.fullmatch(r"(mean_group_metric|deduplicate_metric)\((\w+)\)", name):
        return getattr(metrics, composed[1])(metric_of(composed[2]))
    if not hasattr(metrics, name):
        raise DifferenceError(f"we have no metric {name!r}")
    return getattr(metrics, name)


def scores(file: Path) -> Iterator[Reference]:
    """Yield the scores of predictions by metric."""
    for number, row in enumerate(read_rows(file), start=1):
        name = f"{file}:{number} {row['metric']} {row.get('note', '')}".rstrip()
        yield Reference("metrics", name, lambda row=row: _check_row(row))


def _check_row(row: dict[str, Any]) -> None:
    check_scores(metric_of(row["metric"])(row["targets"], row["predictions"]), row["scores"], row["metric"])


def postprocessors(file: Path) -> Iterator[Reference]:
    """Yield what postprocessors return."""
    for number, row in enumerate(read_rows(file), start=1):
        yield Reference(
            "metrics", f"{file}:{number} {row['postprocessor']}", lambda row=row: _check_processed(row)
        )


def _check_processed(row: dict[str, Any]) -> None:
    processed = getattr(postprocessing, row["postprocessor"])(*row["args"], **row["kwargs"])
    wanted = row["out"]
    if row["postprocessor"] == "record" and "group" in wanted:
        wanted = wanted | {"group": tuple(wanted["group"])}  # which JSON has no form for
    if isinstance(processed, float):
        check_close(processed, float(wanted), row["postprocessor"], atol=0.0, rtol=0.0)
    else:
        check_equal(processed, wanted, row["postprocessor"])


def normalized_answers(file: Path) -> Iterator[Reference]:
    """Yield normalized answers of SQuAD and TriviaQA."""
    for number, row in enumerate(read_json(file), start=1):
        yield Reference("metrics", f"{file} answer {number}", lambda row=row: _check_normalized(row))


def _check_normalized(row: dict[str, str]) -> None:
    check_equal(normalize_squad(row["in"]), row["normalize_squad"], "normalize_squad")
    check_equal(normalize_trivia_qa(row["in"]), row["normalize_trivia_qa"], "normalize_trivia_qa")


def averages(file: Path) -> Iterator[Reference]:
    """Yield the groups of metrics that make the average of a benchmark, and averages of scores."""
    content = read_json(file)
    yield Reference("metrics", f"{file} groups", lambda: _check_groups(content["groups"]))
    names = {
        label: name
        for groups in content["groups"].values()
        for parts in groups.values()
        for name, label in parts
    }
    for number, case in enumerate(content["cases"], start=1):
        yield Reference("metrics", f"{file} case {number}", lambda case=case: _check_averages(case, names))


def _check_groups(groups: dict[str, dict[str, list[list[str]]]]) -> None:
    wanted = {
        benchmark: {group: tuple(name for name, _ in parts) for group, parts in each.items()}
        for benchmark, each in groups.items()
    }
    check_equal({name: SUITES[name].average for name in wanted}, wanted, "groups")


def _check_averages(case: dict[str, Any], names: dict[str, str]) -> None:
    own = {names[label]: value for label, value in case["scores"].items()}
    for suite in (GLUE, SUPER_GLUE):
        average, wanted = suite.average_of(own), case[f"{suite.name}_average"]
        if average is None or wanted is None:
            check_equal(average, wanted, f"average of {suite.name}")
        else:
            check_close(average, wanted, f"average of {suite.name}", atol=1e-9, rtol=1e-6)
