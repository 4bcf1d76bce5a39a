"""The form of an analysis: options in, and numbers, tables and pictures out."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from t5x_like.config_class import config_class
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained

Row = Mapping[str, Any]


class AnalysisFigure(NamedTuple):
    """A picture with its text.

    Attributes:
      title: Heading.
      caption: Sentences that say what the picture shows.
      svg: SVG element of ``reports.svg_figure``.
    """

    title: str
    caption: str
    svg: str


class AnalysisTable(NamedTuple):
    """A table with its text.

    Attributes:
      title: Heading.
      caption: Sentences that say what the table shows.
      header: Names of the columns; one that begins with ``>`` has numbers.
      rows: Cells of each row.
    """

    title: str
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[object]]


class AnalysisResult(NamedTuple):
    """Result of an analysis.

    Attributes:
      headlines: The few most important numbers by name.
      values: All numbers, as JSON.
      figures: Pictures for the page.
      tables: Tables for the page.
    """

    headlines: Mapping[str, float]
    values: Mapping[str, Any]
    figures: Sequence[AnalysisFigure] = ()
    tables: Sequence[AnalysisTable] = ()


@config_class
class Analysis(ABC):
    """Base of analyses. Fields are their options.

    Attributes:
      text: Column of the texts.
      batch_size: Number of texts that the model reads at once.
      max_length: Number of tokens to cut texts to; ``None`` for as many as the model reads.
    """

    text: str = "text"
    batch_size: int = 16
    max_length: int | None = None

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size is {self.batch_size}; give at least 1")
        if self.max_length is not None and self.max_length < 1:
            raise ValueError(f"max_length is {self.max_length}; give at least 1 token")

    @abstractmethod
    def run(self, model: Pretrained, rows: Sequence[Row]) -> AnalysisResult:
        """Analyze a model.

        Args:
          model: Model with its tokenizer.
          rows: Rows of a table, by the names of its columns.

        Raises:
          ValueError: The rows or the model don't have what the analysis needs.
        """

    def texts_of(self, rows: Sequence[Row]) -> list[str]:
        """Return the texts of rows.

        Raises:
          ValueError: There is no row, a row has no such column, or its cell is empty.
        """
        return cells_of(rows, self.text)


def rows_of(texts: Iterable[str]) -> list[Row]:
    """Return texts as rows of a table with the column ``text``."""
    return [{"text": text} for text in texts]


def cells_of(rows: Sequence[Row], column: str) -> list[str]:
    """Return a column of texts.

    Args:
      rows: Rows of a table.
      column: Name of the column.

    Raises:
      ValueError: There is no row, a row has no such column, or its cell is empty.
    """
    if not rows:
        raise ValueError("there are no texts; give at least one")
    for index, row in enumerate(rows, start=1):
        if column not in row:
            raise ValueError(
                f"row {index} has no column {column!r}; it has {', '.join(map(repr, row)) or 'none'}"
            )
        if not str(row[column]).strip():
            raise ValueError(f"row {index} has an empty cell in the column {column!r}")
    return [str(row[column]) for row in rows]


def numbers_of(rows: Sequence[Row], column: str) -> np.ndarray:
    """Return a column of numbers.

    Args:
      rows: Rows of a table.
      column: Name of the column.

    Raises:
      ValueError: A row has no such column, or its cell is no finite number.
    """
    cells = cells_of(rows, column)
    numbers = []
    for index, cell in enumerate(cells, start=1):
        try:
            numbers.append(float(cell))
        except ValueError:
            numbers.append(np.nan)
        if not np.isfinite(numbers[-1]):
            raise ValueError(f"row {index} has {cell!r} in the column {column!r}; a number is needed")
    return np.array(numbers)


def as_json(values: Any) -> Any:
    """Return nested values with NumPy's numbers and arrays as those of Python, and ``None`` for NaN and infinity."""
    if isinstance(values, Mapping):
        return {str(name): as_json(value) for name, value in values.items()}
    if isinstance(values, np.ndarray | np.generic):
        return as_json(values.tolist())
    if isinstance(values, list | tuple):
        return [as_json(value) for value in values]
    return None if isinstance(values, float) and not math.isfinite(values) else values
