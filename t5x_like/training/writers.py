"""Writers of logged numbers: a JSONL file, TensorBoard and the terminal."""

import json
from typing import Any, TextIO

import jax

from t5x_like.io.files import as_path, read_jsonl, write_jsonl
from t5x_like.io.progress import Progress


def logged_lines(path: str, *, up_to_step: int) -> list[dict[str, Any]]:
    """Read the lines of a ``metrics.jsonl`` up to a step; none if there is no such file."""
    logged = list(read_jsonl(path)) if as_path(path).exists() else []
    return [line for line in logged if line["step"] <= up_to_step]


class JsonLinesWriter:
    """Appends one JSON object a line to ``metrics.jsonl``.

    On resume, lines of steps that were never saved are cut off, so that the file has every step once.
    """

    def __init__(self, path: str, resumed_step: int):
        write_jsonl(path, logged_lines(path, up_to_step=resumed_step))
        self._file = as_path(path).open("a")

    def write(self, line: dict[str, Any]) -> None:
        """Write and flush: a killed run keeps what it logged."""
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class TensorBoardWriter:
    """Event files that TensorBoard reads, written without TensorFlow."""

    def __init__(self, directory: str):
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(directory, flush_secs=30)

    def write(self, line: dict[str, Any]) -> None:
        for name, value in line.items():
            if isinstance(value, int | float) and name != "step":
                self._writer.add_scalar(f"{line['split']}/{name}", value, line["step"])

    def close(self) -> None:
        self._writer.close()


class TerminalWriter:
    """A progress bar with ETA on a terminal. Elsewhere a line for every log, and one after 30 seconds without any.

    Args:
      total_steps: the number of the last step.
      start_step: the steps that were done before.
      stream: where to write; standard error if not given.
      seconds_between_lines: the longest silence where there is no terminal.
    """

    _SHOWN = (
        "loss",
        "cross_entropy",
        "squared_error",
        "accuracy",
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

    def doing(self, activity: str) -> None:
        """Name what is going on, such as "evaluating"."""
        self._progress.relabel(activity)

    def compiled(self, seconds: float) -> None:
        """Print how long the first step took to compile; rates count from here."""
        self.say(f"compiled in {seconds:.{0 if seconds >= 10 else 1}f} s")
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


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class Writers:
    """All writers on the first process; the other processes write nothing."""

    def __init__(self, model_dir: str, *, total_steps: int, start_step: int):
        self._all: list[JsonLinesWriter | TensorBoardWriter | TerminalWriter] = []
        self._terminal: TerminalWriter | None = None
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
            writer.close()

    def step(self) -> None:
        """Move the progress bar."""
        if self._terminal:
            self._terminal.step()

    def doing(self, activity: str) -> None:
        """Name what is going on, for the progress bar."""
        if self._terminal:
            self._terminal.doing(activity)

    def compiled(self, seconds: float) -> None:
        """Say how long the first step took to compile."""
        if self._terminal:
            self._terminal.compiled(seconds)

    def say(self, text: str) -> None:
        """Print to the terminal only."""
        if self._terminal:
            self._terminal.say(text)

    def write(self, line: dict[str, Any]) -> None:
        """Log one line: ``step``, ``split`` and numbers."""
        for writer in self._all:
            writer.write(line)
