"""Inspection of a task: its description, and examples raw, worded and tokenized."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from t5x_like.text import registry
from t5x_like.text.objectives.objective import Example
from t5x_like.text.objectives.replaced_token_detection import ReplacedTokenDetection
from t5x_like.text.seqio_bridge import registration

if TYPE_CHECKING:
    import seqio


class TaskDescription(NamedTuple):
    """Description of a task or mixture.

    Attributes:
      name: Name in the registry.
      kind: "task" or "mixture".
      splits: Number of examples by split; ``None`` if unknown.
      vocabulary: Name of the vocabulary.
      vocab_size: Number of ids.
      metrics: Names of the metrics.
      rates: Mixing rate by task, for a mixture.
      definition: Our definition; ``None`` for tasks that are registered with seqio only.
    """

    name: str
    kind: str
    splits: dict[str, int | None]
    vocabulary: str
    vocab_size: int
    metrics: list[str]
    rates: dict[str, float]
    definition: registry.Definition | None


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


def describe(name: str, *, count: bool = True) -> TaskDescription:
    """Describe a registered task or mixture; ``count=False`` doesn't read files to count their rows."""
    import seqio

    found = registration.get(name)
    mixture = found if isinstance(found, seqio.Mixture) else None
    tasks = registration.tasks_of(name)
    splits: dict[str, int | None] = {}
    for task in tasks:
        for split in task.splits:
            number = task.num_input_examples(split) if count else None
            known = splits.get(split, 0)
            splits[split] = None if number is None or known is None else known + number
    vocabulary = tasks[0].output_features["targets"].vocabulary
    return TaskDescription(
        name=name,
        kind="mixture" if mixture else "task",
        splits=splits,
        vocabulary=str(vocabulary),
        vocab_size=vocabulary.vocab_size,
        metrics=list(dict.fromkeys(metric.__name__ for task in tasks for metric in task.metric_fns)),
        rates={task.name: mixture.get_rate(task) for task in tasks} if mixture and count else {},
        definition=registry.definition(name),
    )


def show(
    name: str,
    num_examples: int = 3,
    *,
    split: str = "train",
    inputs_length: int = 512,
    targets_length: int = 512,
) -> list[TaskExample]:
    """Return the first examples of a task, or of each task of a mixture.

    Args:
      name: Name of the task or mixture.
      num_examples: Examples of each task.
      split: Name of the split.
      inputs_length: Tokens of inputs.
      targets_length: Tokens of targets.

    Raises:
      ValueError: Unknown name or split, or bad rows.
    """
    from t5x_like.text.seqio_bridge.data_sources import numpy_examples  # imports TensorFlow

    shown: list[TaskExample] = []
    for task in registration.tasks_of(name):
        if split not in task.splits:
            raise ValueError(f"task {task.name!r} has no split {split!r}; there are {', '.join(task.splits)}")
        lengths = _lengths(task.name, inputs_length, targets_length)
        dataset = task.get_dataset(lengths, split, shuffle=False, seed=0)
        raw = _raw_rows(task, split, num_examples)
        for number, example in enumerate(numpy_examples(dataset.take(num_examples))):
            shown.append(_shown(task, example, raw[number] if number < len(raw) else None))
    return shown


def _raw_rows(task: "seqio.Task", split: str, num_examples: int) -> list[dict[str, Any]]:
    definition = registry.task(task.name)
    if definition is not None:
        rows = zip(definition.read(split), range(num_examples), strict=False)
        return [shown for row, _ in rows if (shown := definition.shown(row)) is not None]
    rows = task.source.get_dataset(split=split, shuffle=False).take(num_examples).as_numpy_iterator()
    # A source of plain lines gives each row as a string, not by columns.
    columns = (row if isinstance(row, dict) else {"line": row} for row in rows)
    return [{key: _plain(value) for key, value in row.items()} for row in columns]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.tolist() if hasattr(value, "tolist") else value


def _lengths(name: str, inputs_length: int, targets_length: int) -> dict[str, int]:
    """Return the lengths of features; all features of an encoder's or decoder's single stream have its length."""
    definition = registry.task(name)
    layout = None if definition is None else definition.spec.layout
    return {
        "inputs": targets_length if layout == "decoder" else inputs_length,
        "targets": inputs_length if layout == "encoder" else targets_length,
    }


def _shown(task: "seqio.Task", example: dict[str, Any], raw: dict[str, Any] | None) -> TaskExample:
    ids = {key: [int(number) for number in example.get(key, ())] for key in ("inputs", "targets")}
    vocabularies = {key: feature.vocabulary for key, feature in task.output_features.items()}
    texts, pieces = {}, {}
    for key, numbers in ids.items():
        vocabulary = vocabularies.get(key, vocabularies["targets"])
        written = example.get(f"{key}_pretokenized")
        texts[key] = str(_plain(written)) if written is not None else _text(vocabulary, numbers)
        pieces[key] = [_piece(vocabulary, number) for number in numbers]
    definition = registry.task(task.name)
    if isinstance(getattr(definition, "objective", None), ReplacedTokenDetection):
        texts["targets"], pieces["targets"] = "", [str(number) for number in ids["targets"]]
    return TaskExample(
        raw=raw,
        inputs=texts["inputs"],
        targets=texts["targets"],
        input_ids=ids["inputs"],
        target_ids=ids["targets"],
        input_pieces=pieces["inputs"],
        target_pieces=pieces["targets"],
        extra_features={
            name: [float(number) for number in np.ravel(example[name])]
            for name in Example._fields
            if name not in ids and name in example
        },
    )


def _text(vocabulary: "seqio.Vocabulary", numbers: list[int]) -> str:
    """Decode all ids, also those after an end of sequence; the last end of sequence is not written."""
    eos = vocabulary.eos_id
    if eos is None:
        return vocabulary.decode(numbers)
    if numbers[-1:] == [eos]:
        numbers = numbers[:-1]
    ends = [place for place, number in enumerate(numbers) if number == eos]
    starts = [0, *(end + 1 for end in ends)]
    places = zip(starts, [*ends, len(numbers)], strict=True)
    return _piece(vocabulary, eos).join(vocabulary.decode(numbers[start:end]) for start, end in places)


def _piece(vocabulary: "seqio.Vocabulary", number: int) -> str:
    piece = getattr(vocabulary, "piece", None) or getattr(
        getattr(vocabulary, "tokenizer", None), "IdToPiece", None
    )
    if piece is not None:
        return piece(number)
    return vocabulary.decode([number]) or f"<{number}>"
