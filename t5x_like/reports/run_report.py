"""HTML page about runs and their evaluation: loss curves, scores, sample predictions and next steps."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from t5x_like.evaluation.judgments import WIN_RATE, read_win_rate
from t5x_like.evaluation.scores_file import Entry, Row, is_right, read_predictions, read_scores
from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.files import as_path, read_jsonl, write_text
from t5x_like.reports.curves import Curve, draw_loss_curves, read_curves
from t5x_like.reports.machine import describe_machine
from t5x_like.reports.rendering import Tile, number, render, words
from t5x_like.reports.reward_curve import draw_rewards, read_rewards, read_samples
from t5x_like.reports.run_facts import run_facts
from t5x_like.reports.score_tables import lower_is_better

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True)
class ReportedRun:
    """Run directory in a report.

    Attributes:
      title: Heading of the run.
      directory: Run directory.
      about: Paragraph above the curves.
      unigram_entropy: Loss (nats per token) of a model that only knows each target token's frequency. By default, the
        entropy that the run has logged. Shown if the run has a single validation loss to compare it with.
      facts: Facts to show before those of the directory.
    """

    title: str
    directory: PathLike
    about: str = ""
    unigram_entropy: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


class ReportedScore(NamedTuple):
    """One metric of one task with its baseline and, if known, the scores of other methods."""

    task: str
    metric: str
    value: float
    baseline: float | None
    baseline_name: str
    examples: int
    references: Mapping[str, float]

    @property
    def lower_is_better(self) -> bool:
        """True if the metric counts errors."""
        return lower_is_better(self.metric)

    @property
    def beats_baseline(self) -> bool | None:
        """True if the score is better than the baseline; ``None`` without a baseline."""
        if self.baseline is None:
            return None
        return self.value < self.baseline if self.lower_is_better else self.value > self.baseline


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """Self-contained HTML page about runs and their evaluation.

    Attributes:
      output: File to write.
      runs: Runs to show.
      evaluation: Folder with ``scores.json`` and each task's ``predictions.jsonl``.
      title: Title of the page.
      introduction: Paragraph at the top.
      references: Scores of other methods, ``{task: {method: {metric: value}}}``.
      next_steps: Pairs of a sentence and a command.
      models: Directories by title of models to compare in size, speed and scores; others are relative to the first.
      win_rates: Folders that ``t5x-like win_rate`` wrote.
      samples_per_task: Number of predictions shown for each task: its first ones, not its best.
    """

    output: PathLike
    runs: tuple[ReportedRun, ...]
    evaluation: PathLike
    title: str = "t5x_like: a report"
    introduction: str = ""
    references: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    next_steps: tuple[tuple[str, str], ...] = ()
    models: Mapping[str, PathLike] = field(default_factory=dict)
    win_rates: tuple[PathLike, ...] = ()
    samples_per_task: int = 8

    def write(self) -> None:
        """Write the page.

        Raises:
          ValueError: A run's metrics or the evaluation's scores are missing.
        """
        metrics = [(run.directory, "metrics.jsonl") for run in self.runs]
        win_rates = [(directory, WIN_RATE) for directory in self.win_rates]
        for directory, name in [*metrics, (self.evaluation, "scores.json"), *win_rates]:
            if not (as_path(directory) / name).is_file():
                raise ValueError(f"{directory} has no {name}: nothing to report on; did it run?")
        with refusing_damage(as_path(self.evaluation) / "scores.json"):
            tasks = read_scores(self.evaluation)["tasks"]
            scores = list(self._scores(tasks))
            predictions = {task: _shown(read_predictions(self.evaluation, task)) for task in tasks}
        runs = [_described(run) for run in self.runs]
        html = render(
            "run_report.html.j2",
            title=self.title,
            introduction=self.introduction,
            headlines=[*(run["headline"] for run in runs if run["headline"]), *_score_headlines(scores)],
            runs=runs,
            scores=scores,
            entries=tasks,
            models=self._compared_models(),
            predictions=predictions,
            win_rates=[read_win_rate(directory) for directory in self.win_rates],
            samples_per_task=self.samples_per_task,
            next_steps=self.next_steps,
            machine=describe_machine(),
        )
        write_text(self.output, html)

    def _compared_models(self) -> list[tuple[str, ...]]:
        if not self.models:
            return []
        # JAX loads where models are measured.
        from t5x_like.reports.model_comparison import compare_models, table_rows

        return table_rows(compare_models(self.models))

    def _scores(self, tasks: Mapping[str, Entry]) -> Iterable[ReportedScore]:
        for task, entry in tasks.items():
            methods = self.references.get(task, {})
            for metric, value in entry["scores"].items():
                known = {method: values[metric] for method, values in methods.items() if metric in values}
                value = float("nan") if value is None else value
                baseline = entry["baseline"].get(metric)
                yield ReportedScore(
                    task, metric, value, baseline, entry["baseline_name"], entry["examples"], known
                )


def _described(run: ReportedRun) -> dict[str, object]:
    """Return the values that the template shows of a run."""
    with refusing_damage(as_path(run.directory) / "metrics.jsonl"):
        return _values_of(run)


def _values_of(run: ReportedRun) -> dict[str, object]:
    curves = read_curves(run.directory)
    entropy = _comparable_entropy(run, curves)
    headline = None
    if entropy is not None:
        loss = next(curve.losses[-1] for curve in curves if curve.held_out)
        label = f"{run.title}: validation loss"
        headline = Tile(label, f"{loss:.2f}", f"unigram entropy {entropy:.2f}", loss < entropy)
    rewards = read_rewards(run.directory)
    return {
        "title": run.title,
        "about": run.about,
        "rewards": rewards and draw_rewards(rewards, title=run.title),
        "samples": read_samples(run.directory),
        "svg": draw_loss_curves(curves, title=run.title, unigram_entropy=entropy),
        "entropy": entropy,
        "loss": "Cross-entropy in nats per target token" if curves[0].is_cross_entropy else "Loss",
        "facts": {**run.facts, **run_facts(run.directory)},
        "headline": headline,
    }


def _comparable_entropy(run: ReportedRun, curves: Sequence[Curve]) -> float | None:
    """Return the entropy, or None for a mixture: it can't be compared with the loss of one of its tasks."""
    if sum(curve.held_out for curve in curves) != 1:
        return None
    lines = read_jsonl(as_path(run.directory) / "metrics.jsonl")
    logged = [line["unigram_entropy"] for line in lines if "unigram_entropy" in line]
    return run.unigram_entropy if run.unigram_entropy is not None or not logged else logged[-1]


def _score_headlines(scores: Sequence[ReportedScore]) -> list[Tile]:
    """Return a headline for the first metric of each task that has a baseline."""
    first: dict[str, Tile] = {}
    for score in scores:
        if score.baseline is None or score.task in first:
            continue
        label = f"{words(score.task)}: {words(score.metric)}"
        against = f"{score.baseline_name} {number(score.baseline)}"
        first[score.task] = Tile(label, number(score.value), against, bool(score.beats_baseline))
    return list(first.values())


def _shown(rows: Iterable[Row]) -> list[dict[str, object]]:
    """Return the texts of predictions, and True for each exactly right one."""
    shown = []
    for row in rows:
        texts = {name: str(row[name]) for name in ("input", "target", "prediction")}
        shown.append({**texts, "right": is_right(row)})
    return shown
