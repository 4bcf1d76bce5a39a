"""Runs independent tasks on a cluster by Apache Beam (https://beam.apache.org)."""

import pickle
from collections.abc import Callable, Sequence
from typing import Any

RunAll = Callable[[Callable[[Any], object], Sequence[Any]], None]


def on_runner(runner: str, options: Sequence[str] = ()) -> RunAll:
    """Return ``run(function, work)``, which calls ``function`` with each piece of ``work`` on a cluster and waits.

    Results are discarded: functions write files to a place that all machines can reach. A piece may be processed twice.

    Args:
      runner: Name of a Beam runner, such as "DataflowRunner".
      options: Further options of the pipeline, such as "--region=europe-west4".

    Raises:
      ValueError: Beam is not installed, or has no such runner.
    """
    try:
        import apache_beam as beam  # pyright: ignore[reportMissingImports]
        from apache_beam.options.pipeline_options import (  # pyright: ignore[reportMissingImports]
            PipelineOptions,
        )
        from apache_beam.runners.runner import create_runner  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ValueError(
            f"runner={runner} needs Apache Beam ({error}); pip install 't5x-like[beam]', or leave runner out to "
            "use this machine's processes"
        ) from error
    try:
        create_runner(runner)
    except (ValueError, ImportError) as error:  # unknown, or a library is missing
        raise ValueError(f"runner={runner}: {error}") from None

    def run(function: Callable[[Any], object], work: Sequence[Any]) -> None:
        pickled = [pickle.dumps((function, piece)) for piece in work]
        with beam.Pipeline(options=PipelineOptions([f"--runner={runner}", *options])) as pipeline:
            # Reshuffled, so that no runner fuses the pieces into work for one machine.
            _ = pipeline | beam.Create(pickled) | beam.Reshuffle() | beam.Map(_run_pickled)

    return run


def _run_pickled(work: bytes) -> None:
    function, piece = pickle.loads(work)
    function(piece)
