"""Checks that all processes of a run are there, once each, before JAX connects them.

JAX's own connection ends a process with a stack trace, and does not notice all of these mistakes.
"""

import contextlib
import json
import logging
import os
import socket
import time
from typing import NamedTuple

log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.5
_RETRY_WHERE_OTHERS_TRAIN_SECONDS = 5.0
_GREETING_SECONDS = 5.0  # a scanner of ports may connect and say nothing
_MAX_MESSAGE_BYTES = 1 << 20


class ProcessInfo(NamedTuple):
    """A process as it introduces itself: its number, how many it expects, its host and process id."""

    index: int
    num_processes: int
    host: str

    def __str__(self) -> str:
        return f"process {self.index} of {self.num_processes} ({self.host})"


class RendezvousResult(NamedTuple):
    """Answer of process 0 to all: what is wrong, or the host and process id of each process.

    Attributes:
      error: What is wrong; empty if nothing is.
      hosts: Host and process id of each process.
      is_missing: True if a process is missing, which may come to a later start.
    """

    error: str
    hosts: list[str]
    is_missing: bool = False


class MissingProcessError(ValueError):
    """A process didn't come in time. The same command may succeed later."""


def wait_for_all_processes(coordinator: str, num_processes: int, index: int, timeout: float) -> list[str]:
    """Wait until all processes have connected to process 0; returns the host and process id of each.

    Args:
      coordinator: ``host:port`` of process 0, which listens there until all have come.
      num_processes: Number of processes.
      index: Number of this one.
      timeout: Seconds to wait for the others.

    A process that died and was started again waits here until the others have ended, too, and come back.

    Raises:
      MissingProcessError: A process is missing. All processes that have connected raise the same.
      ValueError: A process has another's number, or expects another number of processes. All raise the same.
    """
    deadline = time.monotonic() + timeout
    me = ProcessInfo(index, num_processes, f"host {socket.gethostname()}, pid {os.getpid()}")
    meet_here = _receive_all if index == 0 else _introduce
    answer = meet_here(me, coordinator, timeout, deadline)
    if answer.error:
        raise (MissingProcessError if answer.is_missing else ValueError)(answer.error)
    return answer.hosts


def _receive_all(me: ProcessInfo, coordinator: str, timeout: float, deadline: float) -> RendezvousResult:
    processes, error, is_missing = {0: me}, "", False
    with contextlib.ExitStack() as opened:
        server = opened.enter_context(_listen(coordinator))
        connections = []
        while len(processes) < me.num_processes and not error:
            server.settimeout(max(deadline - time.monotonic(), 0.01))
            try:
                connection = opened.enter_context(server.accept()[0])
            except TimeoutError:
                error, is_missing = _missing(processes, coordinator, timeout), True
                break
            process = _greeting(connection)
            if process is not None:
                connections.append(connection)
                error = _error_of(process, processes)
                processes.setdefault(process.index, process)
        answer = RendezvousResult(error, [processes[index].host for index in sorted(processes)], is_missing)
        for connection in connections:
            with contextlib.suppress(OSError):  # one that has left gets no answer
                connection.sendall(json.dumps(answer).encode() + b"\n")
        return answer


def _introduce(me: ProcessInfo, coordinator: str, timeout: float, deadline: float) -> RendezvousResult:
    is_first = True
    while True:
        with _connect(me, coordinator, timeout, deadline) as connection:
            connection.settimeout(timeout + _GREETING_SECONDS)  # process 0 may have started later
            try:
                connection.sendall(json.dumps(me).encode() + b"\n")
                return RendezvousResult(*json.loads(_line(connection)))
            except (OSError, ValueError, TypeError) as error:
                said = (
                    f"{me} got no answer that it knows from {coordinator}: a run has begun there without it, or the "
                    "port is another program's"
                )
                if time.monotonic() + _RETRY_WHERE_OTHERS_TRAIN_SECONDS > deadline:
                    raise MissingProcessError(said) from error
        if is_first:
            log.warning("t5x-like: %s; it tries again for %.0f s", said, deadline - time.monotonic())
        is_first = False
        time.sleep(_RETRY_WHERE_OTHERS_TRAIN_SECONDS)


def _connect(me: ProcessInfo, coordinator: str, timeout: float, deadline: float) -> socket.socket:
    host, _, port = coordinator.rpartition(":")
    while True:
        try:
            return socket.create_connection((host.strip("[]"), int(port)), timeout=_GREETING_SECONDS)
        except OSError as error:
            if time.monotonic() + _RETRY_SECONDS > deadline:
                raise MissingProcessError(
                    f"{me} could not reach process 0 at {coordinator} for {timeout:.0f} s ({error}); start process 0, "
                    "or correct the address"
                ) from error
            time.sleep(_RETRY_SECONDS)


def _listen(coordinator: str) -> socket.socket:
    port = int(coordinator.rpartition(":")[2])
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        return socket.create_server(("", port), family=family, dualstack_ipv6=both)
    except OSError as error:
        raise ValueError(
            f"process 0 can't listen at {coordinator}: {error.strerror}; another process has number 0, or choose "
            "another port"
        ) from error


def _greeting(connection: socket.socket) -> ProcessInfo | None:
    """Return who has connected; ``None`` if it is none of ours."""
    connection.settimeout(_GREETING_SECONDS)
    try:
        index, num_processes, host = json.loads(_line(connection))
        return ProcessInfo(int(index), int(num_processes), str(host))
    except (OSError, ValueError, TypeError):
        return None


def _line(connection: socket.socket) -> bytes:
    received = b""
    while not received.endswith(b"\n") and len(received) < _MAX_MESSAGE_BYTES:
        more = connection.recv(4096)
        if not more:
            break
        received += more
    return received


def _error_of(process: ProcessInfo, processes: dict[int, ProcessInfo]) -> str:
    if process.num_processes != processes[0].num_processes:
        return f"{process} doesn't fit {processes[0]}; give all the same number of processes"
    if process.index in processes:
        return f"two processes have one number: {processes[process.index]} and {process}; give each its own"
    return ""


def _missing(processes: dict[int, ProcessInfo], coordinator: str, timeout: float) -> str:
    count = processes[0].num_processes
    missing = [str(index) for index in range(count) if index not in processes]
    return (
        f"process{'es' * (len(missing) > 1)} {', '.join(missing)} of {count} did not connect to {coordinator} "
        f"within {timeout:.0f} s; start all of them, or correct their numbers"
    )
