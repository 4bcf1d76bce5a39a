"""The runs of a sweep as processes: a few at a time, each in its own folder, none done twice."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from t5x_like.cli.sweep_points import Point
from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import read_json, write_json
from t5x_like.reports.sweeps import Outcome, chosen_step, score_of, scores_by_step

_KEPT = "sweep_run.json"  # in a run's folder: what it was, and that it ended well
_INTERRUPTED = 130
_POLL_SECONDS = 0.2

Status = Literal["finished", "failed", "interrupted", "waiting"]


class Comparing(NamedTuple):
    """Which number stands for a run; see ``reports.sweeps``."""

    metric: str | None = None
    at: Literal["last", "best"] = "last"
    lowest: bool = False


class Run(NamedTuple):
    """One point with what ``train`` is to be told, and all values that decide what it computes."""

    point: Point
    directory: Path
    command: list[str]
    described: dict[str, Any]


def is_finished(run: Run) -> bool:
    """Whether this very run ended well before.

    Raises:
      UserError: another one did, there.
    """
    file = run.directory / _KEPT
    if not file.exists():
        return False
    kept, asked = read_json(file)["configuration"], run.described
    lines = [
        f"{name}: there {kept.get(name, 'nothing')!r}, now {asked.get(name, 'nothing')!r}"
        for name in sorted(kept.keys() | asked.keys())
        if kept.get(name) != asked.get(name)
    ]
    if lines:
        listed = "\n  ".join(lines[:8])
        raise UserError(
            f"{run.directory} holds a finished run of another configuration:\n  {listed}",
            hint="give another --output, or the flags that this one was begun with",
        )
    return True


def outcome_of(run: Run, status: Status, comparing: Comparing) -> Outcome:
    """What a run reached, if it has finished.

    Raises:
      ValueError: the number to be compared was not measured.
    """
    point = run.point
    outcome = Outcome(point.name, point.settings, point.seed, status, str(run.directory))
    if status != "finished":
        return outcome
    by_step = scores_by_step(run.directory)
    step = chosen_step(by_step, comparing.metric, at=comparing.at, lowest=comparing.lowest)
    scores = by_step[step]
    return outcome._replace(step=step, scores=scores, score=score_of(scores, comparing.metric))


class Pool:
    """Runs waiting runs, ``jobs`` at a time; SIGTERM or Ctrl-C lets those that are under way save and stop."""

    def __init__(self, jobs: int, devices: Sequence[str], told: Callable[[str], None]):
        self._jobs, self._devices, self._told = jobs, devices, told
        self._under_way: dict[int, tuple[Run, subprocess.Popen, float]] = {}

    def work(self, waiting: Sequence[Run], ended: Callable[[Run, Status], None]) -> None:
        """Starts them in order; ``ended`` hears how each ended.

        Raises:
          KeyboardInterrupt: it was interrupted; ``ended`` has heard of all that were under way.
        """
        queue = list(waiting)
        before = signal.signal(signal.SIGTERM, _interrupt)
        try:
            while queue or self._under_way:
                for slot in range(self._jobs):
                    if queue and slot not in self._under_way:
                        self._start(slot, queue.pop(0))
                self._collect(ended)
                time.sleep(_POLL_SECONDS)
        except KeyboardInterrupt:
            self._stop(ended)
            raise
        except BaseException:  # a mistake that only shows now must not leave processes behind
            self._stop(lambda *_: None)
            raise
        finally:
            signal.signal(signal.SIGTERM, before)

    def _start(self, slot: int, run: Run) -> None:
        run.directory.mkdir(parents=True, exist_ok=True)
        environment = dict(os.environ)
        if self._devices:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(self._devices[slot :: self._jobs])
        with (run.directory / "train.log").open("ab") as log, _locked(run.directory) as lock:
            # A session of its own: Ctrl-C on the terminal reaches us alone, and we pass it on once.
            process = subprocess.Popen(
                run.command,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
                pass_fds=(lock,),
            )
        self._under_way[slot] = (run, process, time.monotonic())
        self._told(f"{run.point.name}: started, {run.directory}/train.log")

    def _collect(self, ended: Callable[[Run, Status], None]) -> None:
        for slot, (run, process, start) in list(self._under_way.items()):
            code = process.poll()
            if code is None:
                continue
            del self._under_way[slot]
            status: Status = "finished" if code == 0 else "interrupted" if code == _INTERRUPTED else "failed"
            if status == "finished":
                write_json(run.directory / _KEPT, {"configuration": run.described})
            seconds = time.monotonic() - start
            self._told(f"{run.point.name}: {status} after {seconds:.0f} s{_why(run, status)}")
            ended(run, status)

    def _stop(self, ended: Callable[[Run, Status], None]) -> None:
        for _, process, _ in self._under_way.values():
            process.send_signal(signal.SIGTERM)
        if self._under_way:
            self._told(f"stopping; {len(self._under_way)} runs save where they stand")
        while self._under_way:
            self._collect(ended)
            time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[int]:
    """A lock that a run's process inherits and keeps to its end, even if the sweep itself is killed.

    Raises:
      UserError: a run is at work there.
    """
    with (directory / "train.lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(
                f"{directory} is at work: a run that was started before has not ended",
                hint="wait for it, or end its process; another sweep needs another --output",
            ) from error
        yield file.fileno()


def command_of(arguments: Sequence[str]) -> list[str]:
    """``t5x-like train`` with these flags, in this Python."""
    return [
        sys.executable,
        "-c",
        "import sys; from t5x_like.cli.main import main; sys.exit(main())",
        "train",
        *arguments,
    ]


def _why(run: Run, status: Status) -> str:
    if status != "failed":
        return ""
    lines = (run.directory / "train.log").read_text(errors="replace").strip().splitlines()
    return "".join(f"\n    {line}" for line in lines[-5:])


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
