"""Description and examples of tasks that users registered with seqio."""

from typing import Any

import seqio

from t5x_like.text.batches.first_examples import TaskExample, example_of_streams, text_of
from t5x_like.text.batches.task_description import TaskDescription
from t5x_like.text.objectives.objective import Example
from t5x_like.text.seqio_bridge.data_sources import numpy_examples


def describe_seqio_task(task: seqio.Task) -> TaskDescription:
    """Describe a task that is registered with seqio only."""
    vocabulary = task.output_features["targets"].vocabulary
    return TaskDescription(
        name=task.name,
        kind="task",
        splits={split: task.num_input_examples(split) for split in task.splits},
        vocabulary=str(vocabulary),
        vocab_size=vocabulary.vocab_size,
        metrics=[metric.__name__ for metric in task.metric_fns],  # pyright: ignore[reportAttributeAccessIssue]
        rates={},
        definition=None,
    )


def first_seqio_examples(
    task: seqio.Task, split: str, *, num_examples: int, inputs_length: int, targets_length: int
) -> list[TaskExample]:
    """Return the first examples of a task's own pipeline.

    Args:
      task: The task.
      split: Split to read.
      num_examples: Number of examples.
      inputs_length: Tokens of inputs.
      targets_length: Tokens of targets.
    """
    lengths = {"inputs": inputs_length, "targets": targets_length}
    dataset = task.get_dataset(lengths, split, shuffle=False, seed=0)
    rows = task.source.get_dataset(split=split, shuffle=False).take(num_examples).as_numpy_iterator()
    # A source of plain lines gives each row as a string, not by columns.
    columns = (row if isinstance(row, dict) else {"line": row} for row in rows)
    raw = [{key: _plain(value) for key, value in row.items()} for row in columns]
    return [
        _shown(task, example, raw[index] if index < len(raw) else None)
        for index, example in enumerate(numpy_examples(dataset.take(num_examples)))
    ]


def _plain(value: Any) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.tolist() if hasattr(value, "tolist") else value


def _shown(task: seqio.Task, example: dict[str, Any], raw: dict[str, object] | None) -> TaskExample:
    ids = {key: [int(token_id) for token_id in example.get(key, ())] for key in ("inputs", "targets")}
    vocabularies = {key: feature.vocabulary for key, feature in task.output_features.items()}
    texts, pieces = {}, {}
    for key, numbers in ids.items():
        vocabulary = vocabularies.get(key, vocabularies["targets"])
        written = example.get(f"{key}_pretokenized")
        texts[key] = str(_plain(written)) if written is not None else _text(vocabulary, numbers)
        pieces[key] = [_piece(vocabulary, token_id) for token_id in numbers]
    features = {name: example[name] for name in Example._fields if name not in ids and name in example}
    return example_of_streams(raw, texts, ids, pieces, features)


def _text(vocabulary: seqio.Vocabulary, numbers: list[int]) -> str:
    eos = vocabulary.eos_id
    return text_of(numbers, eos, vocabulary.decode, "" if eos is None else _piece(vocabulary, eos))


def _piece(vocabulary: seqio.Vocabulary, token_id: int) -> str:
    piece = getattr(vocabulary, "piece", None) or getattr(
        getattr(vocabulary, "tokenizer", None), "IdToPiece", None
    )
    if piece is not None:
        return piece(token_id)
    return vocabulary.decode([token_id]) or f"<{token_id}>"
