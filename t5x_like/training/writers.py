"""Writers of logged numbers: a JSONL file, TensorBoard and the terminal."""

import contextlib
import json
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import jax

from t5x_like.io.files import as_path, read_jsonl, write_json, write_jsonl
from t5x_like.io.progress import Progress
from t5x_like.model.automatic_choices import Choice, shown_choices
from t5x_like.value_types import fits

log = logging.getLogger(__name__)


def logged_lines(path: str, *, up_to_step: float = math.inf) -> list[dict[str, Any]]:
    """Read the lines of a ``metrics.jsonl`` up to a step; none if there is no such file.

    Damaged lines are reported and left out: training doesn't depend on them.

    Args:
      path: File of the run.
      up_to_step: Last step to return; all if not given.
    """
    if not as_path(path).exists():
        return []
    lines = list(read_jsonl(path, on_damage=lambda message: log.warning("%s; it is left out", message)))
    damaged = [line for line in lines if not _is_metrics(line)]
    if damaged:
        log.warning("%s: %d lines without step and split are left out", path, len(damaged))
    return [line for line in lines if _is_metrics(line) and line["step"] <= up_to_step]


def _is_metrics(line: Any) -> bool:
    return fits(line, dict) and fits(line.get("step"), int) and fits(line.get("split"), str)


class Writer:
    """Base of the writers."""

    def return_to(self, step: int) -> None:
        """Delete what was logged of later steps, where that is possible."""

    def flush(self) -> None:
        """Write lines that could not be written before, where there may be any."""


class JsonLinesWriter(Writer):
    """Appends one JSON object a line to ``metrics.jsonl``.

    On resume, lines of steps that were never saved are cut off, so that the file has every step once.
    """

    def __init__(self, path: str, resumed_step: int):
        self._path = path
        self._open(resumed_step)

    def _open(self, resumed_step: int) -> None:
        write_jsonl(self._path, logged_lines(self._path, up_to_step=resumed_step))
        self._file = as_path(self._path).open("a")

    def return_to(self, step: int) -> None:
        """Cut off the lines of later steps."""
        self._file.close()
        self._open(step)

    def write(self, line: dict[str, Any]) -> None:
        """Write and flush: a killed run keeps what it logged."""
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def flush(self) -> None:
        """Write lines that could not be written before."""
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class TensorBoardWriter(Writer):
    """Event files that TensorBoard reads, written without TensorFlow."""

    def __init__(self, directory: str):
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(directory, flush_secs=30)

    def write(self, line: dict[str, Any]) -> None:
        """Write the numbers of a log line as scalars of its split."""
        for name, value in line.items():
            if fits(value, float) and name != "step":
                self._writer.add_scalar(f"{line['split']}/{name}", value, line["step"])

    def close(self) -> None:
        self._writer.close()


