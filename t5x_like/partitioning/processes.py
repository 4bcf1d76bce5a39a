"""Connects this process to the others of its run, as environment variables describe them."""

import logging
import os
import re
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple

from t5x_like.partitioning.process_watch import ProcessWatch
from t5x_like.partitioning.rendezvous import wait_for_all_processes

COORDINATOR = "T5X_LIKE_COORDINATOR"
NUM_PROCESSES = "T5X_LIKE_NUM_PROCESSES"
PROCESS_ID = "T5X_LIKE_PROCESS_ID"
DISTRIBUTED = "T5X_LIKE_DISTRIBUTED"
INITIALIZATION_TIMEOUT = "T5X_LIKE_INITIALIZATION_TIMEOUT_SECONDS"
HEARTBEAT_TIMEOUT = "T5X_LIKE_HEARTBEAT_TIMEOUT_SECONDS"

_EXPLICIT = (COORDINATOR, NUM_PROCESSES, PROCESS_ID)
_DEFAULT_SECONDS = {INITIALIZATION_TIMEOUT: 300, HEARTBEAT_TIMEOUT: 45}

_watch: ProcessWatch | None = None


class _Process(NamedTuple):
    coordinator: str
    num_processes: int
    index: int


def initialize_processes() -> None:
    """Connect to the other processes; call once, before JAX touches a device.

    With nothing set this is a run of one process, and nothing happens. With several, each watches the others from now
    on (see :class:`ProcessWatch`), and an uncaught error ends this one at once.

    ``T5X_LIKE_COORDINATOR`` (``host:port`` of process 0), ``T5X_LIKE_NUM_PROCESSES`` and
    ``T5X_LIKE_PROCESS_ID`` describe the run; ``T5X_LIKE_DISTRIBUTED=auto`` instead lets JAX ask the TPU pod,
    SLURM or Kubernetes. ``T5X_LIKE_INITIALIZATION_TIMEOUT_SECONDS`` (300) bounds the wait for the others to start,
    ``T5X_LIKE_HEARTBEAT_TIMEOUT_SECONDS`` (45) for a sign of life later.

    Raises:
      ValueError: The description is incomplete or contradicts itself, or the processes don't find each other.
    """
    mode = os.environ.get(DISTRIBUTED, "")
    explicit = {name: os.environ[name] for name in _EXPLICIT if os.environ.get(name)}
    if mode not in ("", "auto"):
        raise ValueError(f"{DISTRIBUTED}={mode!r}; the only mode is 'auto' (leave it unset for one process)")
    if mode and explicit:
        raise ValueError(f"{DISTRIBUTED}=auto and {', '.join(explicit)} are both set; choose one way")
    if mode:
        _connect(_as_cluster_describes())
    elif explicit.get(NUM_PROCESSES) != "1" and explicit:
        _connect(_as_described(explicit))


def report_activity(activity: str) -> None:
    """Tell the other processes what this one begins; all begin the same activities in the same order."""
    if _watch is not None:
        _watch.begin(activity)


def end_if_one_of_several(exit_code: int) -> None:
    """End this process at once, and let the others know why, if there are others.

    They can't go on without it. JAX would wait minutes for them at the end of the program.
    """
    if _watch is not None:
        _watch.fail(exit_code)


def _as_cluster_describes() -> _Process:
    # JAX has no public way to ask without connecting; it takes seconds to import.
    from jax._src.clusters import ClusterEnv

    coordinator, count, index, _ = ClusterEnv.auto_detect_unset_distributed_params(
        None, None, None, None, None, _seconds(INITIALIZATION_TIMEOUT)
    )
    if coordinator is None or count is None or index is None:
        raise ValueError(
            f"{DISTRIBUTED}=auto, but JAX finds no TPU pod, SLURM job, Open MPI job or Kubernetes job here; "
            f"set {', '.join(_EXPLICIT)} instead"
        )
    return _Process(coordinator, count, index)


def _as_described(explicit: dict[str, str]) -> _Process:
    missing = [name for name in _EXPLICIT if name not in explicit]
    if missing:
        raise ValueError(
            f"{', '.join(explicit)} set without {', '.join(missing)}; a run of several processes needs all"
        )
    if not re.fullmatch(r".+:\d+", explicit[COORDINATOR]):
        raise ValueError(
            f"{COORDINATOR}={explicit[COORDINATOR]!r}; write host:port, for example localhost:12345"
        )
    count, index = (_number(name, explicit[name]) for name in (NUM_PROCESSES, PROCESS_ID))
    if index >= count:
        raise ValueError(f"{PROCESS_ID}={index} must lie in 0 … {count - 1}, as {NUM_PROCESSES}={count}")
    return _Process(explicit[COORDINATOR], count, index)


def _connect(process: _Process) -> None:
    if process.num_processes == 1:
        return
    initialization, heartbeat = _seconds(INITIALIZATION_TIMEOUT), _seconds(HEARTBEAT_TIMEOUT)
    hosts = wait_for_all_processes(process.coordinator, process.num_processes, process.index, initialization)
    if process.index:  # process 0 speaks for all
        logging.disable(logging.WARNING)
    import jax  # takes seconds; a run of one process may never need it

    jax.distributed.initialize(
        process.coordinator,
        num_processes=process.num_processes,
        process_id=process.index,
        initialization_timeout=initialization,
        # A last resort, later than ours: JAX ends processes with a stack trace.
        heartbeat_timeout_seconds=max(100, 2 * heartbeat),
    )
    global _watch
    _watch = ProcessWatch(process.index, hosts, heartbeat, _exchange_signs(process.index))
    sys.excepthook = _end_after_error


def _exchange_signs(index: int) -> Callable[[str], dict[int, str] | None]:
    """Return the function that ``ProcessWatch`` asks for."""
    from jax._src.distributed import global_state  # JAX has no public way to its key-value store

    def exchange(sign: str) -> dict[int, str] | None:
        client = global_state.client
        if client is None:  # after jax.distributed.shutdown()
            return None
        client.key_value_set(f"t5x_like/signs/{index}", sign, allow_overwrite=True)
        if index:
            return {0: client.key_value_try_get("t5x_like/signs/0")}
        signs = client.key_value_dir_get("t5x_like/signs/")
        return {int(name.rpartition("/")[2]): value for name, value in signs}

    return exchange


def _end_after_error(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    import jax  # already imported

    # A lost process breaks the communication of the others: an error with a status of XLA. Meanwhile the watch has time
    # to name it and to end this process.
    if isinstance(error, jax.errors.JaxRuntimeError) or re.match(r"[A-Z_]+: ", str(error)):
        time.sleep(1.5 * _seconds(HEARTBEAT_TIMEOUT))
    sys.__excepthook__(kind, error, traceback)
    end_if_one_of_several(1)


def _seconds(name: str) -> int:
    seconds = _number(name, os.environ.get(name) or str(_DEFAULT_SECONDS[name]))
    if seconds == 0:
        raise ValueError(f"{name}=0; give a number of seconds above 0")
    return seconds


def _number(name: str, value: str) -> int:
    if not value.isdecimal():
        raise ValueError(f"{name}={value!r} is not a whole number")
    return int(value)
