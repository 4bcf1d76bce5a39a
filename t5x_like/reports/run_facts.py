"""Facts about a run from its directory: size, length, speed, seed. Reads JSON files only."""

import math
import os
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from t5x_like.checkpoints.steps import absolute, finished_steps
from t5x_like.io.files import as_path, read_json
from t5x_like.reports.metrics_log import read_log
from t5x_like.reports.rendering import number

PathLike = str | os.PathLike[str]


def run_facts(run_directory: PathLike, config: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Return facts as ``{name: text}`` in the order to show them; unavailable ones are left out.

    Damaged lines of the log are, too.

    Args:
      run_directory: The run.
      config: Values of its ``config.json``; read if not given.
    """
    directory = as_path(run_directory)
    lines = [line for line in read_log(directory).lines if line["split"] == "train"]
    file = directory / "config.json"
    values: Mapping[str, Any] = read_json(file, dict) if config is None and file.exists() else config or {}
    facts = {
        "parameters": _parameters(run_directory),
        "steps": number(max(line["step"] for line in lines)) if lines else None,
        "batch": _batch(values),
        "seed": str(values["seed"]) if "seed" in values else None,
        "started from": values.get("start_from"),
        "training time": _training_time(lines),
        "compilation": _seconds(
            next((line["compile_seconds"] for line in lines if "compile_seconds" in line), None)
        ),
        "goodput": _goodput(lines),
        "tokens per second": _median(lines, "tokens_per_second"),
        "steps per second": _median(lines, "steps_per_second"),
    }
    return {name: value for name, value in facts.items() if value}


def _parameters(run_directory: PathLike) -> str | None:
    """Count parameters in the newest checkpoint's table of contents."""
    directory = absolute(run_directory)
    steps = finished_steps(directory)
    if not steps:
        return None
    leaves = read_json(directory / str(steps[-1]) / "leaves.json", dict)
    return number(
        sum(math.prod(leaf["shape"]) for name, leaf in leaves.items() if name.startswith("params/"))
    )


def _batch(config: Mapping[str, object]) -> str | None:
    names = ("train.batch_size", "train.inputs_length", "train.targets_length")
    if not all(name in config for name in names):
        return None
    rows, inputs, targets = (config[name] for name in names)
    return f"{rows:,} rows of {inputs:,} + {targets:,} tokens"


def _training_time(lines: Sequence[dict[str, Any]]) -> str | None:
    """Sum steps over speed in the log: excludes compilation, evaluation and saving."""
    seconds, previous = 0.0, 0
    for line in lines:
        if "steps_per_second" in line:
            seconds += (line["step"] - previous) / line["steps_per_second"]
        previous = line["step"]
    return _seconds(seconds or None)


def _goodput(lines: Sequence[dict[str, Any]]) -> str | None:
    """Return the newest share of the run's time in which it did steps that count."""
    share = next((line["goodput"] for line in reversed(lines) if "goodput" in line), None)
    return None if share is None else f"{share:.0%} of the time since the first start"


def _seconds(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _median(lines: Sequence[dict[str, Any]], name: str) -> str | None:
    """Return the median, because intervals at the start or next to other work are slower."""
    values = [line[name] for line in lines if name in line]
    return number(statistics.median(values)) if values else None
