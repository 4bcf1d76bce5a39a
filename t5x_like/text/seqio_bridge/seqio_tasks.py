"""Our tasks as seqio tasks, with the same functions for reading, formatting and tokenizing."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import seqio
import tensorflow as tf

from t5x_like.io.paths import find_file
from t5x_like.text.benchmarks.benchmark import Benchmark
from t5x_like.text.benchmarks.shipped_vocabulary import SHIPPED_VOCABULARY, warn_of_shipped_vocabulary
from t5x_like.text.benchmarks.task import T5_VOCABULARY, BenchmarkTask
from t5x_like.text.benchmarks.tfds_files import python_value
from t5x_like.text.fields import TOKENS
from t5x_like.text.objectives.causal_lm import answers_only
from t5x_like.text.seqio_bridge.data_sources import BenchmarkRows, PlainFiles, TokenizedFiles, signature_of
from t5x_like.text.seqio_bridge.objective_preprocessors import seqio_preprocessors
from t5x_like.text.seqio_bridge.seqio_vocabulary import load_vocabulary
from t5x_like.text.tasks.chat import ChatTask
from t5x_like.text.tasks.file_task import FileTask
from t5x_like.text.tasks.pairs import PairsTask
from t5x_like.text.tasks.pretraining import PretrainingTask

# Paths of vocabularies that could not be read, so that every task doesn't try again.
_unreachable: set[str] = set()


class SeqioTaskBuilder:
    """Builder of seqio tasks; a ``tasks.file_task.TaskVisitor``."""

    def pairs(self, task: PairsTask) -> None:
        """Add a task of inputs and targets."""
        is_benchmark = isinstance(task, BenchmarkTask)
        if is_benchmark:
            source = BenchmarkRows(task)
            formatting = [format_rows(task.benchmark, skip=task.on_bad_row == "skip")]
        else:
            source, formatting = PlainFiles(task, ("inputs", "targets")), []
        seqio.TaskRegistry.add(
            task.name,
            source=source,  # pyright: ignore[reportArgumentType] - numbers may be unknown
            output_features=_features(task),
            preprocessors=[
                *formatting,
                seqio.preprocessors.tokenize,
                seqio.CacheDatasetPlaceholder(),
                seqio.preprocessors.append_eos_after_trim,
            ],
            postprocess_fn=task.postprocessor,
            metric_fns=list(task.metric_functions),
        )

    def documents(self, task: PretrainingTask) -> None:
        """Add a pretraining task, with its objective's own pipeline."""
        features = output_features(task)
        if task.objective.spec.layout == "decoder":
            features["inputs"] = dataclasses.replace(features["inputs"], required=False)
        tokenized = task.as_trained()
        plain = tokenized.features() == (TOKENS,)
        seqio.TaskRegistry.add(
            task.name,
            source=PlainFiles(task, ("text",)) if plain else TokenizedFiles(tokenized),  # pyright: ignore[reportArgumentType]
            output_features=features,
            preprocessors=[
                *((_text_as_targets, seqio.preprocessors.tokenize) if plain else ()),
                seqio.CacheDatasetPlaceholder(),
                *seqio_preprocessors(task.objective),
            ],
        )

    def chats(self, task: ChatTask) -> None:
        """Add a task of conversations: ``inputs``, ``targets`` and ``weights`` of a decoder."""
        features = output_features(task)
        features["inputs"] = dataclasses.replace(features["inputs"], required=False)
        seqio.TaskRegistry.add(
            task.name,
            source=TokenizedFiles(task),  # pyright: ignore[reportArgumentType]
            output_features=features,
            preprocessors=[seqio.CacheDatasetPlaceholder(), _answers_only],
        )


class T5Vocabulary(seqio.SentencePieceVocabulary):
    """A SentencePiece model that is read on first use; if it can't be reached, the small shipped one replaces it.

    So tasks can be inspected and tried without a network. A warning says so, because pretrained weights are useless
    with another vocabulary. Training from a recipe refuses instead.
    """

    def _model_context(self) -> object:
        if self._model is None:
            path = str(self._sentencepiece_model_file)
            try:
                if path not in _unreachable:
                    return super()._model_context()
            except Exception as error:  # each file system has its own exceptions
                _unreachable.add(path)
                warn_of_shipped_vocabulary(path, error)
            self._sentencepiece_model_file = find_file(SHIPPED_VOCABULARY)
        return super()._model_context()


def output_features(task: FileTask[Any]) -> dict[str, Any]:
    """Return features for inputs and targets in the task's vocabulary, both with an end of sequence."""
    vocabulary = load_vocabulary(task.vocabulary, num_sentinels=task.num_sentinels)
    return {key: seqio.Feature(vocabulary, add_eos=True) for key in ("inputs", "targets")}


def _features(task: PairsTask) -> dict[str, Any]:
    """Return a task's features; T5's own vocabulary is opened on first use, because it may be unreachable."""
    if task.vocabulary != T5_VOCABULARY:
        return output_features(task)
    vocabulary = _t5_vocabulary(task.num_sentinels)
    return {key: seqio.Feature(vocabulary, add_eos=True) for key in ("inputs", "targets")}


@functools.cache
def _t5_vocabulary(num_sentinels: int) -> T5Vocabulary:
    """Return one vocabulary for all tasks: seqio mixes only tasks with equal vocabularies."""
    return T5Vocabulary(T5_VOCABULARY, num_sentinels)


def format_rows(benchmark: Benchmark, *, skip: bool = False) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    """Return seqio's preprocessor from rows to ``inputs``, ``targets`` and further fields of the template.

    Args:
      benchmark: The benchmark with its template.
      skip: Leave out rows that can't be formatted; otherwise they raise an error.
    """
    signature = signature_of({"inputs": "text", "targets": "text", **benchmark.extras})

    def word_rows(dataset: tf.data.Dataset) -> tf.data.Dataset:
        def rows() -> Iterator[dict[str, object]]:
            for row in dataset.as_numpy_iterator():
                try:
                    formatted = benchmark.word(python_value(row))
                except ValueError:
                    if not skip:
                        raise
                    continue
                yield from ({name: each[name] for name in signature} for each in formatted)

        return tf.data.Dataset.from_generator(rows, output_signature=signature)

    return word_rows


def _answers_only(dataset: tf.data.Dataset, sequence_length: Mapping[str, int]) -> tf.data.Dataset:
    limit = sequence_length["targets"]

    def rows() -> Iterator[dict[str, object]]:
        for chat in dataset.as_numpy_iterator():
            example = answers_only(chat["targets"], chat["answers"], limit=limit)  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue]
            yield {name: getattr(example, name) for name in ("inputs", "targets", "weights")}

    types = {"inputs": tf.int32, "targets": tf.int32, "weights": tf.float32}
    return tf.data.Dataset.from_generator(
        rows,
        output_signature={name: tf.TensorSpec([None], kind) for name, kind in types.items()},  # pyright: ignore[reportArgumentType]
    )


def _text_as_targets(dataset: tf.data.Dataset) -> tf.data.Dataset:
    return dataset.map(lambda example: {"targets": example["text"]})
