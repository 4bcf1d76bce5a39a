"""From a task's name to its tokenised examples, in memory where they fit."""

import logging
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from t5x_like.text.batches.ragged import Ragged, RaggedBuilder
from t5x_like.text.batches.sources import CorruptedDocuments, Pair, Source, TokenisedPairs
from t5x_like.text.batches.streamed import StreamedPairs
from t5x_like.text.tasks import registry
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.tasks.rows import RowPolicy
from t5x_like.text.tasks.text_task import TextTask

if TYPE_CHECKING:
    import seqio

_log = logging.getLogger(__name__)
_AT_ONCE = 4096  # texts given to the tokeniser together


class Lengths(NamedTuple):
    """Limits in tokens, end of sequence included."""

    inputs: int
    targets: int


class Loaded(NamedTuple):
    """A source and how many of its examples were cut to the limits (None where the task itself cuts)."""

    source: Source
    num_trimmed: int | None


class TooLarge(Exception):  # noqa: N818 - not an error: the task is streamed instead
    """More tokens than may be held in memory."""


def load_source(
    task: "seqio.Task", split: str, lengths: Lengths, *, seed: int, shuffle: bool, memory_tokens: int
) -> Loaded:
    """Tokenises a task's split once and holds it, up to ``memory_tokens``; a larger one is streamed.

    Raises:
      ValueError: no such split, bad rows, or lengths that the task cannot be fitted into.
    """
    if split not in task.splits:
        raise ValueError(f"task {task.name!r} has no split {split!r}; there are {', '.join(task.splits)}")
    definition = registry.definition(task.name)
    try:
        if isinstance(definition, PretrainingTask):
            documents = _documents(definition, task, split, lengths, memory_tokens)
            vocabulary = task.output_features["targets"].vocabulary
            source = CorruptedDocuments(
                task.name,
                documents,
                definition.objective,
                inputs_length=lengths.inputs,
                first_sentinel=vocabulary.vocab_size - 1,
                eos_id=end_of(vocabulary),
                seed=seed,
                shuffle=shuffle,
            )
            return Loaded(source, 0)
        if isinstance(definition, TextTask):
            inputs, targets, num_trimmed = text_pairs(definition, task, split, lengths, memory_tokens)
        else:
            inputs, targets = _seqio_pairs(task, split, lengths, seed, memory_tokens)
            num_trimmed = None
    except TooLarge:
        _log.warning(
            "task %s: over %d tokens, read as a stream and not from memory", task.name, memory_tokens
        )
        return Loaded(_streamed(task, split, lengths, seed=seed, shuffle=shuffle), None)
    return Loaded(TokenisedPairs(task.name, inputs, targets, seed=seed, shuffle=shuffle), num_trimmed)


def _documents(
    definition: PretrainingTask, task: "seqio.Task", split: str, lengths: Lengths, memory_tokens: int
) -> Ragged:
    from t5x_like.text.vocabularies.literal import encode_all

    vocabulary = task.output_features["targets"].vocabulary
    raw_length = definition.objective.raw_length(lengths.inputs)
    needed = definition.objective.lengths(raw_length)[1]
    if needed > lengths.targets:
        raise ValueError(
            f"task {task.name!r}: inputs of {lengths.inputs} go with targets of {needed} tokens, over the limit of "
            f"{lengths.targets}; set targets_length to {needed}, or lower inputs_length"
        )
    sentinels = definition.objective.sentinels_needed(raw_length)
    if sentinels > definition.num_sentinels:
        raise ValueError(
            f"task {task.name!r}: {sentinels} sentinels are needed for inputs of {lengths.inputs}, the vocabulary has "
            f"{definition.num_sentinels}; raise num_sentinels, lower inputs_length, or use longer spans"
        )
    policy = RowPolicy(definition.on_bad_row)
    builder = RaggedBuilder(vocabulary.vocab_size)
    documents = definition.read(split, policy)
    while texts := [document.text for document in islice(documents, _AT_ONCE)]:
        builder.extend(encode_all(vocabulary, texts))
        if builder.num_tokens > memory_tokens:
            raise TooLarge
    _report(task.name, split, policy)
    if not builder.num_tokens:
        raise ValueError(f"task {task.name!r}, split {split!r}: the documents hold no token")
    return builder.build()


