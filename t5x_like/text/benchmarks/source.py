"""Where a benchmark's rows come from: its official files, Hugging Face's, TensorFlow Datasets' (TFDS).

Whichever it is, rows come in TFDS's feature schema: Python values, labels as numbers, -1 where unlabelled.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from t5x_like.text.tasks.rows import BadRow, RawRow

Kind = Literal["int", "float", "text", "texts", "ints"]
Columns = Mapping[
    str, Kind | Mapping[str, Kind]
]  # {"sentence": "text", "idx": {"passage": "int", "query": "int"}}


# Reads one file of a split. What is wrong with a row comes as BadRow; what is wrong with a file raises ValueError.
Reader = Callable[[str, str], Iterator[RawRow | BadRow]]


@dataclass(frozen=True, kw_only=True)
class Download:
    """One file to fetch, and what is inside.

    ``unpack`` names where each of a zip's files goes, relative to the data folder; ``{"": "glue/"}`` takes all of them,
    with the folders they are in. A plain file goes to its one value.
    """

    url: str
    unpack: Mapping[str, str]
    sha256: str | None = None  # as TensorFlow Datasets 4.9 has it, where it does
    num_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class FileLayout:
    """One way in which files lie below the data folder.

    ``files`` has for each split the patterns that name its files, the first that finds some is taken:
    ``{"train": ("glue/CoLA/train.tsv", "glue/CoLA/original/raw/in_domain_train.tsv")}``.
    """

    files: Mapping[str, tuple[str, ...]]
    read: Reader
    name: str = "official files"


def files_in(
    folders: Sequence[str], names: Mapping[str, str | tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Return patterns for files of these names by split, in any of these folders.

    >>> files_in(("glue", ""), {"train": "train.tsv"})
    {'train': ('glue/train.tsv', 'train.tsv')}
    """
    spelled = {split: (name,) if isinstance(name, str) else name for split, name in names.items()}
    return {
        split: tuple(f"{folder}/{name}" if folder else name for folder in folders for name in each)
        for split, each in spelled.items()
    }


@dataclass(frozen=True, kw_only=True)
class BenchmarkSource:
    """The rows of a benchmark, of which several tasks may be made.

    Looked for in the order of ``layouts``; then as TFDS has prepared them (``tfds``: name, configuration and version,
    empty where it has none). ``rows`` are the published numbers of rows, by split; mixtures are proportioned by them.
    """

    tfds: str = ""
    hugging_face: str = ""  # the folder of its parquet or Arrow files, where it is not TFDS's name
    layouts: tuple[FileLayout, ...] = ()
    rows: Mapping[str, int]
    downloads: tuple[Download, ...] = ()
    home: str = ""  # the page of the benchmark
    citation: str = ""
    license: str = ""
    columns: Columns  # of a row, and what each holds

    @property
    def splits(self) -> tuple[str, ...]:
        """Name as TFDS has them."""
        return tuple(self.rows)
