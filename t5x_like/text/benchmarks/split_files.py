"""Search for a benchmark's files: in the data folder, or as TensorFlow Datasets (TFDS) prepared them."""

import contextlib
import os
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from t5x_like.io.files import as_path
from t5x_like.io.paths import files_below
from t5x_like.text.benchmarks.hugging_face_files import hugging_face_layouts
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout, Reader
from t5x_like.text.benchmarks.tfds_files import read_tfds, tfds_folders

DATA_DIR = "T5X_LIKE_DATA"


class SplitMatch(NamedTuple):
    """Files of a split, the name of their layout, and their reader."""

    files: tuple[str, ...]
    layout: str
    read: Reader


def data_directory(data_dir: str | None = None) -> str:
    """Return the given folder, $T5X_LIKE_DATA, or ``data`` in the current folder."""
    return data_dir or os.environ.get(DATA_DIR) or "data"


def find_split(source: BenchmarkSource, split: str, data_dir: str) -> SplitMatch | None:
    """Find the files of a split in the first layout that matches; ``None`` if there are none.

    Args:
      source: Source of the benchmark.
      split: Name of the split.
      data_dir: Data folder.
    """
    for layout in (*source.layouts, *hugging_face_layouts(source)):
        files = _matching(layout, split, data_dir)
        if files:
            return SplitMatch(files, layout.name, layout.read)
    return _prepared(source, split, data_dir)


def _matching(layout: FileLayout, split: str, data_dir: str) -> tuple[str, ...]:
    for pattern in layout.files.get(split, ()):
        files = tuple(files_below(data_dir, pattern))
        if files:
            return files
    return ()


def _prepared(source: BenchmarkSource, split: str, data_dir: str) -> SplitMatch | None:
    for folder in tfds_folders(source.tfds, data_dir):
        files = tuple(files_below(folder, f"*-{split}.tfrecord*"))
        if files:
            return SplitMatch(files, "TensorFlow Datasets", read_tfds)
    return None


class SplitFiles(Mapping[str, tuple[str, ...]]):
    """Lazy mapping from splits to their files: a task can be defined before its data exist."""

    def __init__(self, source: BenchmarkSource, splits: Sequence[str], data_dir: str | None) -> None:
        self.source, self.splits, self.data_dir = source, tuple(splits), data_dir
        self._readers: dict[str, tuple[Reader, str]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self.splits)

    def __len__(self) -> int:
        return len(self.splits)

    def __contains__(self, split: object) -> bool:
        return split in self.splits

    def __getitem__(self, split: str) -> tuple[str, ...]:
        """Return the files of a split.

        Raises:
          ValueError: There are none; the message says which to fetch and where to put them.
          KeyError: There is no such split.
        """
        return self.find(split).files

    def find(self, split: str) -> SplitMatch:
        """Return the files of a split with their reader; raises as ``[split]``."""
        if split not in self.splits:
            raise KeyError(split)
        folder = data_directory(self.data_dir)
        split_files = find_split(self.source, split, folder)
        if split_files is None:
            raise ValueError(missing_files_message(self.source, split, folder))
        self._readers |= dict.fromkeys(split_files.files, (split_files.read, split))
        return split_files

    def reader_of(self, file: str) -> tuple[Reader, str]:
        """Return the reader and split of a file; one that was found before needs no other search.

        Raises:
          ValueError: No split has the file.
        """
        for split in self.splits:
            if file in self._readers:
                break
            with contextlib.suppress(ValueError):  # other splits need not be there
                self.find(split)
        if file not in self._readers:
            raise ValueError(f"no split of {self.source.tfds or self.source.home} has the file {file}")
        return self._readers[file]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SplitFiles) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        return self.source.tfds, self.source.home, self.splits, self.data_dir


def missing_files_message(source: BenchmarkSource, split: str, folder: str) -> str:
    """Return the message for a user without the files of a split.

    Args:
      source: Source of the benchmark.
      split: Name of the split.
      folder: Data folder.
    """
    wanted = wanted_files(source, split)
    remedy = f"put {' or '.join(wanted)} into {folder}" if wanted else f"prepare it in {folder}"
    if packed := packed_files(source, split, folder):
        remedy = (
            f"unpack {packed[0]}, which is there, so that {' or '.join(wanted)} is in {folder}; or {remedy}"
        )
    return (
        f"no files of the split {split!r} below {folder!r}: {remedy}, {' or '.join(origins(source))}; DATA_DIR "
        f"in a recipe, data_dir=DIR, or ${DATA_DIR} names another folder; t5x-like data status "
        "shows what is there"
    )


def wanted_files(source: BenchmarkSource, split: str) -> list[str]:
    """Return the first file name of each layout for a split, relative to the data folder.

    Args:
      source: Source of the rows.
      split: Name of the split.
    """
    return [pattern for layout in source.layouts for pattern in layout.files.get(split, ())[:1]]


def packed_files(source: BenchmarkSource, split: str, folder: str) -> list[str]:
    """Return archives in the data folder that contain the split's files but were not unpacked.

    Args:
      source: Source of the rows.
      split: Name of the split.
      folder: Data folder.
    """
    wanted = wanted_files(source, split)
    archives = {urllib.parse.urlparse(each.url).path.rpartition("/")[2] for each in source.downloads}
    names = [f"{file}{ending}" for file in wanted for ending in (".gz", ".zip", ".zst")]
    for archive in sorted(name for name in archives if name.endswith((".zip", ".gz", ".tgz", ".tar"))):
        names += [archive, *(f"{parent}/{archive}" for file in wanted for parent in _parents(file))]
    paths = (f"{folder}/{name}" for name in dict.fromkeys(names))
    return [path for path in paths if "*" not in path and as_path(path).is_file()]


def _parents(file: str) -> list[str]:
    parts = file.split("/")[:-1]
    return ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]


def origins(source: BenchmarkSource) -> list[str]:
    """Return phrases that say where the files come from."""
    urls = [each.url for each in source.downloads]
    published = [f"from {', '.join(urls)}"] if urls else [f"see {source.home}"] if source.home else []
    return [*published, *([f"let TensorFlow Datasets prepare {source.tfds}"] if source.tfds else [])]
