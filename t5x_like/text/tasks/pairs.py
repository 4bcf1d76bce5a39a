"""Tasks of inputs and targets as text, from any source."""

import functools
import json
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import Any, NamedTuple

from t5x_like.audio.recording import Recording
from t5x_like.batch import FIELDS, DataField
from t5x_like.config_class import config_class
from t5x_like.io.files import json_object
from t5x_like.text.fields import INPUTS, TARGETS, Feature
from t5x_like.text.heads.input_format import InputFraming
from t5x_like.text.heads.labeled_rows import LabeledRow
from t5x_like.text.heads.row_cells import number_in
from t5x_like.text.metrics.by_name import MetricFunction
from t5x_like.text.metrics.classification import is_over_groups
from t5x_like.text.objectives.objective import Example, ExampleSpec
from t5x_like.text.postprocessing import Postprocess
from t5x_like.text.tasks.file_task import FileTask, FoundT, TaskVisitor
from t5x_like.text.tasks.row_files import describe_invalid_json
from t5x_like.text.tasks.rows import BadRow, RawRow, RowPolicy, RowT, convert, sample_of
from t5x_like.text.templates import RowValues

PAIRS = ExampleSpec(layout="encoder_decoder")


class TextPair(NamedTuple):
    """One example as text.

    Attributes:
      inputs: Input text.
      targets: Target text.
      row: Columns of the source row.
      location: Source of the row (``file:line``).
      extras: Further features for postprocessing and metrics.
      declared: Values of the streams that the task declares, by name.
    """

    inputs: str
    targets: str
    row: Mapping[str, Any]
    location: str
    extras: Mapping[str, Any] = {}
    declared: Mapping[str, float] = {}

    @property
    def num_characters(self) -> int:
        """Number of characters of both texts."""
        return len(self.inputs) + len(self.targets)


