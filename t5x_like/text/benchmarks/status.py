"""State of a benchmark's data: available rows by split, compared with the published numbers."""

import functools
from dataclasses import dataclass

from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.split_files import data_directory, find_split, packed_files, wanted_files
from t5x_like.text.tasks.rows import RowPolicy


@dataclass(frozen=True, kw_only=True)
class SplitStatus:
    """State of one split.

    Attributes:
      split: Name of the split.
      published: Published number of rows; 0 if it is unknown.
      num_rows: Number of good rows.
      num_bad: Number of bad rows.
      fault: Fault of the first bad row; without bad rows, the error that ended reading.
      files: Files of the split.
      layout: Name of their layout.
      wanted: Names of the missing files.
      packed: Archives that were not unpacked.
    """

    split: str
    published: int
    num_rows: int = 0
    num_bad: int = 0
    fault: str = ""
    files: tuple[str, ...] = ()
    layout: str = ""
    wanted: tuple[str, ...] = ()
    packed: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """True if the number of rows is the published one."""
        return bool(self.files) and not self.fault and self.num_rows == self.published


def select_benchmarks(names: tuple[str, ...] | list[str]) -> list[str]:
    """Return benchmarks by their names, or a mixture's or family's (``glue``); all by default.

    Raises:
      ValueError: There is no such name.
    """
    selected: list[str] = []
    for name in names or catalogue.MODULES:
        if name in catalogue.MODULES:
            selected += [each.name for each in catalogue.family(name)]
        elif name in catalogue.mixtures():
            selected += catalogue.mixtures()[name].tasks
        else:
            selected.append(catalogue.benchmark(name).name)
    return list(dict.fromkeys(selected))


def status_of(name: str, data_dir: str | None = None) -> list[SplitStatus]:
    """Return the state of each split of a benchmark. Reads all files.

    Args:
      name: Name of the benchmark.
      data_dir: Data folder; None for the default.
    """
    return [_status(name, split, data_directory(data_dir)) for split in catalogue.benchmark(name).splits]


def _status(name: str, split: str, folder: str) -> SplitStatus:
    source = catalogue.benchmark(name).source
    split_files = find_split(source, split, folder)
    if split_files is None:
        return SplitStatus(
            split=split,
            published=source.rows[split],
            wanted=tuple(wanted_files(source, split)),
            packed=tuple(packed_files(source, split, folder)),
        )
    num_rows, num_bad, fault = _count(source.tfds or name, name, split, folder, split_files.files)
    return SplitStatus(
        split=split,
        published=source.rows[split],
        num_rows=num_rows,
        num_bad=num_bad,
        fault=fault,
        files=split_files.files,
        layout=split_files.layout,
    )


@functools.lru_cache(maxsize=256)
def _count(key: str, name: str, split: str, folder: str, files: tuple[str, ...]) -> tuple[int, int, str]:
    """Count good and bad rows, and return the first fault. Tasks of one source (``key``) are counted once."""
    del key, files
    task = catalogue.benchmark_task(name=name, vocabulary="bytes", data_dir=folder, on_bad_row="skip")
    policy = RowPolicy("skip")
    try:
        for _ in task.raw_rows(split, policy):
            pass
    except OSError as error:
        fault = f"{error.filename}: {(error.strerror or str(error)).lower()}"
        return policy.num_rows, 0, fault if error.filename is not None else str(error)
    except ValueError as error:
        return policy.num_rows, 0, str(error)
    return policy.num_rows, policy.num_skipped, next(iter(policy.first_skipped), "")
