"""A report as one frozen value."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from t5x_like.io.files import read_jsonl
from t5x_like.reports.machine import describe_machine
from t5x_like.reports.report import ReportedRun, write_report


@dataclass(frozen=True, kw_only=True)
class ReportPage:
    """What the page shows; see ``t5x_like.reports.report.write_report``."""

    output: str
    runs: tuple[ReportedRun, ...]
    evaluation: str
    title: str = "t5x_like: a report"
    introduction: str = ""
    references: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    next_steps: tuple[tuple[str, str], ...] = ()

    def write(self) -> None:
        """Writes the page.

        Raises:
          ValueError: a run or the evaluation is missing.
        """
        for directory, name in [
            *((run.directory, "metrics.jsonl") for run in self.runs),
            (self.evaluation, "scores.json"),
        ]:
            if not (Path(directory) / name).is_file():
                raise ValueError(f"{directory} has no {name}: nothing to report on; did it run?")
        write_report(
            self.output,
            title=self.title,
            introduction=self.introduction,
            runs=[with_entropy(run) for run in self.runs],
            evaluation=self.evaluation,
            references=self.references,
            machine=describe_machine(),
            next_steps=self.next_steps,
        )


def with_entropy(run: ReportedRun) -> ReportedRun:
    """The run, with what a model that only knows how frequent each token is would lose on its validation targets."""
    lines = read_jsonl(Path(run.directory) / "metrics.jsonl")
    logged = [line["unigram_entropy"] for line in lines if "unigram_entropy" in line]
    if run.unigram_entropy is not None or not logged:
        return run
    return dataclasses.replace(run, unigram_entropy=logged[-1])
