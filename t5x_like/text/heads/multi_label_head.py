"""A head that predicts any number of classes for each text: one probability for each class."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from t5x_like.nested_values import one_or_several
from t5x_like.text.heads.head_answers import Answer, Head, Probabilities, Written, rounded
from t5x_like.text.heads.input_format import EncoderInput
from t5x_like.text.heads.labeled_rows import LabeledExample, LabeledRow
from t5x_like.text.heads.row_cells import UNLABELED, as_text, class_number, filled
from t5x_like.text.heads.sequence_head import SequenceClassification
from t5x_like.text.metrics.by_name import MetricFunction
from t5x_like.text.metrics.label_sets import label_set_metrics
from t5x_like.text.objectives.objective import LabelLoss
from t5x_like.text.templates import RowValues

_DEFAULT_METRICS = ("micro_f1", "macro_f1")


@dataclass(frozen=True, kw_only=True)
class MultiLabelClassification(SequenceClassification):
    """Any number of classes for each text or pair of texts: ``multi_label_classification`` of transformers.

    Each class has a sigmoid of its own. The loss is the mean of all classes' binary cross entropies.

    Attributes:
      texts: Templates of one text or two.
      classes: Names of the classes by number.
      label: Column with a list of classes. An empty list means that none applies; unlabeled rows have no list.
      separator: String between the classes of a cell that is a text; None reads such a cell as one class.
      threshold: Probability above which a class is predicted.
    """

    separator: str | None = None
    threshold: float = 0.5

    has_label_sets: ClassVar[bool] = True
    label_loss: ClassVar[LabelLoss | None] = "multi_label"

    def __post_init__(self) -> None:
        if not 0.0 < self.threshold < 1.0:
            raise ValueError(
                f"threshold is {self.threshold}; give a probability between 0 and 1, such as 0.5"
            )
        if self.separator == "":
            raise ValueError("separator is empty; give the string between two classes, such as '|'")
        if self.separator and (wrong := [name for name in self.classes if self.separator in name]):
            raise ValueError(
                f"class {wrong[0]!r} contains separator={self.separator!r}; give another separator"
            )
        if self.keeps_unlabeled:
            raise ValueError("keeps_unlabeled=True needs one class for each row, and rows here have several")

    @property
    def head(self) -> Head:
        return Head("sequence_classification", len(self.classes), "multi_label")

    @property
    def label_separator(self) -> str:
        """Implement ``HeadFormat``: ``separator``, or by default one that no class contains."""
        if self.separator is not None:
            return self.separator
        return ", " if not any("," in name for name in self.classes) else "|"

    def read(self, values: RowValues) -> LabeledRow:
        texts = tuple(filled(text, values) for text in self.texts)
        return LabeledRow(texts=(texts,), classes=self._classes_of(values.get(self.label)))

    def _classes_of(self, cell: object) -> tuple[int, ...] | None:
        """Return the sorted numbers of a cell's classes; None for an unlabeled row."""
        if cell is None:
            return None
        labels = labels_of(cell, self.separator)
        numbers = [class_number(label, self.classes, self.label) for label in labels]
        if numbers == [UNLABELED]:
            return None
        if UNLABELED in numbers:
            raise ValueError(f"{self.label} holds -1, which marks an unlabeled row, among other classes")
        if len(set(numbers)) < len(numbers) and not any(isinstance(each, str) for each in labels):
            raise ValueError(
                f"{self.label} is {list(labels)}, which names a class twice; give the classes that apply, not 0 or 1 "
                "for each class"
            )
        return tuple(sorted(set(numbers)))

    def is_labeled(self, row: LabeledRow) -> bool:
        return row.classes is not None

    def examples_of(
        self, row: LabeledRow, origin: int, inputs: list[EncoderInput]
    ) -> Iterable[LabeledExample]:
        classes = (UNLABELED,) if row.classes is None else row.classes
        return [LabeledExample(tuple(inputs), origin, classes=np.array(classes, np.int32))]

    def answers_of(
        self,
        rows: Sequence[LabeledRow],
        scores: Sequence[np.ndarray],
        word_starts: Callable[[int], np.ndarray],
    ) -> list[Answer]:
        """Return the classes of each row whose probability is above ``threshold``."""
        del rows, word_starts
        return [np.flatnonzero(_sigmoid(row) > self.threshold).tolist() for row in scores]

    def probabilities(
        self,
        rows: Sequence[LabeledRow],
        scores: Sequence[np.ndarray],
        word_starts: Callable[[int], np.ndarray],
        labels: Sequence[str],
    ) -> list[Probabilities]:
        """Return each class's probability; those of a row don't sum to 1."""
        del rows, word_starts
        names, probabilities = labels or self.classes, []
        for row in scores:
            shares, predicted = _sigmoid(row), _sigmoid(row) > self.threshold
            by_class = dict(zip(names, rounded(shares), strict=True))
            probabilities.append(Probabilities(rounded(shares[predicted]), by_class))
        return probabilities

    @property
    def metrics_by_name(self) -> Mapping[str, MetricFunction]:
        return label_set_metrics(self.classes)

    def metrics(self, functions: Sequence[MetricFunction]) -> Sequence[MetricFunction]:
        return functions or [self.metrics_by_name[name] for name in _DEFAULT_METRICS]

    def most_frequent(self, rows: Sequence[LabeledRow]) -> Answer | None:
        """Return the most frequent set of classes."""
        return list(Counter(row.classes or () for row in rows).most_common(1)[0][0])

    def target(self, row: LabeledRow) -> list[str]:
        """Return the names of the row's classes."""
        return [self.classes[label] for label in row.classes or ()]

    def written(self, answer: Answer, labels: Sequence[str]) -> Written:
        """Return the names of the predicted classes."""
        assert isinstance(answer, list)
        return [(labels or self.classes)[label] for label in answer]

    def written_target(self, row: LabeledRow, labels: Sequence[str]) -> list[str]:
        del labels
        return self.target(row)


def labels_of(cell: object, separator: str | None) -> list[object]:
    """Return the labels of a cell: the items of a list, or the parts of a text; an empty text has none.

    Args:
      cell: List, text or number.
      separator: String between the labels of a text; None for one label.

    Raises:
      ValueError: The cell is an object, or has an empty part or null among its labels.
    """
    if isinstance(cell, Mapping):
        raise ValueError(f"the labels are an object, {dict(cell)}; give a list of them")
    if isinstance(cell, bytes | str):
        text = as_text(cell).strip()
        parts: list[Any] = [text] if separator is None else [part.strip() for part in text.split(separator)]
        labels: list[object] = parts if text else []
    else:
        labels = list(one_or_several(cell))
    labels = [as_text(label).strip() if isinstance(label, bytes | str) else label for label in labels]
    if None in labels or "" in labels:
        raise ValueError(f"the labels are {cell!r}, of which one is empty; leave it out")
    return labels


def _sigmoid(scores: np.ndarray) -> np.ndarray:
    """Return probabilities in float64, without an overflow at scores far below 0."""
    return np.exp(-np.logaddexp(0.0, -np.float64(scores)))
