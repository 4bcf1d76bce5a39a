"""Goodput: the share of a run's time in which it did steps that count."""

import time
from collections.abc import Sequence
from typing import Any

from t5x_like.io.files import as_path, read_json
from t5x_like.training.writers import logged_lines


class Goodput:
    """Measures a run's goodput over all of its starts.

    A run's time begins with its first start. It includes compilation, evaluation, saving, steps that were lost, and the
    time from a crash or a preemption to the next start. It excludes the time before a complete run is continued.

    Args:
      lines: Lines that earlier starts logged, those of lost steps too.
      was_complete: True if the run had done its last step.
    """

    def __init__(self, lines: Sequence[dict[str, Any]] = (), *, was_complete: bool = False) -> None:
        self._start = time.time()
        newest = next((line for line in reversed(lines) if "elapsed_seconds" in line), None)
        self._elapsed_before = 0.0
        if newest is not None:
            stopped = 0.0 if was_complete else max(self._start - newest["time"], 0.0)
            self._elapsed_before = newest["elapsed_seconds"] + stopped

    @classmethod
    def of_run(cls, model_dir: str) -> "Goodput":
        """Return the goodput of a run that starts or continues; call before its log and its record are changed.

        Args:
          model_dir: Directory of the run.
        """
        lines = logged_lines(f"{model_dir}/metrics.jsonl")
        record = as_path(model_dir) / "config.json"
        total_steps = read_json(record, dict).get("total_steps") if record.exists() else None
        steps_done = max((line["step"] for line in lines if line["split"] == "train"), default=0)
        return cls(lines, was_complete=total_steps is not None and steps_done >= total_steps)

    def measure(self, lines: Sequence[dict[str, Any]], step_seconds: float) -> dict[str, float]:
        """Return ``goodput`` from 0 to 1, ``elapsed_seconds`` since the first start, and the present ``time``.

        Args:
          lines: Lines of the steps that count, without the one to be logged.
          step_seconds: Seconds of steps since the newest of them.
        """
        now = time.time()
        elapsed = self._elapsed_before + now - self._start
        step_seconds += sum(line.get("step_seconds", 0.0) for line in lines)
        return {
            "goodput": min(step_seconds / max(elapsed, 1e-9), 1.0),
            "elapsed_seconds": elapsed,
            "time": now,
        }
