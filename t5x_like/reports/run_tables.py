"""Tables of runs: a list of many, the facts of one, and several side by side."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from t5x_like.io.files import write_text
from t5x_like.nested_values import json_number
from t5x_like.reports.curves import Curve, curves_of, draw_loss_curves
from t5x_like.reports.rendering import date_and_time, iso_time, plural, render, size
from t5x_like.reports.run_facts import run_facts
from t5x_like.reports.run_summary import RunSummary
from t5x_like.reports.score_tables import aligned, lower_is_better
from t5x_like.value_types import fits

# Numbers of the newest training line to show, where they were logged.
_TRAINING = ("loss", "cross_entropy", "accuracy", "learning_rate", "gradient_norm", "tokens_per_second")
_SHOWN_SCORES = 2
_LONGEST_VALUE = 40  # characters of a setting on a terminal
_NONE = "–"


def runs_table(runs: Sequence[RunSummary]) -> str:
    """Return a line for each run: steps, newest losses and scores, state, date."""
    rows = [("run", "state", "steps", "loss", "scores", "changed")]
    rows += [
        (
            run.name,
            _state(run),
            _steps(run),
            _number(run.training_loss),
            _scores(run),
            date_and_time(run.changed),
        )
        for run in runs
    ]
    notes = [f"{run.name}: {note}" for run in runs for note in run.notes]
    return "\n".join([aligned(rows, left=2), *notes])


def run_json(run: RunSummary) -> dict[str, object]:
    """Return a run's row of ``runs_table`` as JSON."""
    return {
        "name": run.name,
        "directory": run.directory,
        "state": run.state,
        "writer": run.writer and {name: run.writer[name] for name in ("host", "pid")},
        "step": run.step,
        "total_steps": run.total_steps,
        "training_loss": json_number(run.training_loss),
        "scores": {name: json_number(score.newest) for name, score in run.scores.items()},
        "changed": iso_time(run.changed),
        "notes": list(run.notes),
    }


def sort_key(order: str) -> Callable[[RunSummary], tuple[bool, float, str]]:
    """Return the key to sort runs by.

    Args:
      order: "name"; "date" (newest first); "steps" (most first); "loss" (lowest first); or a score, such as
        "glue_rte_v002/accuracy" (best first). Runs without a value come last.
    """

    def number(run: RunSummary) -> float | None:
        match order:
            case "date":
                return -run.changed
            case "steps":
                return None if run.step is None else -run.step
            case "loss":
                return run.training_loss
        score = run.scores.get(order)
        return None if score is None else score.newest if lower_is_better(order) else -score.newest

    def key(run: RunSummary) -> tuple[bool, float, str]:
        value = None if order == "name" else number(run)
        if value is None or math.isnan(value):
            return True, 0.0, run.name
        return False, value, run.name

    return key


def run_page(run: RunSummary, checkpoints: Sequence[Any]) -> str:
    """Return the facts of a run: state, configuration, size, checkpoints, metrics.

    Args:
      run: The run.
      checkpoints: Its ``SavedStep`` values.
    """
    config = run.config
    facts = {
        "model": run.model.get("model_type"),
        "trained on": config.get("train.mixture"),
        "optimizer": config.get("optimizer.is"),
        **run_facts(run.directory, config),
        "checkpoints": ", ".join(f"{step:,}" for step in run.steps),
        "on disk": checkpoints and size(sum(each.num_bytes for each in checkpoints)),
    }
    shown = [(name, str(value)) for name, value in facts.items() if value]
    head = f"{run.name}: {_state(run)}, step {_steps(run)}, changed {date_and_time(run.changed)}"
    training = [(f"train/{name}", run.training[name]) for name in _TRAINING if name in run.training]
    rows = [("metric", "newest", "at step", "best", "at step")]
    rows += [(name, _number(value), f"{run.training['step']:,}", "", "") for name, value in training]
    for name, score in run.scores.items():
        best = (_number(score.best), f"{score.best_step:,}")
        rows.append((name, _number(score.newest), f"{score.newest_step:,}", *best))
    parts = [head, *run.notes, "", aligned(shown, left=2) if shown else ""]
    return "\n".join([*parts, "", aligned(rows, left=1)] if len(rows) > 1 else parts).rstrip()


