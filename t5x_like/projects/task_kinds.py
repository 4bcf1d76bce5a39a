"""Kinds of tasks that a table may hold: reading of its rows, and the settings of a recipe for them."""

import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from t5x_like.gin_config.user_error import UserError
from t5x_like.projects.base_model import BaseModel
from t5x_like.projects.column_guess import KINDS_ABOUT, ColumnGuess
from t5x_like.projects.project_rows import ProjectRow, listed, shown
from t5x_like.projects.run_sizes import RunSizes, TokenLengths, head_sizes, measure_lengths
from t5x_like.projects.table import TableRow


@dataclass(frozen=True, kw_only=True)
class RunChoices:
    """Choices for a run on a table.

    Attributes:
      lengths: Lengths of the rows.
      sizes: Batches, steps and rates.
      epochs: Number of times that each row is read.
      values: Values of the recipe's template.
    """

    lengths: TokenLengths
    sizes: RunSizes
    epochs: float
    values: Mapping[str, Any]


_MANY_TIMES = 3  # classes that differ more than this in size are unbalanced
_SHOWN_CLASSES = 12
HEAD_TEMPLATE = "head_from_table.gin.jinja"
_OF_SHELLS = r"""["'$`\\!]"""  # signs with a meaning in quotes of a shell


@dataclass(frozen=True, kw_only=True)
class TaskKind(ABC):
    """One kind of task.

    Attributes:
      columns: Columns of the table.
      template: File of ``gin/projects`` that is filled.
    """

    columns: ColumnGuess

    template: ClassVar[str]

    def __post_init__(self) -> None:
        for name in self.columns.read:
            if not name or set(name) & set("{}!:"):
                raise UserError(
                    f"the column {name!r} can't be named in a template; rename it without braces, '!' and ':'"
                )

    @property
    def about(self) -> str:
        """Description of the model, which continues "A model that"."""
        return KINDS_ABOUT[self.columns.kind]

    def texts_of(self, row: ProjectRow) -> tuple[str, ...]:
        """Return the texts that the model reads or writes."""
        return row.texts

    def read(self, row: TableRow) -> ProjectRow:
        """Return the cells that the model needs.

        Raises:
          ValueError: The row can't be used; the message says why.
        """
        texts = tuple(self._text(row, name) for name in self.columns.texts)
        group = row.cells.get(self.columns.group, "") if self.columns.group is not None else ""
        answer = self._answer(row)
        cells: dict[str, Any] = dict(zip(self.columns.texts, texts, strict=True))
        if self.columns.label:
            cells[self.columns.label] = answer
        return ProjectRow(cells, texts, str(answer), self._strata(answer), str(group), row.location)

    @abstractmethod
    def _answer(self, row: TableRow) -> Any:
        """Return the label to write; see ``read``."""

    def _strata(self, answer: object) -> tuple[str, ...]:
        """Return the labels whose shares both splits keep."""
        del answer
        return ()

    @abstractmethod
    def check(self, rows: Sequence[ProjectRow]) -> None:
        """Check that there is something to learn.

        Raises:
          UserError: There isn't.
        """

    def choose(
        self, base: BaseModel, *, train: Sequence[ProjectRow], rows: Sequence[ProjectRow]
    ) -> RunChoices:
        """Choose lengths and steps, here those of a head.

        Args:
          base: Model to begin with.
          train: Rows of training.
          rows: Rows of both splits.

        Raises:
          UserError: The model can't learn such a task.
        """
        lengths = measure_lengths([row.texts for row in rows], base.tokenizer, max_length=base.max_length)
        sizes = head_sizes(len(train), base)
        templates = {
            "inputs_length": lengths.row_length,
            "input_template": " ".join(f"{{{column}}}" for column in self.columns.texts),
            "target_template": f"{{{self.columns.label}}}",
        }
        return RunChoices(
            lengths=lengths,
            sizes=sizes,
            epochs=sizes.epochs(len(train)),
            values={**templates, **self.settings(rows)},
        )

    @abstractmethod
    def settings(self, rows: Sequence[ProjectRow]) -> Mapping[str, object]:
        """Return what the template needs to know of all rows."""

    @abstractmethod
    def lines(self, rows: Sequence[ProjectRow]) -> Iterator[str]:
        """Yield lines of a report on the labels."""

    def input_argument(self, row: ProjectRow) -> str:
        """Return a row's texts as an argument of ``t5x-like predict --input``."""
        words = [" ".join(re.sub(_OF_SHELLS, " ", text).split())[:60] for text in row.texts]
        if len(words) == 1:
            return f'"{words[0]}"'
        return f"'{json.dumps(dict(zip(self.columns.texts, words, strict=True)), ensure_ascii=False)}'"

    def _text(self, row: TableRow, name: str) -> str:
        cell = self._cell(row, name)
        if not isinstance(cell, str):
            raise ValueError(f"{name!r} is no text but a {'list' if type(cell) is list else 'record'}")
        return cell

    def _cell(self, row: TableRow, name: str) -> object:
        if name not in row.cells:
            raise ValueError(f"{name!r} is empty")
        return row.cells[name]


