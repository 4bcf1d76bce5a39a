"""Caches made on a cluster by Apache Beam (https://beam.apache.org): each machine writes whole shards."""

from collections.abc import Sequence

from t5x_like.io.beam_runner import on_runner
from t5x_like.text.cache.shards import CacheShard, finished_shard
from t5x_like.text.cache.writing import RunUnits, Unit


def on_beam(runner: str, options: Sequence[str] = ()) -> RunUnits:
    """Runs units by a runner of Beam's; every machine must reach the output folder and the source.

    Raises:
      ValueError: Beam is not installed.
    """
    run_all = on_runner(runner, options)

    def run(units: Sequence[Unit], directory: str) -> list[CacheShard]:
        run_all(_write, [(unit, directory) for unit in units])
        return [_written(unit, directory) for unit in units]

    return run


def _write(work: tuple[Unit, str]) -> None:
    unit, directory = work
    unit(directory)


def _written(unit: Unit, directory: str) -> CacheShard:
    shard = finished_shard(directory, unit.number, unit.features, read_all=False)
    if shard is None:
        raise ValueError(
            f"shard {unit.number} of {directory} is not there after the pipeline's end; every machine must reach that "
            "folder: give --output a bucket or a shared disk"
        )
    return shard
