"""Tasks of inputs and targets as text, from any source."""

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from t5x_like.config_class import config_class
from t5x_like.io.files import json_value
from t5x_like.text.heads.head_format import HeadRow
from t5x_like.text.heads.input_format import InputFraming
from t5x_like.text.metrics.by_name import MetricFunction
from t5x_like.text.objectives.objective import ExampleSpec
from t5x_like.text.tasks.file_task import FileTask, FoundT, TaskVisitor
from t5x_like.text.tasks.row_files import describe_invalid_json
from t5x_like.text.tasks.rows import BadRow, RawRow, RowPolicy

PAIRS = ExampleSpec(layout="encoder_decoder")


class TextPair(NamedTuple):
    """One example as text.

    Attributes:
      inputs: Input text.
      targets: Target text.
      row: Columns of the source row.
      place: Source of the row (``file:line``).
      extras: Further features for postprocessing and metrics.
    """

    inputs: str
    targets: str
    row: Mapping[str, Any]
    place: str
    extras: Mapping[str, Any] = {}


class LabeledRow(NamedTuple):
    """Row as a head reads it, with the source row.

    Attributes:
      row: Texts and label.
      raw: Source row.
    """

    row: HeadRow
    raw: RawRow


@config_class
class PairsTask(FileTask[TextPair]):
    """Base of tasks that read rows as inputs and targets, and score predictions.

    Attributes:
      framing: Special tokens around the texts that a head reads; None for those of the vocabulary.
    """

    framing: InputFraming | None = None

    @property
    @abstractmethod
    def answers(self) -> tuple[str, ...]:
        """All possible answers, for metrics and ranking; empty if answers are open."""

    @property
    def continues_inputs(self) -> bool:
        """True if a decoder's answer continues the inputs, so that prompts need no marker before it."""
        return False

    @property
    @abstractmethod
    def metric_functions(self) -> Sequence[MetricFunction]:
        """Metrics, functions of targets and predictions that return scores."""

    @abstractmethod
    def word_question(self, line: str) -> str:
        """Implement ``FileTask``."""

    @abstractmethod
    def head_metrics(self) -> Sequence[MetricFunction]:
        """Return the metrics of a head's predictions.

        Raises:
          ValueError: No head reads the task, or a metric doesn't fit its predictions.
        """

    def raw_rows(self, split: str, policy: RowPolicy | None = None) -> Iterator[RawRow]:
        """Yield the columns of a split's rows, before wording.

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
    def line_columns(self, line: str) -> Mapping[str, Any]:
        """Return a user's line as columns for ``head_format``.

        Raises:
          ValueError: The line has another form.
        """

    @property
    @abstractmethod
    def input_columns(self) -> tuple[str, ...]:
        """Columns that the input is made of, in order; empty if rows can't have them under other names."""

    @abstractmethod
    def word_row(self, values: Mapping[str, Any]) -> str:
        """Return a row, with or without a label, as input for a model that writes.

        Raises:
          ValueError: A column is missing, or its cell is no text.
        """

    @abstractmethod
    def row_columns(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a row without its label as columns for ``head_format``.

        Raises:
          ValueError: As ``word_row``.
        """

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

        def read(file: str) -> Iterator[LabeledRow | BadRow]:
            for raw in self._raw_rows(file):
                if isinstance(raw, BadRow):
                    yield raw
                    continue
                try:
                    yield LabeledRow(head_format.read(raw.values), raw)
                except ValueError as error:
                    yield BadRow(self._with_users_columns(str(error)), raw.place)

        yield from self._good_rows(split, policy, read)

    def _with_users_columns(self, message: str) -> str:
        """Return a message about a row with the names that its columns have in the file."""
        return message

    @property
    def spec(self) -> ExampleSpec:
        """Implement ``FileTask``."""
        return PAIRS

    def feature_names(self) -> tuple[str, ...]:
        """Implement ``FileTask``."""
        return "inputs", "targets"

    def tokenize(self, rows: Sequence[TextPair]) -> list[Mapping[str, Any]]:
        """Implement ``FileTask``."""
        tokenizer = self.tokenizer
        inputs = tokenizer.encode_all([row.inputs for row in rows])
        targets = tokenizer.encode_all([row.targets for row in rows])
        return [{"inputs": left, "targets": right} for left, right in zip(inputs, targets, strict=True)]

    def accept(self, visitor: TaskVisitor[FoundT]) -> FoundT:
        """Implement ``FileTask``."""
        return visitor.pairs(self)

    def shown(self, row: TextPair) -> dict[str, Any]:
        """Implement ``FileTask``."""
        return dict(row.row)


def columns_of_line(task: str, columns: Sequence[str], line: str) -> Mapping[str, Any]:
    """Parse a user's line, a JSON object with the columns of a task's input.

    Args:
      task: Name of the task, for messages.
      columns: Columns that the input needs.
      line: Text to parse.

    Raises:
      ValueError: The line has another form; the message says where.
    """
    try:
        value = json_value(line)
    except json.JSONDecodeError as error:
        raise needs_columns(task, columns, line, describe_invalid_json(error)) from None
    if not isinstance(value, dict):
        raise needs_columns(task, columns, line, "it is no object")
    absent = [name for name in columns if name not in value]
    if absent:
        raise needs_columns(task, columns, line, f"it lacks {', '.join(absent)}")
    return value


def needs_columns(task: str, columns: Sequence[str], line: str, problem: str) -> ValueError:
    """Return an error for a user's line that isn't an object with the columns of a task's input."""
    example = json.dumps(dict.fromkeys(columns, "…"), ensure_ascii=False)
    count = f"{len(columns)} column{'s' * (len(columns) != 1)}"
    return ValueError(
        f"task {task!r} has {count} in its input; give each line as {example}, not {line!r} ({problem})"
    )
