"""Writers of logged numbers: a JSONL file, TensorBoard and the terminal."""

import json
import sys
from typing import Any, TextIO

import jax
from tqdm import tqdm

from t5x_like.io.files import as_path, read_jsonl, write_jsonl


def logged_lines(path: str, *, up_to_step: int) -> list[dict[str, Any]]:
    """Reads the lines of a ``metrics.jsonl`` up to a step; none if there is no such file."""
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
        """Writes and flushes: a killed run keeps what it logged."""
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
    """A progress bar with ETA on a terminal; one plain line for every log elsewhere."""

    _SHOWN = (
        "loss",
        "cross_entropy",
        "accuracy",
        "learning_rate",
        "gradient_norm",
        "steps_per_second",
        "tokens_per_second",
    )

    def __init__(self, *, total_steps: int, start_step: int, stream: TextIO | None = None):
        self._stream: TextIO = stream or sys.stderr
        self._bar = tqdm(
            total=total_steps,
            initial=start_step,
            unit="step",
            file=self._stream,
            disable=not self._stream.isatty(),
            smoothing=0.1,
        )
        self._total = total_steps

    def step(self) -> None:
        self._bar.update(1)

    def write(self, line: dict[str, Any]) -> None:
        shown = {name: line[name] for name in self._SHOWN if name in line}
        if line["split"] != "train":
            shown |= {
                name: value for name, value in line.items() if name not in ("step", "split", "target_tokens")
            }
        text = "  ".join(f"{name} {_short(value)}" for name, value in shown.items())
        self.say(f"step {line['step']}/{self._total}  {line['split']}  {text}")

    def say(self, text: str) -> None:
        """Prints one line without tearing the bar."""
        self._bar.write(text, file=self._stream)
        self._stream.flush()

    def close(self) -> None:
        self._bar.close()


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
        """Moves the progress bar."""
        if self._terminal:
            self._terminal.step()

    def say(self, text: str) -> None:
        """Prints to the terminal only."""
        if self._terminal:
            self._terminal.say(text)

    def write(self, line: dict[str, Any]) -> None:
        """Logs one line: ``step``, ``split`` and numbers."""
        for writer in self._all:
            writer.write(line)
