"""Labeled rows for encoder heads as a source of batches: ``LoaderConfig(layout="encoder")`` of a benchmark."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from t5x_like.text import registry
from t5x_like.text.batches.example_sources import OpenedTask, StoredSource
from t5x_like.text.batches.head_examples import HeadExamples, make_examples
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.heads.head_format import UNSCALED, Head, HeadFormat, OutputScale
from t5x_like.text.objectives.objective import Example
from t5x_like.text.tasks.pairs import PairsTask
from t5x_like.text.tasks.rows import RowPolicy
from t5x_like.text.vocabularies.opening import open_tokenizer

_log = logging.getLogger(__name__)


class HeadSource(StoredSource[HeadExamples]):
    """Labeled examples in an order drawn for each epoch, or in file order.

    Attributes:
      input_format: Special ids and lengths of the inputs.
    """

    def __init__(self, name: str, examples: HeadExamples, *, seed: int, shuffle: bool) -> None:
        super().__init__(name, examples, seed=seed, shuffle=shuffle)
        self._sizes = examples.sizes
        self.input_format = examples.input_format

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Example]:
        """Return the examples at these positions of an epoch."""
        return [self._stored.example(number) for number in self._numbers(epoch, positions).tolist()]

    def sizes(self, epoch: int, positions: Sequence[int]) -> np.ndarray:
        """Return the row lengths of these examples, int64 [N]."""
        return self._sizes[self._numbers(epoch, positions)]

    def _numbers(self, epoch: int, positions: Sequence[int]) -> np.ndarray:
        return self._ordered(np.asarray(positions, np.int64), epoch, "order")


def open_head_task(definition: PairsTask, name: str, config: LoaderConfig) -> OpenedTask:
    """Open the labeled rows of a split, for training or for computing the loss.

    Args:
      definition: Task.
      name: Name of the task.
      config: Configuration of the loader.

    Raises:
      ValueError: No head reads the task, a metric doesn't fit its predictions, a row is bad, none has a label, or a
        cache is configured.
    """
    head_format = definition.head_format()
    definition.head_metrics()  # raises before anything is trained that can't be scored
    if config.cache is not None:
        raise ValueError(
            f"task {name!r} is read for an encoder's head, whose rows are tokenized anew at each start; a token cache "
            f"holds inputs and targets as text. Omit cache={config.cache!r}"
        )
    tokenizer = open_tokenizer(definition.vocabulary, definition.num_sentinels)
    examples = _labeled(definition, head_format, config, tokenizer)
    if examples.num_cut:
        _log.warning(
            "task %s, split %s: %d examples are longer than inputs_length=%d and were cut",
            name,
            config.split,
            examples.num_cut,
            config.inputs_length,
        )
    source = HeadSource(name, examples, seed=config.seed, shuffle=config.shuffle)
    spec = head_format.spec(examples.num_choices).with_streams(definition.declared_streams)
    return OpenedTask(source, spec, tokenizer)


def head_format_of(name: str) -> HeadFormat:
    """Return the head format of the task of that name.

    Raises:
      ValueError: No head reads the task, or there is no such task.
    """
    definition = registry.task(name)
    if definition is None:
        raise ValueError(
            f"task {name!r} has no form for an encoder's head: its answers are generated text; train an "
            "encoder-decoder or a decoder on it"
        )
    return definition.head_format()


def head_for(config: LoaderConfig) -> Head | None:
    """Return the head that the tasks of a loader need; None if they need none.

    Raises:
      ValueError: Unknown tasks, tasks that no head reads, or tasks for different heads.
    """
    formats = _formats_for(config)
    return formats[0].head if formats else None


def classes_for(config: LoaderConfig) -> tuple[str, ...]:
    """Return the class names of the head that the tasks of a loader need, in the order of its outputs.

    Raises:
      ValueError: As ``head_for``.
    """
    formats = _formats_for(config)
    return formats[0].class_names if formats else ()


def scale_for(config: LoaderConfig) -> OutputScale:
    """Return the scale of the head that the tasks of a loader need; that of plain numbers if they differ.

    Raises:
      ValueError: As ``head_for``.
    """
    scales = {each.output_scale for each in _formats_for(config)}
    return scales.pop() if len(scales) == 1 else UNSCALED


def _formats_for(config: LoaderConfig) -> list[HeadFormat]:
    if not config.reads_heads:
        return []
    names = registry.names_of_tasks(config.mixture)
    if all((definition := registry.task(name)) and definition.is_pretraining for name in names):
        return []
    formats = [head_format_of(name) for name in names]
    if len({each.head for each in formats}) > 1:
        raise ValueError(
            f"{', '.join(names)} are for different heads, which can't share batches; train on one of them"
        )
    classes = dict.fromkeys(each.class_names for each in formats)
    if len(classes) > 1:
        listed = "; ".join(", ".join(each) or "none" for each in classes)
        raise ValueError(
            f"{', '.join(names)} can't share a head, whose classes would mean different things: {listed}; train on one "
            "of them"
        )
    return formats


def _labeled(
    definition: PairsTask, head_format: HeadFormat, config: LoaderConfig, tokenizer: Any
) -> HeadExamples:
    policy = RowPolicy(definition.on_bad_row)
    read = [each.row for each in definition.head_rows(config.split, policy)]
    rows = [row for row in read if head_format.trains(row)]
    where = f"task {definition.name!r}, split {config.split!r}"
    if policy.num_skipped:
        _log.warning("%s: %s", where, policy)
    if not rows:
        raise ValueError(
            f"{where}: all of its {len(read):,} rows {head_format.why_left_out}, so nothing can be learned or measured "
            "there; its answers can be predicted: t5x-like evaluate"
            + ("" if any(map(head_format.is_labeled, read)) else _without_labels(head_format))
        )
    if len(rows) < len(read):
        num_left_out = len(read) - len(rows)
        _log.warning(
            "%s: %d of %d rows %s and are left out", where, num_left_out, len(read), head_format.why_left_out
        )
    try:
        return make_examples(
            head_format,
            rows,
            tokenizer,
            length=config.inputs_length,
            framing=definition.framing,
            streams=definition.declared_streams,
        )
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _without_labels(head_format: HeadFormat) -> str:
    name = type(head_format).__name__
    return f". Models that learn from rows without labels need {name}(keeps_unlabeled=True)"
