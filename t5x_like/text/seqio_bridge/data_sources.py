"""seqio data sources over the files of our tasks."""

import logging
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import seqio
import tensorflow as tf

from t5x_like.index_checks import check_indices
from t5x_like.text.batches.task_description import num_rows
from t5x_like.text.benchmarks.source import Columns
from t5x_like.text.benchmarks.task import BenchmarkTask
from t5x_like.text.fields import Feature
from t5x_like.text.tasks.file_task import FileTask
from t5x_like.text.templates import RowValues

_log = logging.getLogger(__name__)
_AT_ONCE = 256  # texts given to the tokenizer together
_SHAPES = {"texts": [None], "ints": [None]}
_TYPES = {"int": tf.int64, "ints": tf.int64, "float": tf.float32, "text": tf.string, "texts": tf.string}
_NAMES = {"tokens": "targets"}  # seqio's names


class PlainFiles(seqio.DataSource):
    """Examples of one of our tasks, in the order of its files."""

    def __init__(self, task: FileTask[Any], keys: tuple[str, ...]) -> None:
        super().__init__(splits=task.splits)
        self.task = task
        self._keys = keys
        self._counts: dict[str, int | None] = {}

    @property
    def supports_arbitrary_sharding(self) -> bool:
        """False: seqio shards the examples."""
        return False

    def list_shards(self, split: str) -> list[str]:
        """Return a single shard, the split."""
        return [split]

    def num_input_examples(self, split: str) -> int | None:
        """Count the good rows of the split, once; see ``num_rows``."""
        if split not in self._counts:
            policy = self.task.row_policy()
            self._counts[split] = num_rows(self.task, split, policy)
            if policy.num_skipped:
                _log.warning("task %s, split %s: %s", self.task.name, split, policy)
        return self._counts[split]

    def get_dataset(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        split: str = "train",
        shuffle: bool = True,
        seed: int | None = None,
        shard_info: object = None,
        **_: object,
    ) -> tf.data.Dataset:
        """Return the split's examples. They are never shuffled here: seqio shuffles after preprocessing.

        Args:
          split: Name of the split.
          shuffle: Unused.
          seed: Unused.
          shard_info: Unused; every process reads all rows.
          **_: Unused.
        """
        del shuffle, seed, shard_info
        return tf.data.Dataset.from_generator(
            lambda: self._examples(split), output_signature=self._signature()
        )

    def _examples(self, split: str) -> Iterator[dict[str, object]]:
        for example in self.task.read(split):
            yield {key: getattr(example, key) for key in self._keys}

    def _signature(self) -> dict[str, Any]:
        return {key: tf.TensorSpec([], tf.string) for key in self._keys}  # pyright: ignore[reportArgumentType]


class TokenizedFiles(PlainFiles):
    """Token ids of documents or conversations (``targets``) with further features: sentence ends, answers and more."""

    def __init__(self, task: FileTask[Any]) -> None:
        super().__init__(task, ())

    def _examples(self, split: str) -> Iterator[dict[str, object]]:
        shapes = {each.name: (-1, *_width(each)) for each in self.task.features()}
        documents = iter(self.task.read(split))
        while chunk := list(islice(documents, _AT_ONCE)):
            for features in self.task.tokenize(chunk):
                yield {
                    _NAMES.get(name, name): np.reshape(features[name], shape).astype(np.int32)
                    for name, shape in shapes.items()
                }

    def _signature(self) -> dict[str, Any]:
        return {
            _NAMES.get(each.name, each.name): tf.TensorSpec([None, *_width(each)], tf.int32)  # pyright: ignore[reportArgumentType]
            for each in self.task.features()
        }


def _width(feature: Feature) -> tuple[int, ...]:
    return () if feature.width is None else (feature.width,)


class BenchmarkRows(PlainFiles):
    """Rows of a benchmark before formatting."""

    task: BenchmarkTask

    def __init__(self, task: BenchmarkTask) -> None:
        super().__init__(task, ())

    def get_dataset(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, split: str = "train", **settings: Any
    ) -> tf.data.Dataset:
        """Return the split's examples.

        Args:
          split: Name of the split.
          **settings: Arguments of ``PlainFiles.get_dataset``.

        Raises:
          ValueError: Files are missing. Raised here, because TensorFlow would hide it in a long message.
        """
        self.task.files[split]
        return super().get_dataset(split, **settings)

    def _examples(self, split: str) -> Iterator[dict[str, object]]:
        columns = self.task.benchmark.source.columns
        for row in self.task.raw_rows(split):
            yield _only(row.values, columns)

    def _signature(self) -> dict[str, Any]:
        return signature_of(self.task.benchmark.source.columns)


def numpy_examples(dataset: tf.data.Dataset) -> Iterator[dict[str, Any]]:
    """Yield the examples of a dataset as NumPy arrays.

    Raises:
      ValueError: A reader found a bad row; raised again without TensorFlow's long message.
    """
    try:
        yield from dataset.as_numpy_iterator()  # pyright: ignore[reportReturnType] - typed as arrays
    except tf.errors.OpError as error:
        message = str(error).partition("ValueError: ")[2].partition("\n")[0]
        if not message:
            raise
        raise ValueError(message) from None


def token_examples(task: seqio.Task, dataset: tf.data.Dataset) -> Iterator[dict[str, Any]]:
    """Yield the examples of a task's dataset as NumPy arrays, with its token ids checked.

    Args:
      task: The task, whose features say how many ids their vocabularies have.
      dataset: Its examples.

    Raises:
      ValueError: An id of the inputs or targets is not in their vocabulary, or a reader found a bad row.
    """
    sizes = {
        name: feature.vocabulary.vocab_size
        for name, feature in task.output_features.items()
        if name in ("inputs", "targets") and feature.dtype.is_integer
    }
    for number, example in enumerate(numpy_examples(dataset), start=1):
        for name, size in sizes.items():
            if name in example:
                check_indices(
                    example[name],
                    f"task {task.name!r}: feature {name!r} of example {number}",
                    size,
                    wanted="its vocabulary has the ids",
                    advice="Its steps, or the files they read, were made for another vocabulary",
                )
        yield example


def signature_of(columns: Columns) -> dict[str, Any]:
    """Return TensorFlow's types of columns."""
    return {
        name: signature_of(kind)
        if isinstance(kind, Mapping)
        else tf.TensorSpec(_SHAPES.get(kind, []), _TYPES[kind])  # pyright: ignore[reportArgumentType]
        for name, kind in columns.items()
    }


def _only(row: RowValues, columns: Columns) -> dict[str, object]:
    """Return the known columns; files may have others."""
    return {
        name: _only(row[name], kind) if isinstance(kind, Mapping) else row[name]
        for name, kind in columns.items()
    }
