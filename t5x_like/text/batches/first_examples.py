"""The first examples of a task as a model reads them, raw, formatted and tokenized."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from t5x_like.text.batches.in_memory import load_first_rows
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.batches.open_tasks import open_stored
from t5x_like.text.benchmarks.shipped_vocabulary import with_vocabulary_in_reach
from t5x_like.text.objectives.objective import Example
from t5x_like.text.objectives.replaced_token_detection import ReplacedTokenDetection
from t5x_like.text.tasks.file_task import FileTask
from t5x_like.text.tasks.pairs import TextPair

# Documents are joined and cut anew, so more are read than examples are shown.
_LEAST_TOKENS = 2**16


class TaskExample(NamedTuple):
    """One example at three stages.

    Targets that only say which tokens were replaced have no text; their pieces are 0 and 1.

    Attributes:
      raw: Source row, if rows and examples correspond.
      inputs: Input text.
      targets: Target text.
      input_ids: Token ids of the inputs.
      target_ids: Token ids of the targets.
      input_pieces: Text of each input id.
      target_pieces: Text of each target id.
      extra_features: Further model inputs, by their names in ``Example``.
    """

    raw: dict[str, Any] | None
    inputs: str
    targets: str
    input_ids: list[int]
    target_ids: list[int]
    input_pieces: list[str]
    target_pieces: list[str]
    extra_features: dict[str, list[float]] = {}  # noqa: RUF012 - what else a model reads, by the names of ``Example``


def first_task_examples(
    task: FileTask[object], split: str, *, num_examples: int, inputs_length: int, targets_length: int
) -> list[TaskExample]:
    """Return the first examples of a task, in the order of its files.

    Args:
      task: The task.
      split: Split to read.
      num_examples: Number of examples.
      inputs_length: Tokens of inputs.
      targets_length: Tokens of targets.

    Raises:
      ValueError: Bad rows, or lengths that the task's objective doesn't work with.
    """
    task = with_vocabulary_in_reach(task).as_trained()
    tokenizer = task.tokenizer
    lengths = _lengths_in_layout(task.spec.layout, inputs_length, targets_length)
    config = LoaderConfig(
        mixture=task.name,
        batch_size=1,
        inputs_length=lengths["inputs"],
        targets_length=lengths["targets"],
        split=split,
        shuffle=False,
        repeat=False,
    )
    if task.is_pretraining:
        rows: list[Any] = []
        num_tokens = max(_LEAST_TOKENS, 4 * num_examples * max(lengths.values()))
        stored = load_first_rows(task, split, num_tokens=num_tokens)
    else:
        rows = list(islice(task.read(split), num_examples))
        stored = load_first_rows(task, split, num_rows=num_examples)
    source = open_stored(task, stored, tokenizer, config).source
    examples = source.examples(0, range(min(num_examples, source.remaining(0, 0))))
    return [
        _shown(task, example, rows[index] if index < len(rows) else None)
        for index, example in enumerate(examples)
    ]


def _lengths_in_layout(layout: str | None, inputs_length: int, targets_length: int) -> dict[str, int]:
    """Return the lengths of features; all features of an encoder's or decoder's single stream have its length."""
    return {
        "inputs": targets_length if layout == "decoder" else inputs_length,
        "targets": inputs_length if layout == "encoder" else targets_length,
    }


def text_of(ids: list[int], eos: int | None, decode: Callable[[list[int]], str], end_piece: str) -> str:
    """Decode all ids, also those after an end of sequence; the last end of sequence is not written.

    Args:
      ids: Token ids.
      eos: Id of the end of sequence, if there is one.
      decode: Returns the text of ids without an end of sequence.
      end_piece: Text of an end of sequence.
    """
    if eos is None:
        return decode(ids)
    if ids[-1:] == [eos]:
        ids = ids[:-1]
    ends = [index for index, token_id in enumerate(ids) if token_id == eos]
    starts = [0, *(end + 1 for end in ends)]
    return end_piece.join(
        decode(ids[start:end]) for start, end in zip(starts, [*ends, len(ids)], strict=True)
    )


def _shown(task: FileTask[object], example: Example, row: object) -> TaskExample:
    tokenizer = task.tokenizer
    eos = tokenizer.special.eos
    example = example.choices[0] if example.choices else example  # the best of several answers
    streams = {"inputs": _ids(example.inputs), "targets": _ids(example.targets)}
    fields = {"inputs": row.inputs, "targets": row.targets} if isinstance(row, TextPair) else {}
    texts, pieces = {}, {}
    for name, ids in streams.items():
        end = "" if eos is None else tokenizer.piece(eos)
        texts[name] = fields[name] if name in fields else text_of(ids, eos, tokenizer.decode, end)
        pieces[name] = [tokenizer.piece(token_id) for token_id in ids]
    if isinstance(getattr(task, "objective", None), ReplacedTokenDetection):
        texts["targets"], pieces["targets"] = "", [str(token_id) for token_id in streams["targets"]]
    features = {
        name: feature
        for name in task.spec.fields
        if name not in streams and (feature := getattr(example, name)) is not None
    }
    return example_of_streams(None if row is None else task.shown(row), texts, streams, pieces, features)


def example_of_streams(
    raw: dict[str, object] | None,
    texts: Mapping[str, str],
    ids: Mapping[str, list[int]],
    pieces: Mapping[str, list[str]],
    features: Mapping[str, ArrayLike],
) -> TaskExample:
    """Return an example from its inputs and targets.

    Args:
      raw: Source row, if rows and examples correspond.
      texts: Text of each stream.
      ids: Token ids of each stream.
      pieces: Text of each id.
      features: Further model inputs, arrays of numbers.
    """
    return TaskExample(
        raw=raw,
        inputs=texts["inputs"],
        targets=texts["targets"],
        input_ids=ids["inputs"],
        target_ids=ids["targets"],
        input_pieces=pieces["inputs"],
        target_pieces=pieces["targets"],
        extra_features={
            name: [float(value) for value in np.ravel(feature)] for name, feature in features.items()
        },
    )


def _ids(stream: Sequence[int] | np.ndarray | None) -> list[int]:
    return [] if stream is None else [int(token_id) for token_id in stream]
