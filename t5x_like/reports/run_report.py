"""One HTML page about runs and their evaluation: loss curves, scores, sample predictions and next steps."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from t5x_like.evaluation.scores_file import Row, read_predictions, read_scores
from t5x_like.io.files import read_jsonl, write_text
from t5x_like.reports.curves import Curve, draw_loss_curves, read_curves
from t5x_like.reports.machine import describe_machine
from t5x_like.reports.page import Headline, Section, page
from t5x_like.reports.run_facts import run_facts
from t5x_like.reports.tables import (
    Score,
    facts_table,
    number,
    predictions_table,
    rows_of_scores,
    scores_table,
    words,
)

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True)
class ReportedRun:
    """A run directory as the page shows it.

    ``unigram_entropy`` (nats per token) is the loss of a model that only knows each target token's frequency;
    it is shown where the run has one validation loss to compare with. ``facts`` stand before those that the
    directory tells.
    """

    title: str
    directory: PathLike
    about: str = ""
    unigram_entropy: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """A self-contained HTML page about runs and their evaluation.

    Attributes:
      output: The file to write.
      evaluation: Folder with ``scores.json`` and each task's ``predictions.jsonl``.
      references: Scores of other methods, ``{task: {method: {metric: value}}}``.
      next_steps: Pairs of a sentence and a command.
      samples_per_task: The number of predictions shown for each task: its first ones, not its best.
    """

    output: PathLike
    runs: tuple[ReportedRun, ...]
    evaluation: PathLike
    title: str = "t5x_like: a report"
    introduction: str = ""
    references: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    next_steps: tuple[tuple[str, str], ...] = ()
    samples_per_task: int = 8

    def write(self) -> None:
        """Writes the page.

        Raises:
          ValueError: A run's metrics or the evaluation's scores are missing.
        """
        for directory, name in [
            *((run.directory, "metrics.jsonl") for run in self.runs),
            (self.evaluation, "scores.json"),
        ]:
            if not (Path(directory) / name).is_file():
                raise ValueError(f"{directory} has no {name}: nothing to report on; did it run?")
        tasks = read_scores(self.evaluation)["tasks"]
        scores = rows_of_scores(tasks, self.references)
        predictions = {task: read_predictions(self.evaluation, task) for task in tasks}
        runs = [with_entropy(run) for run in self.runs]
        curves = {run.title: read_curves(run.directory) for run in runs}
        sections = [
            *(_run_section(run, curves[run.title]) for run in runs),
            Section("Scores on held-out rows", _scores_body(scores)),
            Section("Sample predictions", _predictions_body(predictions, self.samples_per_task)),
        ]
        if self.next_steps:
            sections.append(Section("What to try next", _next_steps_body(self.next_steps)))
        sections.append(Section("Made on", facts_table(describe_machine())))
        headlines = [
            *(_entropy_headline(run, curves[run.title]) for run in runs),
            *_score_headlines(scores),
        ]
        shown = [headline for headline in headlines if headline]
        write_text(
            self.output,
            page(title=self.title, introduction=self.introduction, headlines=shown, sections=sections),
        )


def with_entropy(run: ReportedRun) -> ReportedRun:
    """Returns the run with the unigram entropy of its validation targets, if it has logged one."""
    lines = read_jsonl(Path(run.directory) / "metrics.jsonl")
    logged = [line["unigram_entropy"] for line in lines if "unigram_entropy" in line]
    if run.unigram_entropy is not None or not logged:
        return run
    return dataclasses.replace(run, unigram_entropy=logged[-1])


def _run_section(run: ReportedRun, curves: Sequence[Curve]) -> Section:
    entropy = _comparable_entropy(run, curves)
    svg = draw_loss_curves(curves, title=run.title, unigram_entropy=entropy)
    about = f"<p>{escape(run.about)}</p>\n" if run.about else ""
    caption = (
        "Cross-entropy in nats per target token; thin lines: training, lines with points: held-out rows."
    )
    if entropy is not None:
        caption += (
            " Dashed: the entropy of the targets for a model that knows only the frequency of each token."
        )
    figure = f"<figure>\n{svg}\n<figcaption>{caption}</figcaption>\n</figure>\n"
    return Section(run.title, about + figure + facts_table({**run.facts, **run_facts(run.directory)}))


def _entropy_headline(run: ReportedRun, curves: Sequence[Curve]) -> Headline | None:
    entropy = _comparable_entropy(run, curves)
    if entropy is None:
        return None
    loss = next(curve.losses[-1] for curve in curves if curve.held_out)
    label = f"{run.title}: validation loss"
    return Headline(label, f"{loss:.2f}", f"unigram entropy {entropy:.2f}", loss < entropy)


def _comparable_entropy(run: ReportedRun, curves: Sequence[Curve]) -> float | None:
    """The entropy of a mixture is no yardstick for the loss of one of its tasks, so then there is none."""
    return run.unigram_entropy if sum(curve.held_out for curve in curves) == 1 else None


def _score_headlines(scores: Sequence[Score]) -> list[Headline]:
    """The first metric of each task that has a baseline."""
    first: dict[str, Headline] = {}
    for score in scores:
        if score.baseline is None or score.task in first:
            continue
        label = f"{words(score.task)}: {words(score.metric)}"
        against = f"{score.baseline_name} {number(score.baseline)}"
        first[score.task] = Headline(label, number(score.value), against, bool(score.beats_baseline))
    return list(first.values())


def _scores_body(scores: Sequence[Score]) -> str:
    return (
        "<p>Rows the model never saw in training; each score beside a baseline that ignores the input.</p>\n"
        + (scores_table(scores))
    )


def _predictions_body(predictions: Mapping[str, Sequence[Row]], samples_per_task: int) -> str:
    parts = [f"<p>The first {samples_per_task} rows of each task, not the best ones.</p>"]
    for task, rows in predictions.items():
        right = sum(str(row["target"]).strip() == str(row["prediction"]).strip() for row in rows)
        share = f"{right:,} of {len(rows):,} exactly right"
        parts.append(f"<h3>{escape(words(task))} <small>{share}</small></h3>")
        parts.append(predictions_table(rows[:samples_per_task]))
    return "\n".join(parts)


def _next_steps_body(next_steps: Sequence[tuple[str, str]]) -> str:
    return "\n".join(
        f"<p>{escape(sentence)}</p>" + (f"\n<pre>{escape(command)}</pre>" if command else "")
        for sentence, command in next_steps
    )