class RunComparison(NamedTuple):
    """Runs side by side; the first cell of a row is its name, the others are the runs' values.

    Attributes:
      runs: The runs, with different names.
      settings: Values of the configuration that differ.
      metrics: State, steps and newest metrics.
    """

    runs: tuple[RunSummary, ...]
    settings: list[tuple[str, ...]]
    metrics: list[tuple[str, ...]]

    @property
    def header(self) -> tuple[str, ...]:
        """First row of the tables."""
        return ("", *(run.name for run in self.runs))

    def text(self) -> str:
        """Return the tables for a terminal; long values are cut."""
        settings = [tuple(map(_cut, row)) for row in self.settings]
        differing = plural(len(settings), "setting") + " of the configurations differ"
        notes = [f"{run.name}: {note}" for run in self.runs for note in run.notes]
        return "\n".join(
            [
                aligned([self.header, *self.metrics], left=1),
                "",
                aligned([(differing, *self.header[1:]), *settings], left=1)
                if settings
                else "equal configurations",
                *notes,
            ]
        )

    def write(self, output: str) -> None:
        """Write one HTML page with the tables, and the loss curves of all runs in each figure."""
        html = render(
            "run_comparison.html.j2",
            title=", ".join(self.header[1:]),
            introduction=f"{plural(len(self.runs), 'run')} side by side: metrics, loss curves and configurations.",
            headlines=[],
            header=self.header,
            metrics=self.metrics,
            settings=self.settings,
            figures=_figures(self.runs),
            notes=[f"{run.name}: {note}" for run in self.runs for note in run.notes],
        )
        write_text(output, html)


def compare_runs(runs: Sequence[RunSummary]) -> RunComparison:
    """Compare runs with different names."""
    return RunComparison(tuple(runs), _differing_settings(runs), _metrics(runs))


def _differing_settings(runs: Sequence[RunSummary]) -> list[tuple[str, ...]]:
    """Return all values that differ, but for ``model_dir``, in the order of the configurations."""
    keys = dict.fromkeys(key for run in runs for key in run.config if key != "model_dir")
    missing = object()
    rows = []
    for key in keys:
        values = [run.config.get(key, missing) for run in runs]
        if any(value != values[0] for value in values):
            rows.append((key, *(_NONE if value is missing else str(value) for value in values)))
    return rows


def _metrics(runs: Sequence[RunSummary]) -> list[tuple[str, ...]]:
    rows = [("state", *map(_state, runs)), ("step", *map(_steps, runs))]
    training = [name for name in _TRAINING if any(name in run.training for run in runs)]
    rows += [(f"train/{name}", *(_number(run.training.get(name)) for run in runs)) for name in training]
    for name in dict.fromkeys(name for run in runs for name in run.scores):
        rows.append(
            (name, *(_number(run.scores[name].newest) if name in run.scores else _NONE for run in runs))
        )
    return rows


def _figures(runs: Sequence[RunSummary]) -> list[dict[str, str]]:
    """Draw a figure for each kind of loss, with a curve for each run that has it."""
    groups: dict[tuple[bool, str], list[Curve]] = {}
    for run in runs:
        for curve in curves_of(run.log.lines):
            groups.setdefault((curve.held_out, curve.task), []).append(curve._replace(task=run.name))
    figures = []
    for (held_out, task), curves in groups.items():
        title = " ".join(filter(None, ["validation" if held_out else "training", task]))
        names = ", ".join(curve.task for curve in curves)
        figures.append({"title": title, "svg": draw_loss_curves(curves, title=title), "runs": names})
    return figures


def _state(run: RunSummary) -> str:
    return (
        run.state if run.writer is None else f"running (host {run.writer['host']}, pid {run.writer['pid']})"
    )


def _steps(run: RunSummary) -> str:
    done = _NONE if run.step is None else f"{run.step:,}"
    return done if run.total_steps is None else f"{done} / {run.total_steps:,}"


def _scores(run: RunSummary) -> str:
    """Return the first scores of tasks, or the first validation losses of a run that scores none."""
    of_tasks = [name for name in run.scores if not name.startswith("validation/")]
    names = of_tasks or [name for name in run.scores if name.endswith("/loss")]
    shown = [f"{name} {_number(run.scores[name].newest)}" for name in names[:_SHOWN_SCORES]]
    more = [f"{len(names) - _SHOWN_SCORES} more"] if len(names) > _SHOWN_SCORES else []
    return ", ".join(shown + more) or _NONE


def _number(value: object) -> str:
    if not fits(value, float):
        return _NONE
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
