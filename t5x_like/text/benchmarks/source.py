"""Sources of a benchmark's rows: its official files, Hugging Face's, or those of TensorFlow Datasets (TFDS).

All give rows in TFDS's feature schema: Python values, labels as class ids, -1 for unlabeled rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from t5x_like.nested_values import one_or_several
from t5x_like.text.tasks.rows import BadRow, RawRow

Kind = Literal["int", "float", "text", "texts", "ints"]
# {"sentence": "text", "idx": {"passage": "int", "query": "int"}}
Columns = Mapping[str, Kind | Mapping[str, Kind]]

# Reads one file of a split: (file, split) -> rows. Bad rows are yielded as BadRow, bad files raise ValueError.
Reader = Callable[[str, str], Iterator[RawRow | BadRow]]


@dataclass(frozen=True, kw_only=True)
class Download:
    """One file to fetch.

    Attributes:
      url: Address of the file.
      unpack: Target of each file in an archive, relative to the data folder. ``{"": "glue/"}`` unpacks all of them with
        their folders; a plain file is moved to the one value.
      sha256: Checksum as in TensorFlow Datasets 4.9, if it has one.
      num_bytes: Size.
    """

    url: str
    unpack: Mapping[str, str]
    sha256: str | None = None
    num_bytes: int | None = None


def archive(
    url: str, folder: str, num_bytes: int | None = None, sha256: str | None = None
) -> tuple[Download, ...]:
    """Return the download of one archive that is unpacked into ``folder``.

    Args:
      url: Address of the archive.
      folder: Target folder with a slash at its end, relative to the data folder; empty for the data folder.
      num_bytes: Size, if published.
      sha256: Checksum, if published.
    """
    return (Download(url=url, unpack={"": folder}, num_bytes=num_bytes, sha256=sha256),)


def plain_files(
    server: str, folder: str, files: Mapping[str, tuple[int | None, str | None]]
) -> tuple[Download, ...]:
    """Return downloads of several files into one folder.

    Args:
      server: Address without the file's name.
      folder: Target folder.
      files: Size and SHA-256 by file name, if published.
    """
    return tuple(
        Download(url=f"{server}/{name}", unpack={"": f"{folder}/{name}"}, num_bytes=num_bytes, sha256=sha256)
        for name, (num_bytes, sha256) in files.items()
    )


@dataclass(frozen=True, kw_only=True)
class FileLayout:
    """One way in which files are laid out in the data folder.

    Attributes:
      files: Patterns by split; the first pattern with matches is used. For example ``{"train": ("glue/CoLA/train.tsv",
        "glue/CoLA/original/raw/in_domain_train.tsv")}``.
      read: Reader of the files.
      name: Name for people.
    """

    files: Mapping[str, tuple[str, ...]]
    read: Reader
    name: str = "official files"


def files_in(
    folders: Sequence[str], names: Mapping[str, str | tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Return patterns for files in any of several folders.

    >>> files_in(("glue", ""), {"train": "train.tsv"})
    {'train': ('glue/train.tsv', 'train.tsv')}

    Args:
      folders: Folders relative to the data folder.
      names: One or several file names or patterns by split.
    """
    return {
        split: tuple(
            f"{folder}/{name}" if folder else name for folder in folders for name in one_or_several(each)
        )
        for split, each in names.items()
    }


@dataclass(frozen=True, kw_only=True)
class BenchmarkSource:
    """Rows of a benchmark, on which several tasks may be based.

    Attributes:
      tfds: TFDS's name, configuration and version; empty if it doesn't have the rows.
      hugging_face: Folder of Hugging Face's files, if it differs from TFDS's name.
      layouts: Layouts, searched in this order before TFDS's prepared files.
      rows: Published number of rows by split, 0 if it is unknown; mixtures use them as rates.
      downloads: Files to fetch.
      home: The benchmark's web page.
      citation: Paper.
      license: License of the rows.
      columns: Columns of a row with their types.
    """

    tfds: str = ""
    hugging_face: str = ""
    layouts: tuple[FileLayout, ...] = ()
    rows: Mapping[str, int]
    downloads: tuple[Download, ...] = ()
    home: str = ""
    citation: str = ""
    license: str = ""
    columns: Columns

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits, as TFDS has them."""
        return tuple(self.rows)
