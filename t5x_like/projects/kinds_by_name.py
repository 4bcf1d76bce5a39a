"""All kinds of tasks by the names of ``t5x-like new --task``."""

from collections.abc import Mapping, Sequence

from t5x_like.projects.column_guess import Kind
from t5x_like.projects.head_kinds import Answers, NumberPrediction, Tagging
from t5x_like.projects.multi_label_kind import MultiLabelPrediction
from t5x_like.projects.project_rows import ProjectRow
from t5x_like.projects.table import TableRow
from t5x_like.projects.task_kinds import Classification, TaskKind
from t5x_like.projects.text_kinds import PlainTextPretraining, TextToText

KINDS: Mapping[Kind, type[TaskKind]] = {
    "classify": Classification,
    "multilabel": MultiLabelPrediction,
    "regress": NumberPrediction,
    "tags": Tagging,
    "answers": Answers,
    "text": TextToText,
    "pretrain": PlainTextPretraining,
}


def read_rows_of(kind: TaskKind, rows: Sequence[TableRow]) -> tuple[list[ProjectRow], list[str]]:
    """Return the rows that can be used, and the reasons why others can't.

    Args:
      kind: Task of the project.
      rows: Rows of the table.
    """
    usable, reasons = [], []
    for row in rows:
        try:
            usable.append(kind.read(row))
        except ValueError as error:
            reasons.append(f"{row.location}: {error}")
    return usable, reasons
