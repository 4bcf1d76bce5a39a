"""Tables with any number of labels for each row: lists, or names in one cell such as ``action|comedy``."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from t5x_like.gin_config.user_error import UserError
from t5x_like.projects.project_rows import ProjectRow, listed, shown
from t5x_like.projects.table import TableRow
from t5x_like.projects.task_kinds import HEAD_TEMPLATE, TaskKind, in_order
from t5x_like.text.heads.multi_label_head import labels_of

_SHOWN_LABELS = 12


class MultiLabelPrediction(TaskKind):
    """Any number of labels for each text or pair of texts."""

    template: ClassVar[str] = HEAD_TEMPLATE

    def _answer(self, row: TableRow) -> list[str]:
        labels = labels_of(self._cell(row, self.columns.label), self.columns.separator)
        return in_order({str(label): None for label in labels})

    def _strata(self, answer: Sequence[str]) -> tuple[str, ...]:
        return tuple(answer)

    def check(self, rows: Sequence[ProjectRow]) -> None:
        if len({row.strata for row in rows}) == 1:
            raise UserError(
                f"column {self.columns.label!r} has the same labels, {rows[0].answer}, in all {len(rows):,} rows",
                hint="give rows with others, or another label=COLUMN",
            )

    def settings(self, rows: Sequence[ProjectRow]) -> Mapping[str, object]:
        names = in_order(self._sizes(rows))
        separator = {} if self.columns.separator is None else {"separator": self.columns.separator}
        return {
            "labels": tuple(names),
            "metrics": ("micro_f1", "macro_f1", "accuracy"),
            "model_task": "sequence_classification",
            "num_labels": len(names),
            "head_module": "multi_label_head",
            "head": "MultiLabelClassification",
            "head_fields": {
                "texts": tuple(f"{{{column}}}" for column in self.columns.texts),
                "classes": "%LABELS",
                "label": self.columns.label,
                **separator,
            },
        }

    def lines(self, rows: Sequence[ProjectRow]) -> Iterator[str]:
        sizes, numbers = self._sizes(rows), [len(row.strata) for row in rows]
        shares = [f"{shown(name)} {size / len(rows):.1%}" for name, size in sizes.most_common(_SHOWN_LABELS)]
        shares += [shown(name) for name in list(sizes)[_SHOWN_LABELS:]]
        between = f", separated by {self.columns.separator!r}" if self.columns.separator else ""
        yield (
            f"label: column {self.columns.label!r}, {min(numbers)} to {max(numbers)} labels for each row{between}, of "
            f"{len(sizes)}: {listed(shares, _SHOWN_LABELS)}"
        )

    def _sizes(self, rows: Sequence[ProjectRow]) -> Counter[str]:
        return Counter(label for row in rows for label in row.strata)
