"""Rows of Hugging Face's files: parquet, as on its hub, and Arrow, as ``save_to_disk`` writes them."""

from collections.abc import Iterator

from t5x_like.io.files import as_path
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout
from t5x_like.text.tasks.row_files import table_batches
from t5x_like.text.tasks.rows import BadRow, RawRow


def hugging_face_layouts(source: BenchmarkSource) -> tuple[FileLayout, ...]:
    """Return the layout of Hugging Face's files, under a source's name.

    Files are ``<name>/train-00000-of-00001.parquet`` and ``<name>/train/data-00000-of-00001.arrow``. The name is
    TFDS's, such as ``glue/cola``; both have the same columns.
    """
    name = source.hugging_face or source.tfds.partition(":")[0]
    if not name:
        return ()
    files = {split: hub_patterns(name, split) for split in source.splits}

    def read(file: str, split: str) -> Iterator[RawRow | BadRow]:
        for row in read_columns(file):
            if split.startswith("test") and "label" in source.columns and row.values.get("label") is None:
                row = row._replace(values={**row.values, "label": -1})
            yield row

    return (FileLayout(files=files, read=read, name="Hugging Face files"),)


def hub_patterns(folder: str, split: str) -> tuple[str, ...]:
    """Return patterns of a split's files: as the hub, ``save_to_disk`` and its cache name them.

    Args:
      folder: Folder of the data set.
      split: Name of the split.
    """
    return (
        f"{folder}/{split}-*.parquet",
        f"{folder}/{split}.parquet",
        f"{folder}/{split}/*.parquet",
        f"{folder}/plain_text/{split}-*.parquet",
        f"{folder}/{split}/*.arrow",
        f"{folder}/*/*/*-{split}.arrow",
    )


def read_columns(file: str) -> Iterator[RawRow]:
    """Read the rows of a parquet or Arrow file.

    Raises:
      ValueError: It is another kind of file, or damaged.
    """
    import pyarrow

    with as_path(file).open("rb") as stream:
        try:
            row_number = 0
            for batch in table_batches(stream, is_parquet=file.endswith(".parquet")):
                for values in batch.to_pylist():
                    row_number += 1
                    yield RawRow(values, f"{file}:row {row_number}")
        # pyarrow raises OSError for cut or damaged files.
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{file} is not a parquet or Arrow file, or is damaged: {error}") from error
