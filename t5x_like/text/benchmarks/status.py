"""What is there of a benchmark's data: rows by split, beside the numbers that are published."""

import functools
from dataclasses import dataclass

from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.split_files import data_directory, find_split, packed_files, wanted_files
from t5x_like.text.tasks.rows import RowPolicy


@dataclass(frozen=True, kw_only=True)
class SplitStatus:
    """One split: its files, and how many rows they hold; without files, the names that ``wanted`` ones have."""

    split: str
    published: int
    num_rows: int = 0
    num_bad: int = 0
    fault: str = ""  # of the first bad row; without bad rows, what ends reading
    files: tuple[str, ...] = ()
    layout: str = ""
    wanted: tuple[str, ...] = ()
    packed: tuple[str, ...] = ()  # archives that are there, and were not unpacked

    @property
    def is_whole(self) -> bool:
        """Whether as many rows are there as are published."""
        return bool(self.files) and not self.fault and self.num_rows == self.published


def chosen(names: tuple[str, ...] | list[str]) -> list[str]:
    """Benchmarks by their names, a mixture's or a family's (``glue``), all where none is named.

    Raises:
      ValueError: no such name.
    """
    found: list[str] = []
    for name in names or catalogue.MODULES:
        if name in catalogue.MODULES:
            found += [each.name for each in catalogue.family(name)]
        elif name in catalogue.mixtures():
            found += catalogue.mixtures()[name].tasks
        else:
            found.append(catalogue.benchmark(name).name)
    return list(dict.fromkeys(found))


def status_of(name: str, data_dir: str | None = None) -> list[SplitStatus]:
    """What is there of each split of a benchmark. Reads all files."""
    return [_status(name, split, data_directory(data_dir)) for split in catalogue.benchmark(name).splits]


def _status(name: str, split: str, folder: str) -> SplitStatus:
    source = catalogue.benchmark(name).source
    found = find_split(source, split, folder)
    if found is None:
        return SplitStatus(
            split=split,
            published=source.rows[split],
            wanted=tuple(wanted_files(source, split)),
            packed=tuple(packed_files(source, split, folder)),
        )
    num_rows, num_bad, fault = _count(source.tfds or name, name, split, folder, found.files)
    return SplitStatus(
        split=split,
        published=source.rows[split],
        num_rows=num_rows,
        num_bad=num_bad,
        fault=fault,
        files=found.files,
        layout=found.layout,
    )


@functools.lru_cache(maxsize=256)
def _count(key: str, name: str, split: str, folder: str, files: tuple[str, ...]) -> tuple[int, int, str]:
    """Good rows, bad ones, and what is wrong. Tasks of one source (``key``) are counted once."""
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
