"""Pool of processes that train the runs of a sweep, each in its own folder; finished runs are not repeated."""

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

from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import read_json, write_json
from t5x_like.sweep.grid import GridPoint
from t5x_like.sweep.outcomes import RunOutcome, chosen_step, score_of, scores_by_step

_FINISHED = "sweep_run.json"  # in a run's folder: its configuration, written when it has finished
_INTERRUPTED = 130
_POLL_SECONDS = 0.2

Status = Literal["finished", "failed", "interrupted", "waiting"]


class Criterion(NamedTuple):
    """Score by which runs are compared.

    Attributes:
      metric: Name of a metric, with or without its task; ``None`` for the mean over all tasks.
      at: Step whose scores count.
      lowest: True if lower scores are better.
    """

    metric: str | None = None
    at: Literal["last", "best"] = "last"
    lowest: bool = False


class RunStage(NamedTuple):
    """One process of a grid point: a training, or the evaluation of an ensemble.

    Attributes:
      directory: Folder of the run.
      command: Program and arguments.
    """

    directory: Path
    command: list[str]


class SweepRun(NamedTuple):
    """Training of one grid point: a run, or two of which the second starts from the first one's weights.

    Attributes:
      point: Values of the run.
      directory: Folder of all that belongs to it.
      stages: Processes, one after the other; the scores of the last one count.
      described: Every value that affects the result, to compare with a finished run's.
      num_parameters: Size of the first stage's model; ``None`` if it is that of a checkpoint.
      members: Finished runs that it evaluates together; empty for a training.
    """

    point: GridPoint
    directory: Path
    stages: tuple[RunStage, ...]
    described: dict[str, Any]
    num_parameters: int | None = None
    members: "tuple[SweepRun, ...]" = ()


class _ActiveRun(NamedTuple):
    """A run, the number of its present stage, that stage's process, and when it was started."""

    run: SweepRun
    stage: int
    process: subprocess.Popen
    start_time: float


def is_finished(run: SweepRun) -> bool:
    """Return True if this run has finished before.

    Raises:
      UserError: Its folder holds a finished run of another configuration.
    """
    file = run.directory / _FINISHED
    if not file.exists():
        return False
    kept, described = read_json(file)["configuration"], run.described
    lines = [
        f"{name}: there {kept.get(name, 'nothing')!r}, now {described.get(name, 'nothing')!r}"
        for name in sorted(kept.keys() | described.keys())
        # An option that an earlier version lacked is off there.
        if kept.get(name) != described.get(name) and (name in kept or described[name] is not False)
    ]
    if lines:
        listed = "\n  ".join(lines[:8])
        raise UserError(
            f"{run.directory} holds a finished run of another configuration:\n  {listed}",
            hint="give another output, or the flags that this one was begun with",
        )
    return True


def outcome_of(run: SweepRun, status: Status, criterion: Criterion) -> RunOutcome:
    """Return the run's outcome, with scores if it has finished.

    Args:
      run: The run.
      status: State in which its process ended.
      criterion: Score to read.

    Raises:
      ValueError: The run has not measured the metric.
    """
    point = run.point
    directory = run.stages[-1].directory
    outcome = RunOutcome(
        point.name, point.shown, point.seed, status, str(directory), num_parameters=run.num_parameters
    )
    if status != "finished":
        return outcome
    by_step = scores_by_step(directory)
    step = chosen_step(by_step, criterion.metric, at=criterion.at, lowest=criterion.lowest)
    scores = by_step[step]
    return outcome._replace(step=step, scores=scores, score=score_of(scores, criterion.metric))


