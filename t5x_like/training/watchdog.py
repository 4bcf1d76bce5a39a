"""Ends a run that hangs, and shows where."""

import faulthandler
import os
import statistics
import sys
import threading
import time
from collections import deque

from t5x_like.config_class import config_class
from t5x_like.training.hooks import Hook, RunProgress

HUNG = 4  # exit code
_STEPS_TO_MEASURE = 100


@config_class
class Watchdog:
    """When a run is taken to hang: it makes no progress for too long, after its first step.

    Progress is a step, a batch of an evaluation, or the begin or end of an evaluation or a save.

    Attributes:
      factor: Longest time without progress, in median steps.
      least_seconds: Shortest time after which a run is ended, however fast its steps are. It must exceed the time that
        compiling takes.
    """

    factor: float = 100.0
    least_seconds: float = 1800.0

    def __post_init__(self) -> None:
        for name in ("factor", "least_seconds"):
            if getattr(self, name) <= 0:
                raise ValueError(
                    f"{name} is {getattr(self, name):g}; give a number above 0, or watchdog = None for none"
                )


class EndIfHung(Hook):
    """Ends the process with exit code 4 when a run hangs. The same command continues the run.

    Before that, the stacks of all threads and the states of the data workers are printed.
    """

    def __init__(self, watchdog: Watchdog) -> None:
        self._watchdog = watchdog
        self._seconds: deque[float] = deque(maxlen=_STEPS_TO_MEASURE)
        self._step_began = 0.0

    def start(self, run: RunProgress) -> None:
        """Begin to watch, in a thread of its own."""
        threading.Thread(target=self._watch, args=(run,), name="watchdog", daemon=True).start()

    def before_step(self, run: RunProgress) -> None:  # noqa: ARG002
        """Note when the step begins."""
        self._step_began = time.monotonic()

    def after_step(self, run: RunProgress) -> None:  # noqa: ARG002
        """Note how long the step took."""
        self._seconds.append(time.monotonic() - self._step_began)

    def _watch(self, run: RunProgress) -> None:
        # A thread that sleeps while Python ends can abort the process.
        while not run.ended.wait(min(self._watchdog.least_seconds / 10, 1.0)):
            if not self._seconds:  # the first step prepares data and compiles, which may take hours
                continue
            median = statistics.median(tuple(self._seconds))
            since, activity = run.newest_sign
            silent_seconds = time.monotonic() - since
            limit = max(self._watchdog.factor * median, self._watchdog.least_seconds)
            if silent_seconds > limit and not run.ended.is_set():
                _end(run, activity, silent_seconds=silent_seconds, median=median)


def _end(run: RunProgress, activity: str, *, silent_seconds: float, median: float) -> None:
    lines = [
        f"t5x-like: no progress for {silent_seconds:.0f} s after step {run.step}, while {activity}; the median step "
        f"took {median:.2g} s. The run ends, and the same command continues it from its last checkpoint.",
        *run.worker_states(),
        "Stacks of all threads:",
    ]
    sys.stdout.flush()
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()
    faulthandler.dump_traceback(all_threads=True)
    os._exit(HUNG)
