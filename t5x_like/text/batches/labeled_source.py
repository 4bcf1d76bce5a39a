"""Labeled rows for encoder heads as a source of batches: ``LoaderConfig(layout="encoder")`` of a benchmark."""

import logging
from collections.abc import Sequence

import numpy as np

from t5x_like.text.batches.example_sources import OpenedTask, StoredSource
from t5x_like.text.batches.labeled_examples import LabeledExamples, make_examples
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.heads.head_format import HeadFormat
from t5x_like.text.objectives.objective import Example
from t5x_like.text.tasks.pairs import PairsTask
from t5x_like.text.tasks.task_set import Task
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.tokenizer import Tokenizer

_log = logging.getLogger(__name__)


class LabeledSource(StoredSource[LabeledExamples]):
    """Labeled examples in an order drawn for each epoch, or in file order.

    Attributes:
      input_format: Special ids and lengths of the inputs.
    """

    def __init__(self, name: str, examples: LabeledExamples, *, seed: int, shuffle: bool) -> None:
        super().__init__(name, examples, seed=seed, shuffle=shuffle)
        self._sizes = examples.sizes
        self.input_format = examples.input_format

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Example]:
        """Return the examples at these positions of an epoch."""
        return [self._stored.example(index) for index in self._numbers(epoch, positions).tolist()]

    def sizes(self, epoch: int, positions: Sequence[int]) -> np.ndarray:
        """Return the row lengths of these examples; see ``SizedSource``."""
        return self._sizes[self._numbers(epoch, positions)]

    def _numbers(self, epoch: int, positions: Sequence[int]) -> np.ndarray:
        return self._ordered(np.asarray(positions, np.int64), epoch, "order")


def open_head_task(task: Task, config: LoaderConfig) -> OpenedTask:
    """Open the labeled rows of a split, for training or for computing the loss.

    Args:
      task: Task that a head reads.
      config: Configuration of the loader.

    Raises:
      ValueError: No head reads the task, a metric doesn't fit its predictions, a row is bad, none has a label, or a
        cache is configured.
    """
    head_format = task.head_format()
    assert isinstance(task, PairsTask), "a head reads it"
    definition, name = task, task.name
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
            "task %s, split %s: %d examples are longer than inputs_length=%d and were cut, by %d %s in all",
            name,
            config.split,
            examples.num_cut,
            config.inputs_length,
            examples.cut_in_all,
            head_format.cut_unit,
        )
    source = LabeledSource(name, examples, seed=config.seed, shuffle=config.shuffle)
    spec = head_format.spec(examples.num_choices).with_streams(definition.declared_streams)
    return OpenedTask(source, spec, tokenizer)


def _labeled(
    definition: PairsTask, head_format: HeadFormat, config: LoaderConfig, tokenizer: Tokenizer
) -> LabeledExamples:
    policy = definition.row_policy()
    read = list(definition.head_rows(config.split, policy))
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
