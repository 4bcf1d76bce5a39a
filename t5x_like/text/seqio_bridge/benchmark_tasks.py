"""Benchmarks as seqio's tasks: rows as they are read, worded by the same functions as everywhere."""

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import seqio
import tensorflow as tf

from t5x_like.text.benchmarks.benchmark import Benchmark
from t5x_like.text.benchmarks.t5s_vocabulary import T5sVocabulary
from t5x_like.text.benchmarks.task import T5_VOCABULARY, BenchmarkTask
from t5x_like.text.benchmarks.tfds_files import python_value
from t5x_like.text.seqio_bridge.data_sources import PlainFiles, output_features

_SHAPES = {"texts": [None], "ints": [None]}
_TYPES = {"int": tf.int64, "ints": tf.int64, "float": tf.float32, "text": tf.string, "texts": tf.string}


class BenchmarkRows(PlainFiles):
    """The rows of a benchmark, before wording."""

    task: BenchmarkTask

    def __init__(self, task: BenchmarkTask) -> None:
        super().__init__(task, ())

    def num_input_examples(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, split: str
    ) -> int | None:
        """Rows of the split, counted once by reading it; where they are not there, as many as are published."""
        if split not in self._counts:
            try:
                self.task.files[split]
            except ValueError:
                return self.task.benchmark.source.rows.get(split) or None
            self._counts[split] = sum(1 for _ in self.task.raw_rows(split))
        return self._counts[split]

    def get_dataset(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, split: str = "train", **settings: Any
    ) -> tf.data.Dataset:
        """See ``PlainFiles``.

        Raises:
          ValueError: files are missing. Said here, where TensorFlow can't bury it below pages of its own.
        """
        self.task.files[split]
        return super().get_dataset(split, **settings)

    def _examples(self, split: str) -> Iterator[dict[str, Any]]:
        columns = self.task.benchmark.source.columns
        for row in self.task.raw_rows(split):
            yield _only(row.values, columns)

    def _signature(self) -> dict[str, Any]:
        return _signature_of(self.task.benchmark.source.columns)


def register_benchmark(task: BenchmarkTask) -> None:
    """Adds it to seqio's registry."""
    seqio.TaskRegistry.add(
        task.name,
        source=BenchmarkRows(task),  # pyright: ignore[reportArgumentType] - numbers may be unknown
        output_features=_features(task),
        preprocessors=[
            worded_rows(task.benchmark, skip=task.on_bad_row == "skip"),
            seqio.preprocessors.tokenize,
            seqio.CacheDatasetPlaceholder(),
            seqio.preprocessors.append_eos_after_trim,
        ],
        postprocess_fn=task.benchmark.postprocess,
        metric_fns=list(task.benchmark.metrics),
    )


def worded_rows(benchmark: Benchmark, *, skip: bool = False) -> Any:
    """seqio's preprocessor from rows to ``inputs``, ``targets`` and what else the wording gives.

    ``skip`` leaves out rows that can't be worded; otherwise they raise, as an error of TensorFlow's.
    """
    signature = _signature_of({"inputs": "text", "targets": "text", **benchmark.extras})

    def word_rows(dataset: tf.data.Dataset) -> tf.data.Dataset:
        def rows() -> Iterator[dict[str, Any]]:
            for row in dataset.as_numpy_iterator():
                try:
                    worded = benchmark.word(python_value(row))
                except ValueError:
                    if not skip:
                        raise
                    continue
                yield from ({name: each[name] for name in signature} for each in worded)

        return tf.data.Dataset.from_generator(rows, output_signature=signature)

    return word_rows


def _features(task: BenchmarkTask) -> dict[str, Any]:
    """T5's own vocabulary is opened when it is first used: it may be out of reach where nothing is tokenised."""
    if task.vocabulary != T5_VOCABULARY:
        return output_features(task)
    vocabulary = _t5s_vocabulary(task.num_sentinels)
    return {key: seqio.Feature(vocabulary, add_eos=True) for key in ("inputs", "targets")}


@functools.cache
def _t5s_vocabulary(num_sentinels: int) -> T5sVocabulary:
    """One for all tasks: seqio mixes only those whose vocabularies are equal, and one may be out of reach by now."""
    return T5sVocabulary(T5_VOCABULARY, num_sentinels)


def _signature_of(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _signature_of(kind)
        if isinstance(kind, Mapping)
        else tf.TensorSpec(_SHAPES.get(kind, []), _TYPES[kind])  # pyright: ignore[reportArgumentType]
        for name, kind in columns.items()
    }


def _only(row: Mapping[str, Any], columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that are known: others may be in the files."""
    return {
        name: _only(row[name], kind) if isinstance(kind, Mapping) else row[name]
        for name, kind in columns.items()
    }