@dataclass(frozen=True, kw_only=True)
class Classification(TaskKind):
    """One class for each text or pair of texts."""

    template: ClassVar[str] = HEAD_TEMPLATE

    def _answer(self, row: TableRow) -> str:
        return self._text(row, self.columns.label).strip()

    def _strata(self, answer: str) -> tuple[str, ...]:
        return (answer,)

    def check(self, rows: Sequence[ProjectRow]) -> None:
        sizes, label = Counter(row.answer for row in rows), self.columns.label
        if len(sizes) == 1:
            raise UserError(
                f"column {label!r} has one label, {shown(next(iter(sizes)))}, in all {len(rows):,} rows; a classifier "
                "needs two or more",
                hint="give rows of other classes, or another label=COLUMN",
            )
        if len(sizes) > max(2, len(rows) // 2):
            raise UserError(
                f"column {label!r} has {len(sizes):,} labels in {len(rows):,} rows, so most classes have one row to "
                "learn from",
                hint="task=text learns to write such answers, task=regress predicts numbers; or give another "
                "label=COLUMN",
            )

    def settings(self, rows: Sequence[ProjectRow]) -> Mapping[str, object]:
        names = in_order(Counter(row.answer for row in rows))
        is_pair = len(self.columns.texts) > 1
        return {
            "labels": tuple(names),
            "metrics": ("macro_f1", "accuracy") if self._is_unbalanced(rows) else ("accuracy", "macro_f1"),
            "model_task": "sequence_classification",
            "num_labels": len(names),
            "head_module": "sequence_head" if is_pair else None,
            "head": "SequenceClassification",
            "head_fields": {
                "texts": tuple(f"{{{column}}}" for column in self.columns.texts),
                "classes": "%LABELS",
                "label": self.columns.label,
            },
        }

    def lines(self, rows: Sequence[ProjectRow]) -> Iterator[str]:
        sizes = Counter(row.answer for row in rows)
        shares = [f"{shown(name)} {size / len(rows):.1%}" for name, size in sizes.most_common(_SHOWN_CLASSES)]
        yield f"label: column {self.columns.label!r}, {len(sizes)} classes: {listed(shares, _SHOWN_CLASSES - 1)}"
        if self._is_unbalanced(rows):
            yield "  unbalanced, so the first metric is macro F1, in which each class counts the same"
        folded = Counter(name.casefold() for name in sizes)
        if twins := [shown(name) for name in in_order(sizes) if folded[name.casefold()] > 1]:
            yield f"  these differ only in their case: {listed(twins, _SHOWN_CLASSES)}"

    def _is_unbalanced(self, rows: Sequence[ProjectRow]) -> bool:
        sizes = Counter(row.answer for row in rows).values()
        return max(sizes) > _MANY_TIMES * min(sizes)


def in_order(names: Mapping[str, object]) -> list[str]:
    """Return names in their order: numbers by value, others by letters."""
    return sorted(names, key=lambda name: (0, float(name), name) if _is_decimal(name) else (1, 0.0, name))


def _is_decimal(name: str) -> bool:
    return name.removeprefix("-").replace(".", "", 1).isdecimal()