@config_class
class PairsTask(FileTask[TextPair]):
    """Base of tasks that read rows as inputs and targets, and score predictions.

    Attributes:
      framing: Special tokens around the texts that a head reads; None for those of the vocabulary.
      streams: Numbers of each row that a training method reads, such as a weight: name of the stream, and column.
    """

    framing: InputFraming | None = None
    streams: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.streams:
            if not name.isidentifier() or name in FIELDS or name in Example._fields:
                raise ValueError(
                    f"task {self.name!r}: {name!r} can't be the name of a stream; give one of letters, digits and "
                    "underscores that no other field of a batch has"
                )

    @property
    def declared_streams(self) -> tuple[DataField, ...]:
        return tuple(DataField(name, "example", dtype="float32", padding=math.nan) for name in self.streams)

    def _stream_lines(self) -> dict[str, str]:
        """Return the line of ``streams`` in the fingerprint; none without streams."""
        return {"streams": repr(dict(sorted(self.streams.items())))} if self.streams else {}

    def _declared(self, values: Mapping[str, object]) -> dict[str, float]:
        """Return a row's numbers for ``streams``.

        Raises:
          ValueError: A column is missing, or its cell is no number.
        """
        return {name: number_in(values, column) for name, column in self.streams.items()}

    def texts(self, split: str) -> Iterator[str]:
        return (f"{row.inputs} {row.targets}" for row in self.read(split))

    @property
    @abstractmethod
    def answers(self) -> tuple[str, ...]:
        """All possible answers, for metrics and ranking; empty if answers are open."""

    @property
    def continues_inputs(self) -> bool:
        """True if a decoder's answer continues the inputs, so that prompts need no marker before it."""
        return False

    def wanted_files(self, split: str) -> str:
        """Name the files of a benchmark's split, relative to the data folder; empty for files of other tasks."""
        del split
        return ""

    @property
    def max_samples(self) -> int | None:
        """Samples of the longest recording that a model reads as its input; None for texts."""
        return None

    def input_in(self, inputs: str, folder: str) -> str:
        """Return the input of a row of a table in a folder; other than texts, paths are relative to it.

        Args:
          inputs: Input of the row.
          folder: Folder of the table; empty for the current one.
        """
        del folder
        return inputs

    def recording(self, inputs: str) -> Recording | None:
        """Return the recording that an input is the path of; None for texts.

        Args:
          inputs: Input of a row.

        Raises:
          ValueError: There is no such file, or a model can't read it.
        """
        del inputs
        return None

    @property
    def predicts_number(self) -> bool:
        """True if a head predicts a number for each row."""
        return False

    @property
    def group_columns(self) -> tuple[str, ...]:
        """Columns of the groups that metrics compare as a whole, such as ``idx/question``, a field of ``idx``."""
        return ()

    def sample(
        self, rows: Iterable[RowT], limit: int | None, *, values_of: Callable[[RowT], RowValues]
    ) -> list[tuple[int, RowT]]:
        """Return rows of a split with their positions, the same sample each time.

        Groups that metrics compare stay whole. If the task doesn't name their columns, the sample is its first rows.

        Args:
          rows: All rows of the split.
          limit: Most rows of the sample; None for all.
          values_of: Function from a row to its columns.
        """
        if columns := self.group_columns:
            return sample_of(rows, limit, group_of=lambda row: _values_at(values_of(row), columns))
        if limit is not None and any(map(is_over_groups, self.metric_functions)):
            return list(islice(enumerate(rows), limit))
        return sample_of(rows, limit)

    @property
    @abstractmethod
    def metric_functions(self) -> Sequence[MetricFunction]:
        """Metrics, functions of targets and predictions that return scores."""

    @property
    def postprocessor(self) -> Postprocess | None:
        """Function from a text, target or prediction, to the value that metrics compare; None keeps the text."""
        return None

    @abstractmethod
    def word_question(self, line: str) -> str:
        """Return a user's line as input for a model, formatted as in training."""

    @abstractmethod
    def head_metrics(self) -> Sequence[MetricFunction]:
        """Return the metrics of a head's predictions.

        Raises:
          ValueError: No head reads the task, or a metric doesn't fit its predictions.
        """

    def raw_rows(self, split: str, policy: RowPolicy | None = None) -> Iterator[RawRow]:
        """Yield the columns of a split's rows, before formatting.

        Args:
          split: Split to read.
          policy: Counter of skipped rows; by default one for ``on_bad_row``.

        Raises:
          ValueError: As ``read``.
        """
        yield from self._good_rows(split, policy, self._raw_rows)

    @abstractmethod
    def _raw_rows(self, file: str) -> Iterator[RawRow | BadRow]:
        """Yield the rows of one file as ``head_format`` reads them, good and bad."""

    @abstractmethod
    def line_columns(self, line: str) -> Mapping[str, object]:
        """Return a user's line as columns for ``head_format``.

        Raises:
          ValueError: The line has another form.
        """

    @property
    @abstractmethod
    def input_columns(self) -> tuple[str, ...]:
        """Columns that the input is made of, in order; empty if rows can't have them under other names."""

    @abstractmethod
    def word_row(self, values: Mapping[str, object]) -> str:
        """Return a row, with or without a label, as input for a model that writes.

        Raises:
          ValueError: A column is missing, or its cell is no text.
        """

    @abstractmethod
    def row_columns(self, values: Mapping[str, object]) -> Mapping[str, object]:
        """Return a row without its label as columns for ``head_format``.

        Raises:
          ValueError: As ``word_row``.
        """

    def row_task(self) -> "PairsTask":
        """Return the task of rows that a head predicts; another one if training compares several answers."""
        return self

    def head_rows(self, split: str, policy: RowPolicy | None = None) -> Iterator[LabeledRow]:
        """Yield the rows of a split for a head, labeled or not.

        Args:
          split: Split to read.
          policy: Counter of skipped rows; by default one for ``on_bad_row``.

        Raises:
          ValueError: No head reads the task, no such split or file, or a bad row (under ``on_bad_row="fail"``),
            located by file and line.
        """
        head_format = self.head_format()

        def labeled(raw: RawRow) -> LabeledRow:
            try:
                row = head_format.read(raw.values)
                return row._replace(declared=self._declared(raw.values), values=raw.values)
            except ValueError as error:
                raise ValueError(self._with_users_columns(str(error))) from None

        yield from self._good_rows(split, policy, lambda file: convert(self._raw_rows(file), labeled))

    def _with_users_columns(self, message: str) -> str:
        """Return a message about a row with the names that its columns have in the file."""
        return message

    @property
    def spec(self) -> ExampleSpec:
        return PAIRS.with_streams(self.declared_streams)

    def features(self) -> tuple[Feature, ...]:
        return INPUTS, TARGETS, *(Feature(name=each, dtype="float32") for each in self.streams)

    def tokenize(self, rows: Sequence[TextPair]) -> list[Mapping[str, Any]]:
        tokenizer = self.tokenizer
        inputs = tokenizer.encode_all([row.inputs for row in rows])
        targets = tokenizer.encode_all([row.targets for row in rows])
        return [
            {"inputs": left, "targets": right, **{name: [value] for name, value in row.declared.items()}}
            for left, right, row in zip(inputs, targets, rows, strict=True)
        ]

    def accept(self, visitor: TaskVisitor[FoundT]) -> FoundT:
        return visitor.pairs(self)

    def shown(self, row: TextPair) -> dict[str, object]:
        return dict(row.row)


def _values_at(values: RowValues, columns: Sequence[str]) -> tuple[object, ...]:
    """Return the values of columns; ``idx/question`` is the field "question" of the column "idx"."""
    return tuple(
        functools.reduce(lambda value, part: value[part], name.split("/"), values) for name in columns
    )


def columns_of_line(task: str, columns: Sequence[str], line: str) -> Mapping[str, object]:
    """Parse a user's line, a JSON object with the columns of a task's input.

    Args:
      task: Name of the task, for messages.
      columns: Columns that the input needs.
      line: Text to parse.

    Raises:
      ValueError: The line has another form; the message says where.
    """
    try:
        value = json_object(line)
    except json.JSONDecodeError as error:
        raise needs_columns(task, columns, line, describe_invalid_json(error)) from None
    except ValueError as error:
        raise needs_columns(task, columns, line, str(error)) from None
    absent = [name for name in columns if name not in value]
    if absent:
        raise needs_columns(task, columns, line, f"it lacks {', '.join(absent)}")
    return value


def needs_columns(task: str, columns: Sequence[str], line: str, problem: str) -> ValueError:
    """Return an error for a user's line that isn't an object with the columns of a task's input.

    Args:
      task: Name of the task.
      columns: Columns of its input.
      line: Line that the user gave.
      problem: Reason that the line doesn't fit.
    """
    example = json.dumps(dict.fromkeys(columns, "…"), ensure_ascii=False)
    count = f"{len(columns)} column{'s' * (len(columns) != 1)}"
    return ValueError(
        f"task {task!r} has {count} in its input; give each line as {example}, not {line!r} ({problem})"
    )
