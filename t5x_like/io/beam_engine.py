"""Runs independent tasks on a runner of Apache Beam (https://beam.apache.org)."""

import contextlib
import pickle
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from t5x_like.io.engine import Function, RunWork


class BeamEngine:
    """A runner of Apache Beam, as an engine."""

    def __init__(self, runner: str, options: Sequence[str] = ()) -> None:
        """Import Beam and look the runner up.

        Args:
          runner: Name of a Beam runner, such as "DataflowRunner".
          options: Further options of the pipeline, such as "--region=europe-west4".

        Raises:
          ValueError: Beam is not installed, or has no such runner.
        """
        try:
            import apache_beam  # pyright: ignore[reportMissingImports]
            from apache_beam.options.pipeline_options import (  # pyright: ignore[reportMissingImports]
                PipelineOptions,
            )
            from apache_beam.runners.runner import create_runner  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise ValueError(
                f"runner={runner} needs Apache Beam ({error}); pip install 't5x-like[beam]', give runner=ray, or leave "
                "runner out to use this machine's processes"
            ) from error
        try:
            create_runner(runner)
        except (ValueError, ImportError) as error:  # unknown, or a library is missing
            raise ValueError(f"runner={runner}: {error}") from None
        self._beam = apache_beam
        self._options = PipelineOptions([f"--runner={runner}", *options])

    @contextlib.contextmanager
    def start(
        self,
        function: Function,
        *,
        num_pieces: int,  # noqa: ARG002
        on_report: Callable[[Any], None] | None = None,  # noqa: ARG002
    ) -> Iterator[RunWork]:
        """See ``Engine.start``. Pieces are yielded when all are finished, and reports are lost."""
        beam = self._beam

        def run(work: Sequence[Any]) -> Generator[Any]:
            pickled = [pickle.dumps((function, piece)) for piece in work]
            with beam.Pipeline(options=self._options) as pipeline:
                # Reshuffled, so that no runner fuses the pieces into work for one machine.
                _ = pipeline | beam.Create(pickled) | beam.Reshuffle() | beam.Map(_run_pickled)
            yield from work

        yield run


def _run_pickled(work: bytes) -> None:
    function, piece = pickle.loads(work)
    function(piece)
