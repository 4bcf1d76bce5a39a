"""The engines by name: processes of this machine, a Ray cluster, a runner of Apache Beam."""

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from t5x_like.io.beam_engine import BeamEngine
from t5x_like.io.engine import Engine, Function, RunWork
from t5x_like.io.ray_engine import RayEngine
from t5x_like.io.worker_pool import WorkerPool


@dataclass(frozen=True, kw_only=True)
class ProcessEngine:
    """Processes of this machine.

    Attributes:
      num_processes: Number of processes; 1 works in this process.
      owner: Name of their owner, for messages.
      flag: Setting to lower when memory runs out, for messages.
      kept: Name of finished work that a killed process doesn't lose, for messages.
      prepare: Picklable function called first in each process.
    """

    num_processes: int
    owner: str
    flag: str
    kept: str
    prepare: Callable[[], object] | None = None

    @contextlib.contextmanager
    def start(
        self, function: Function, *, num_pieces: int, on_report: Callable[[Any], None] | None = None
    ) -> Iterator[RunWork]:
        """See ``Engine.start``. Values that the function reports come while it runs."""
        needed = min(self.num_processes, num_pieces)
        with WorkerPool(
            function,
            needed if needed > 1 else 0,
            owner=self.owner,
            flag=self.flag,
            kept=self.kept,
            prepare=self.prepare,
            on_report=on_report,
        ) as pool:

            def run(work: Sequence[Any]) -> Generator[Any]:
                with contextlib.closing(pool.as_done(work)) as ended:
                    yield from (piece for piece, _ in ended)

            yield run


def cluster_engine(
    runner: str, *, ray_address: str | None = None, beam_options: Sequence[str] = ()
) -> Engine:
    """Return the engine of a cluster.

    Args:
      runner: ``ray``, or the name of a Beam runner, such as "DataflowRunner".
      ray_address: Address of the Ray cluster; None is that of the environment, or a cluster on this machine.
      beam_options: Further options of Beam's pipeline.

    Raises:
      ValueError: The engine's library isn't installed, or an option is another engine's.
    """
    if runner == "ray":
        if beam_options:
            raise ValueError("beam_option is for runners of Apache Beam; leave it out with runner=ray")
        return RayEngine(ray_address)
    if ray_address is not None:
        raise ValueError(f"ray_address is for runner=ray; leave it out with runner={runner}")
    return BeamEngine(runner, beam_options)