class TerminalWriter(Writer):
    """A progress bar with ETA on a terminal. Elsewhere a line for every log, and one after 30 seconds without any.

    Args:
      total_steps: Number of the last step.
      start_step: Steps that were done before.
      stream: Stream to write to; standard error if not given.
      seconds_between_lines: Longest silence where there is no terminal.
    """

    _SHOWN = (
        "loss",
        "cross_entropy",
        "squared_error",
        "accuracy",
        "reward",
        "kl",
        "learning_rate",
        "gradient_norm",
        "steps_per_second",
        "tokens_per_second",
    )

    def __init__(
        self,
        *,
        total_steps: int,
        start_step: int,
        stream: TextIO | None = None,
        seconds_between_lines: float = 30.0,
    ):
        self._total, self._done = total_steps, start_step
        self._progress = Progress(
            "preparing", total_steps, "steps", stream=stream, seconds_between_lines=seconds_between_lines
        ).start()
        self._progress.skip(start_step)

    def step(self) -> None:
        """Count one step."""
        self._done += 1
        self._progress.add(1)

    def return_to(self, step: int) -> None:
        """Show that the steps after ``step`` are to be done again."""
        self._done = step
        self._progress.skip(step)

    def doing(self, activity: str) -> None:
        """Name what is going on, such as "evaluating"."""
        self._progress.relabel(activity)

    def compiled(self, seconds: float, choices: Sequence[Choice] = ()) -> None:
        """Print how long the first step took to compile, and what its program is; rates count from here."""
        self.say(f"compiled in {seconds:.{0 if seconds >= 10 else 1}f} s")
        if choices:
            self.say(shown_choices(choices))
        self._progress.skip(self._done)

    def write(self, line: dict[str, Any]) -> None:
        """Print the most important numbers of a log line."""
        shown = {name: line[name] for name in self._SHOWN if name in line}
        if line["split"] != "train":
            shown |= {
                name: value for name, value in line.items() if name not in ("step", "split", "target_tokens")
            }
        text = "  ".join(f"{name} {_short(value)}" for name, value in shown.items())
        self.say(f"step {line['step']}/{self._total}  {line['split']}  {text}")

    def say(self, text: str) -> None:
        """Print one line without tearing the bar."""
        self._progress.say(text)

    def close(self) -> None:
        """Remove the bar."""
        self._progress.close()


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class Writers:
    """All writers on the first process; the other processes write nothing."""

    def __init__(self, model_dir: str, *, total_steps: int, start_step: int):
        self._all: list[JsonLinesWriter | TensorBoardWriter | TerminalWriter] = []
        self._terminal: TerminalWriter | None = None
        self._failed: list[Any] = []
        self._model_dir = model_dir
        if jax.process_index() == 0:
            self._terminal = TerminalWriter(total_steps=total_steps, start_step=start_step)
            files = [
                JsonLinesWriter(f"{model_dir}/metrics.jsonl", start_step),
                TensorBoardWriter(f"{model_dir}/tensorboard"),
            ]
            self._all = [*files, self._terminal]

    def __enter__(self) -> "Writers":
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._all:
            self._attempt(writer, writer.close)

    def step(self) -> None:
        """Move the progress bar."""
        self._show(TerminalWriter.step)

    def return_to(self, step: int) -> None:
        """Delete what was logged of later steps; TensorBoard's files keep it."""
        for writer in self._all:
            self._attempt(writer, writer.return_to, step)

    def doing(self, activity: str) -> None:
        """Name what is going on, for the progress bar."""
        self._show(TerminalWriter.doing, activity)

    def compiled(self, seconds: float, choices: Sequence[Choice] = ()) -> None:
        """Say how long the first step took to compile, and keep the choices of its program in ``choices.json``.

        Args:
          seconds: Time to compile.
          choices: What became of settings that are ``"auto"``.
        """
        self._show(TerminalWriter.compiled, seconds, choices)
        if self._terminal is not None:
            rows = [choice._asdict() for choice in choices]
            self._attempt(self, write_json, f"{self._model_dir}/choices.json", rows)

    def say(self, text: str) -> None:
        """Print to the terminal only."""
        self._show(TerminalWriter.say, text)

    def write(self, line: dict[str, Any]) -> None:
        """Log one line: ``step``, ``split`` and numbers. Training continues if a writer fails; it is tried again."""
        for writer in self._all:
            self._attempt(writer, writer.write, line)

    def flush(self) -> None:
        """Write lines that could not be written before, such as on a full disk."""
        for writer in self._all:
            self._attempt(writer, writer.flush)

    def _show(self, method: Callable[..., None], *arguments: object) -> None:
        if self._terminal is not None:
            self._attempt(self._terminal, method, self._terminal, *arguments)

    def _attempt(self, writer: object, method: Callable[..., None], *arguments: object) -> None:
        """Call a method of a writer; its first failure is a warning, and no failure ends the run."""
        try:
            method(*arguments)
        except Exception as error:
            if writer not in self._failed:
                self._failed.append(writer)
                what = (
                    f"{type(writer).__name__} failed, and training continues: {type(error).__name__}: {error}"
                )
                with contextlib.suppress(OSError):  # the terminal may be the one that is gone
                    log.warning("%s", what)
