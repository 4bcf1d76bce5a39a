"""Our tasks as seqio's: data sources over plain files, and their registration."""

import dataclasses
import logging
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import seqio
import tensorflow as tf

from t5x_like.text.objectives.causal_lm import answers_only
from t5x_like.text.seqio_bridge.objective_preprocessors import seqio_preprocessors
from t5x_like.text.seqio_bridge.vocabulary import load_vocabulary
from t5x_like.text.tasks.chat import ChatTask
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.tasks.rows import RowPolicy
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.text.tasks.tokenising import TokenisedTask, feature_names, tokenise_rows, with_sentences

_log = logging.getLogger(__name__)
_AT_ONCE = 256  # texts given to the tokenizer together
_NAMES = {"tokens": "targets"}  # what seqio's preprocessors call them


class PlainFiles(seqio.DataSource):
    """Examples read from plain files by a task of ours, in the files' order."""

    def __init__(self, task: TokenisedTask, keys: tuple[str, ...]) -> None:
        super().__init__(splits=task.splits)
        self.task = task
        self._keys = keys
        self._counts: dict[str, int] = {}

    @property
    def supports_arbitrary_sharding(self) -> bool:
        """Shards are made of examples, by seqio."""
        return False

    def list_shards(self, split: str) -> list[str]:
        """One: the split."""
        return [split]

    def num_input_examples(self, split: str) -> int:
        """Good rows of the split, counted once by reading it."""
        if split not in self._counts:
            policy = RowPolicy(self.task.on_bad_row)
            self._counts[split] = sum(1 for _ in self.task.read(split, policy))
            if policy.num_skipped:
                _log.warning("task %s, split %s: %s", self.task.name, split, policy)
        return self._counts[split]

    def get_dataset(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        split: str = "train",
        shuffle: bool = True,
        seed: int | None = None,
        shard_info: Any = None,
        **_: Any,
    ) -> tf.data.Dataset:
        """The split's examples, never shuffled here: seqio shuffles after preprocessing."""
        del shuffle, seed, shard_info
        return tf.data.Dataset.from_generator(
            lambda: self._examples(split), output_signature=self._signature()
        )

    def _examples(self, split: str) -> Iterator[dict[str, Any]]:
        for example in self.task.read(split):
            yield {key: getattr(example, key) for key in self._keys}

    def _signature(self) -> dict[str, Any]:
        return {key: tf.TensorSpec([], tf.string) for key in self._keys}  # pyright: ignore[reportArgumentType]


class TokenisedDocuments(PlainFiles):
    """Documents or conversations as tokens (``targets``), with what is known of them: sentences, answers and more."""

    def _examples(self, split: str) -> Iterator[dict[str, Any]]:
        widths = self._widths()
        documents = iter(self.task.read(split))
        while chunk := list(islice(documents, _AT_ONCE)):
            for features in tokenise_rows(self.task, chunk):
                yield {
                    _NAMES.get(name, name): np.reshape(features[name], (-1, *width)).astype(np.int32)
                    for name, width in widths.items()
                }

    def _signature(self) -> dict[str, Any]:
        return {
            _NAMES.get(name, name): tf.TensorSpec([None, *width], tf.int32)  # pyright: ignore[reportArgumentType]
            for name, width in self._widths().items()
        }

    def _widths(self) -> dict[str, tuple[int, ...]]:
        return {name: (2,) if name == "spans" else () for name in self._keys}


def numpy_examples(dataset: tf.data.Dataset) -> Iterator[dict[str, Any]]:
    """The examples of a dataset, with errors of our readers as they were raised.

    Raises:
      ValueError: a reader found a bad row. TensorFlow would wrap the message in a page of its own.
    """
    try:
        yield from dataset.as_numpy_iterator()  # pyright: ignore[reportReturnType] - typed as arrays
    except tf.errors.OpError as error:
        message = str(error).partition("ValueError: ")[2].partition("\n")[0]
        if not message:
            raise
        raise ValueError(message) from None


def output_features(task: TokenisedTask) -> dict[str, Any]:
    """Inputs and targets in the task's vocabulary, both ended by the end of sequence."""
    vocabulary = load_vocabulary(task.vocabulary, num_sentinels=task.num_sentinels)
    return {key: seqio.Feature(vocabulary, add_eos=True) for key in ("inputs", "targets")}


def register_text_task(task: TextTask) -> None:
    """Adds it to seqio's registry."""
    seqio.TaskRegistry.add(
        task.name,
        source=PlainFiles(task, ("inputs", "targets")),
        output_features=output_features(task),
        preprocessors=[
            seqio.preprocessors.tokenize,
            seqio.CacheDatasetPlaceholder(),
            seqio.preprocessors.append_eos_after_trim,
        ],
        metric_fns=task.metric_functions,
    )


def register_pretraining_task(task: PretrainingTask) -> None:
    """Adds it to seqio's registry, with its objective's own pipeline."""
    features = output_features(task)
    if task.objective.spec.layout == "decoder":
        features["inputs"] = dataclasses.replace(features["inputs"], required=False)
    tokenised = with_sentences(task)
    names = feature_names(tokenised)
    plain = names == ("tokens",)
    seqio.TaskRegistry.add(
        task.name,
        source=PlainFiles(task, ("text",)) if plain else TokenisedDocuments(tokenised, names),
        output_features=features,
        preprocessors=[
            *((_text_as_targets, seqio.preprocessors.tokenize) if plain else ()),
            seqio.CacheDatasetPlaceholder(),
            *seqio_preprocessors(task.objective),
        ],
    )


def register_chat_task(task: ChatTask) -> None:
    """Adds it to seqio's registry: ``inputs``, ``targets`` and ``weights`` of a decoder."""
    features = output_features(task)
    features["inputs"] = dataclasses.replace(features["inputs"], required=False)
    seqio.TaskRegistry.add(
        task.name,
        source=TokenisedDocuments(task, feature_names(task)),
        output_features=features,
        preprocessors=[seqio.CacheDatasetPlaceholder(), _answers_only],
    )


def _answers_only(dataset: tf.data.Dataset, sequence_length: Mapping[str, int]) -> tf.data.Dataset:
    limit = sequence_length["targets"]

    def rows() -> Iterator[dict[str, Any]]:
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