class RunPool:
    """Pool that trains a few runs at a time. On SIGTERM or Ctrl-C the active runs save and stop.

    Args:
      jobs: Runs at a time.
      devices: GPUs to divide among the jobs; if empty, each job sees all.
      report: Called with a line of text whenever a run starts or ends.
    """

    def __init__(self, jobs: int, devices: Sequence[str], report: Callable[[str], None]):
        self._jobs, self._devices, self._report = jobs, devices, report
        self._active: dict[int, _ActiveRun] = {}

    def work(self, waiting: Sequence[SweepRun], ended: Callable[[SweepRun, Status], None]) -> None:
        """Train the runs in order.

        Args:
          waiting: Runs to train.
          ended: Called with each run and its status.

        Raises:
          KeyboardInterrupt: The sweep was interrupted; ``ended`` was called for all active runs.
        """
        queue = list(waiting)
        before = signal.signal(signal.SIGTERM, _interrupt)
        try:
            while queue or self._active:
                for slot in range(self._jobs):
                    if queue and slot not in self._active:
                        self._start(slot, queue.pop(0))
                self._collect(ended)
                time.sleep(_POLL_SECONDS)
        except KeyboardInterrupt:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # schedulers may repeat it while the runs save
            self._stop(ended)
            raise
        except BaseException:  # an unexpected error must not leave processes behind
            self._stop(lambda *_: None)
            raise
        finally:
            signal.signal(signal.SIGTERM, before)

    def _start(self, slot: int, run: SweepRun, stage: int = 0) -> None:
        directory, command = run.stages[stage]
        directory.mkdir(parents=True, exist_ok=True)
        environment = dict(os.environ)
        if self._devices:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(self._devices[slot :: self._jobs])
        with (directory / "train.log").open("ab") as log, _locked(directory) as lock:
            # In its own session, so that Ctrl-C reaches only this process, which passes it on once.
            process = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, start_new_session=True, pass_fds=(lock,)
            )
        self._active[slot] = _ActiveRun(run, stage, process, time.monotonic())
        self._report(f"{run.point.name}: started, {directory}/train.log")

    def _collect(self, ended: Callable[[SweepRun, Status], None], *, stopping: bool = False) -> None:
        for slot, active in list(self._active.items()):
            code = active.process.poll()
            if code is None:
                continue
            del self._active[slot]
            run, last = active.run, active.stage == len(active.run.stages) - 1
            status: Status = "finished" if code == 0 else "interrupted" if code == _INTERRUPTED else "failed"
            seconds = time.monotonic() - active.start_time
            why = _why(run.stages[active.stage].directory) if status == "failed" else ""
            self._report(f"{run.point.name}: {status} after {seconds:.0f} s{why}")
            if status == "finished" and not last and not stopping:
                self._start(slot, run, active.stage + 1)
                continue
            if status == "finished" and last:
                write_json(run.directory / _FINISHED, {"configuration": run.described})
            ended(run, status if last or status == "failed" else "interrupted")

    def _stop(self, ended: Callable[[SweepRun, Status], None]) -> None:
        for active in self._active.values():
            active.process.send_signal(signal.SIGTERM)
        if self._active:
            self._report(f"stopping; {len(self._active)} runs save and stop")
        while self._active:
            self._collect(ended, stopping=True)
            time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[int]:
    """Hold a lock that the run's process inherits, so that it outlives a killed sweep.

    Raises:
      UserError: A run is active in the folder.
    """
    with (directory / "train.lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(
                f"{directory} is in use: an earlier run has not ended",
                hint="wait for it, or end its process; another sweep needs another output",
            ) from error
        yield file.fileno()


def verb_command(verb: str, arguments: Sequence[str]) -> list[str]:
    """Return the command of ``t5x-like VERB`` with these flags, in this Python.

    Args:
      verb: Name of the command.
      arguments: Flags and values after it.
    """
    return [
        sys.executable,
        "-c",
        "from t5x_like.cli.main import run_and_exit; run_and_exit()",
        verb,
        *arguments,
    ]


def _why(directory: Path) -> str:
    lines = (directory / "train.log").read_text(errors="replace").strip().splitlines()
    return "".join(f"\n    {line}" for line in lines[-5:])


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