def text_pairs(
    definition: TextTask, task: "seqio.Task", split: str, lengths: Lengths, memory_tokens: int
) -> tuple[Ragged, Ragged, int]:
    """Inputs and targets of a TextTask, cut to the limits and ended; and how many were cut."""
    from t5x_like.text.vocabularies.literal import encode_all

    vocabulary = task.output_features["targets"].vocabulary
    builders = RaggedBuilder(vocabulary.vocab_size), RaggedBuilder(vocabulary.vocab_size)
    policy = RowPolicy(definition.on_bad_row)
    examples = definition.read(split, policy)
    num_trimmed, end = 0, end_of(vocabulary)
    while chunk := list(islice(examples, _AT_ONCE)):
        texts = [example.inputs for example in chunk], [example.targets for example in chunk]
        pairs = [encode_all(vocabulary, side) for side in texts]
        num_trimmed += sum(
            len(inputs) >= lengths.inputs or len(targets) >= lengths.targets
            for inputs, targets in zip(*pairs, strict=True)
        )
        for builder, sequences, limit in zip(builders, pairs, lengths, strict=True):
            builder.extend([*sequence[: limit - 1], end] for sequence in sequences)
        if sum(builder.num_tokens for builder in builders) > memory_tokens:
            raise TooLarge
    _report(task.name, split, policy)
    return builders[0].build(), builders[1].build(), num_trimmed


def _seqio_pairs(
    task: "seqio.Task", split: str, lengths: Lengths, seed: int, memory_tokens: int
) -> tuple[Ragged, Ragged]:
    vocab_size = max(feature.vocabulary.vocab_size for feature in task.output_features.values())
    builders = RaggedBuilder(vocab_size), RaggedBuilder(vocab_size)
    for pair in seqio_pairs(task, split, lengths, seed=seed, shuffle=False):
        for builder, tokens in zip(builders, pair, strict=True):
            builder.extend([tokens])
        if sum(builder.num_tokens for builder in builders) > memory_tokens:
            raise TooLarge
    inputs, targets = (builder.build() for builder in builders)
    if not len(targets):
        raise ValueError(f"task {task.name!r}, split {split!r}: no examples")
    return inputs, targets


def seqio_pairs(
    task: "seqio.Task", split: str, lengths: Lengths, *, seed: int, shuffle: bool
) -> Iterator[Pair]:
    """Inputs and targets from the task's own pipeline, cut to the limits; inputs are empty where it has
    none."""
    from t5x_like.text.tasks.sources import numpy_examples

    limits = {key: length for key, length in lengths._asdict().items() if key in task.output_features}
    dataset = task.get_dataset(limits, split, shuffle=shuffle, seed=seed)
    nothing = np.zeros(0, np.int32)
    for example in numpy_examples(dataset):
        inputs = example.get("inputs", nothing)[: lengths.inputs]
        yield inputs.astype(np.int32), example["targets"][: lengths.targets].astype(np.int32)


def _streamed(task: "seqio.Task", split: str, lengths: Lengths, *, seed: int, shuffle: bool) -> StreamedPairs:
    def open_epoch(epoch: int) -> Iterator[Pair]:
        return seqio_pairs(task, split, lengths, seed=seed + epoch, shuffle=shuffle)

    return StreamedPairs(task.name, open_epoch)


def end_of(vocabulary: "seqio.Vocabulary") -> int:
    """The id that ends a sequence.

    Raises:
      ValueError: the vocabulary has none.
    """
    if vocabulary.eos_id is None:
        raise ValueError(f"{vocabulary} has no end of sequence, which targets need")
    return vocabulary.eos_id


def _report(name: str, split: str, policy: RowPolicy) -> None:
    if policy.num_skipped:
        _log.warning("task %s, split %s: %s", name, split, policy)
