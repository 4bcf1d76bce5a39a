"""Runs independent tasks on a Ray cluster (https://docs.ray.io): its queue, its retries, and copies of slow tasks.

Nodes need the packages of this process, and reach the same files. Ray replaces workers and nodes that end. A node whose
disk is full gets no further tasks. A task that takes much longer than others is started once more.
"""

import contextlib
import errno
import logging
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from t5x_like.io.engine import Function, RunWork
from t5x_like.io.extra_libraries import extra_library
from t5x_like.io.worker_pool import WorkerError, sendable_error
from t5x_like.version import __version__

_RETRIES = 3  # of a task whose worker or node ended
_WAIT_SECONDS = 1.0
_NO_NODE_SECONDS = 600.0  # as long as a cluster may take to get its first node
# A task is slow after this time, and after this multiple of the longest that has finished.
_SLOW_SECONDS, _SLOW_FACTOR = 60.0, 3.0

_log = logging.getLogger(__name__)


class RayEngine:
    """A Ray cluster, as an engine."""

    def __init__(self, address: str | None = None) -> None:
        """Import Ray.

        Args:
          address: ``host:port`` of the cluster; None is ``RAY_ADDRESS``, else a cluster that is started here.

        Raises:
          ValueError: Ray isn't installed.
        """
        self._ray: Any = extra_library("ray", extra="ray", needed_by="runner=ray")
        self._address = address

    @contextlib.contextmanager
    def start(
        self,
        function: Function,
        *,
        num_pieces: int,  # noqa: ARG002
        on_report: Callable[[Any], None] | None = None,  # noqa: ARG002
    ) -> Iterator[RunWork]:
        """See ``Engine.start``. Reports are lost."""
        ray = self._ray
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # of a cluster that is started here
        where = self._address or os.environ.get("RAY_ADDRESS", "this machine")
        try:
            _check_listening(where)  # Ray itself would wait for minutes
            ray.init(
                self._address, ignore_reinit_error=True, logging_level=logging.WARNING, log_to_driver=False
            )
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            raise ValueError(f"runner=ray: no Ray cluster can be used at {where}: {error}") from error
        try:
            yield lambda work: _Stage(ray, function, work).run()
        finally:
            ray.shutdown()


def _check_listening(address: str) -> None:
    host, _, port = address.rpartition(":")
    if port.isdecimal() and "://" not in host:
        socket.create_connection((host, int(port)), timeout=10.0).close()


class _Stage:
    """Pieces of work that wait, and the attempts at those that run."""

    def __init__(self, ray: Any, function: Function, work: Sequence[Any]) -> None:
        self._ray, self._work = ray, work
        self._remote = ray.remote(_attempt)
        self._function = ray.put(function)
        self._waiting = deque(range(len(work)))
        self._attempts: dict[Any, tuple[int, float]] = {}  # by reference: piece, time of its start
        self._full_nodes: set[str] = set()
        self._longest: float | None = None
        self._last_seen = time.monotonic()  # of a node with a processor

    def run(self) -> Generator[Any]:
        """Yield the pieces as they are finished."""
        try:
            while self._waiting or self._attempts:
                self._submit()
                ready, _ = self._ray.wait(list(self._attempts), timeout=_WAIT_SECONDS)
                for attempt in ready:
                    if attempt in self._attempts:  # no copy of it was finished before
                        yield from self._finish(attempt)
        finally:
            self._cancel(list(self._attempts))

    def _submit(self) -> None:
        num_processors = int(self._ray.cluster_resources().get("CPU", 0))
        now = time.monotonic()
        self._last_seen = now if num_processors else self._last_seen
        if now - self._last_seen > _NO_NODE_SECONDS:
            raise WorkerError(_again(f"the Ray cluster has had no processor for {_NO_NODE_SECONDS:.0f} s"))
        # More than can run at once, so that a cluster that grows by demand sees the demand.
        while self._waiting and len(self._attempts) < 2 * num_processors + 1:
            self._start(self._waiting.popleft())
        if self._longest is not None and len(self._attempts) < num_processors:
            limit = max(_SLOW_SECONDS, _SLOW_FACTOR * self._longest)
            pieces = [piece for piece, _ in self._attempts.values()]
            slow = [piece for piece, start in self._attempts.values() if now - start > limit]
            for piece in slow[: num_processors - len(self._attempts)]:
                if pieces.count(piece) == 1:
                    self._start(piece)

    def _start(self, piece: int) -> None:
        options: dict[str, Any] = {"max_retries": _RETRIES, "scheduling_strategy": "SPREAD"}
        if self._full_nodes:
            options["label_selector"] = {"ray.io/node-id": f"!in({','.join(sorted(self._full_nodes))})"}
        remote = self._remote.options(**options)
        self._attempts[remote.remote(__version__, self._function, self._work[piece])] = (
            piece,
            time.monotonic(),
        )

    def _finish(self, attempt: Any) -> Iterator[Any]:
        piece, _ = self._attempts.pop(attempt)
        try:
            node, seconds, error, is_full = self._ray.get(attempt)
        except self._ray.exceptions.RayError as failure:
            reason = str(failure).strip().splitlines()[0]
            raise WorkerError(_again(f"a worker of the Ray cluster ended: {reason}")) from failure
        if error is None:
            self._longest = max(self._longest or 0.0, seconds)
            self._cancel([other for other, (its_piece, _) in self._attempts.items() if its_piece == piece])
            yield self._work[piece]
        elif is_full and self._others(node):
            if node not in self._full_nodes:
                _log.warning("Ray node %s: %s. Its tasks go to other nodes.", node, error)
            self._full_nodes.add(node)
            if all(piece != its_piece for its_piece, _ in self._attempts.values()):
                self._waiting.appendleft(piece)
        else:
            raise error

    def _others(self, node: str) -> set[str]:
        """Return the nodes whose disks aren't known to be full."""
        nodes = {
            each["NodeID"] for each in self._ray.nodes() if each["Alive"] and each["Resources"].get("CPU")
        }
        return nodes - self._full_nodes - {node}

    def _cancel(self, attempts: Sequence[Any]) -> None:
        for attempt in attempts:
            self._attempts.pop(attempt)
            self._ray.cancel(attempt, force=True)
        if attempts:  # their files would otherwise appear later
            self._ray.wait(list(attempts), num_returns=len(attempts), timeout=10 * _WAIT_SECONDS)


def _attempt(version: str, function: Function, piece: Any) -> tuple[str, float, Exception | None, bool]:
    """Return the node's id, the seconds, the error, and whether the disk is full. Ray would hide an error's origin."""
    import ray  # pyright: ignore[reportMissingImports]

    node, start = ray.get_runtime_context().get_node_id(), time.monotonic()
    try:
        if version != __version__:
            raise ValueError(
                f"Ray node {node} has t5x-like {__version__}, the command {version}; install the same on all nodes"
            )
        function(piece)
    except Exception as error:
        return node, 0.0, sendable_error(error), _is_disk_full(error)
    return node, time.monotonic() - start, None, False


def _is_disk_full(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__ or error.__context__
    return False


def _again(reason: str) -> str:
    return f"{reason}; start the same command again: what is finished is kept"
