"""Tasks of inputs and targets as text, wherever their rows come from."""

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from t5x_like.config_class import config_class
from t5x_like.text.heads.head_format import HeadRow
from t5x_like.text.metrics.by_name import MetricFunction
from t5x_like.text.objectives.objective import ExampleSpec
from t5x_like.text.tasks.file_task import FileTask, FoundT, TaskVisitor
from t5x_like.text.tasks.rows import BadRow, RawRow, RowPolicy

PAIRS = ExampleSpec(layout="encoder_decoder")


class TextPair(NamedTuple):
    """One example as text, and the row it came from."""

    inputs: str
    targets: str
    row: Mapping[str, Any]
    place: str
    extras: Mapping[str, Any] = {}


class LabelledRow(NamedTuple):
    """A row as a head reads it, and as it came."""

    row: HeadRow
    raw: RawRow


@config_class
class PairsTask(FileTask[TextPair]):
    """Reads rows as pairs of inputs and targets, and scores answers to them."""

    @property
    @abstractmethod
    def answers(self) -> tuple[str, ...]:
        """Every answer there can be, for metrics and for ranking; empty where answers are open."""

    @property
    @abstractmethod
    def metric_functions(self) -> Sequence[MetricFunction]:
        """The metrics, from true and predicted answers to scores."""

    @abstractmethod
    def word_question(self, line: str) -> str:
        """See ``FileTask``."""

    @abstractmethod
    def raw_rows(self, split: str, policy: RowPolicy | None = None) -> Iterator[RawRow]:
        """Yields the rows of a split as ``head_format`` reads them.

        Raises:
          ValueError: as ``read``.
        """

    @abstractmethod
    def line_columns(self, line: str) -> Mapping[str, Any]:
        """A user's line as the columns that ``head_format`` reads.

        Raises:
          ValueError: it isn't that.
        """

    def head_rows(self, split: str, policy: RowPolicy | None = None) -> Iterator[LabelledRow]:
        """Yields the rows of a split for a head, labelled or not.

        Raises:
          ValueError: no head reads the task, no such split or file, or a bad row (under ``on_bad_row="fail"``), named
            by file and line.
        """
        head_format = self.head_format()
        policy = RowPolicy(self.on_bad_row) if policy is None else policy
        for raw in self.raw_rows(split, policy):
            try:
                yield LabelledRow(head_format.read(raw.values), raw)
            except ValueError as error:
                policy.take(BadRow(str(error), raw.place))

    @property
    def spec(self) -> ExampleSpec:
        """See ``FileTask``."""
        return PAIRS

    def feature_names(self) -> tuple[str, ...]:
        """See ``FileTask``."""
        return "inputs", "targets"

    def tokenize(self, rows: Sequence[TextPair]) -> list[Mapping[str, Any]]:
        """See ``FileTask``."""
        tokenizer = self.tokenizer
        inputs = tokenizer.encode_all([row.inputs for row in rows])
        targets = tokenizer.encode_all([row.targets for row in rows])
        return [{"inputs": left, "targets": right} for left, right in zip(inputs, targets, strict=True)]

    def accept(self, visitor: TaskVisitor[FoundT]) -> FoundT:
        """See ``FileTask``."""
        return visitor.pairs(self)

    def shown(self, row: TextPair) -> dict[str, Any]:
        """See ``FileTask``."""
        return dict(row.row)


def columns_needed(task: str, columns: Sequence[str], line: str) -> str:
    """What to tell a user whose line lacks columns."""
    example = json.dumps(dict.fromkeys(columns, "…"), ensure_ascii=False)
    return f"task {task!r} words {len(columns)} columns into its input; give each line as {example}, not {line!r}"
