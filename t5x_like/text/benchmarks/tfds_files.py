"""Rows that TensorFlow Datasets (TFDS) has prepared, read from its files."""

import functools
import os
from collections.abc import Iterator
from typing import Any

from t5x_like.io.paths import files_below
from t5x_like.nested_values import rebuilt
from t5x_like.text.seqio_extra import import_of_extra
from t5x_like.text.tasks.rows import BadRow, RawRow


def tfds_folders(name: str, data_dir: str) -> list[str]:
    """Return folders in which ``glue/cola:2.0.0`` may be prepared: that version, then others, newest first.

    Args:
      name: TFDS's name, configuration and version; no folders for an empty name.
      data_dir: Data folder, searched before TFDS's own.
    """
    if not name:
        return []
    dataset, _, version = name.partition(":")
    roots = [data_dir, os.environ.get("TFDS_DATA_DIR") or os.path.expanduser("~/tensorflow_datasets")]
    folders: list[str] = []
    for root in roots:
        prepared = sorted(os.path.basename(path) for path in files_below(root, f"{dataset}/*.*.*"))[::-1]
        prepared.sort(key=lambda prepared_version: prepared_version != version)
        folders += [f"{root}/{dataset}/{prepared_version}" for prepared_version in prepared]
    return folders


def read_tfds(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read the rows of one of TFDS's files.

    Args:
      file: Path of the file.
      split: Unused; the file has one split.

    Raises:
      ValueError: TensorFlow isn't installed.
    """
    del split
    import_of_extra("tensorflow", needed_by=f"{file}: a file that TensorFlow Datasets prepared")
    import tensorflow as tf

    features = _features_of(os.path.dirname(file))
    for number, record in enumerate(tf.data.TFRecordDataset(file).as_numpy_iterator(), start=1):
        yield RawRow(python_value(features.deserialize_example_np(record)), f"{file}:row {number}")


@functools.lru_cache(maxsize=16)
def _features_of(folder: str) -> Any:
    import tensorflow_datasets as tfds

    return tfds.features.FeatureConnector.from_config(folder)


def python_value(value: Any) -> Any:
    """Convert NumPy values to Python's, bytes to text."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if hasattr(value, "to_list"):  # a ragged tensor's value
        return python_value(value.to_list())
    if hasattr(value, "tolist"):
        return python_value(value.tolist())
    return rebuilt(python_value, value)
