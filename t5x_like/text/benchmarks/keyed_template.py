"""T5's plain prompt template: the benchmark's word, then each text after its name (Raffel et al. 2020, appendix D)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from t5x_like.text.benchmarks.benchmark import Benchmark, FormattedRow, GoldenExample, MetricFunction
from t5x_like.text.benchmarks.source import BenchmarkSource
from t5x_like.text.heads import HeadFormat, SequenceClassification
from t5x_like.text.metrics import accuracy
from t5x_like.text.postprocessing import string_label_to_class_id
from t5x_like.text.templates import RowValues

UNLABELED = "<unk>"  # the target of rows without a label


def label_word(row: RowValues, labels: Sequence[str], column: str = "label") -> str:
    """Return the word of a row's label, or ``<unk>`` for -1.

    Args:
      row: The row.
      labels: Words in the order of class ids.
      column: Name of the label's column.

    Raises:
      ValueError: The label is outside the set.
    """
    label = int(row[column])
    if label == -1:
        return UNLABELED
    if not 0 <= label < len(labels):
        listed = ", ".join(f"{index} {word}" for index, word in enumerate(labels))
        raise ValueError(f"the label {label} is outside the set: {listed}, and -1 for none")
    return labels[label]


@dataclass(frozen=True, kw_only=True)
class KeyedTemplate:
    """Prompt template ``rte hypothesis: … premise: …`` with a label's word as the target.

    Attributes:
      word: First word of the inputs.
      columns: Row columns by the names that the template writes.
      labels: Words in the order of class ids.
      index: Returns the fields that identify a row; its ``idx`` by default.
      clean: Applied to the whole inputs.
    """

    word: str
    columns: Mapping[str, str]
    labels: tuple[str, ...]
    index: Callable[[RowValues], dict[str, Any]] | None = None
    clean: Callable[[str], str] = str

    def __call__(self, row: RowValues) -> list[FormattedRow]:
        """Return the single example of a row.

        Raises:
          ValueError: The label is outside the set.
        """
        index = {"idx": row["idx"]} if self.index is None else self.index(row)
        targets = label_word(row, self.labels)
        return [{**index, "inputs": self.clean(keyed_text(self.word, self.columns, row)), "targets": targets}]


def keyed_text(word: str, columns: Mapping[str, str], row: RowValues) -> str:
    """Return ``word name: text name: text``, with the texts unchanged.

    Args:
      word: First word, usually the task's name.
      columns: Row columns by the names to write.
      row: Values of the columns.
    """
    return " ".join([word, *(part for name, column in columns.items() for part in (f"{name}:", row[column]))])


def number_word(value: float, step: float = 0.2) -> str:
    """Return a number rounded to multiples of ``step``, with one decimal (Raffel et al. 2020, §2.4).

    Computed in single precision, ties to even, as T5's targets were.

    Args:
      value: Number to round.
      step: Distance between the numbers that can be written.
    """
    steps = np.float32(round(1 / step))
    return f"{np.rint(np.float32(value) * steps) / steps:.1f}"


def classification_benchmark(
    name: str,
    title: str,
    *,
    word: str,
    source: BenchmarkSource,
    labels: tuple[str, ...],
    columns: Mapping[str, str] | None = None,
    has_index: bool = True,
    metrics: tuple[MetricFunction, ...] = (accuracy,),
    head: HeadFormat | None = None,
    examples: tuple[GoldenExample, ...],
    **others: Any,
) -> Benchmark:
    """Define a classification task in T5's plain prompt template.

    Args:
      name: Name of the task.
      title: One line for people.
      word: First word of the inputs.
      source: Rows.
      labels: Class names in the order of class ids.
      columns: Row columns by the names that the template writes; by default all texts in alphabetical order.
      has_index: Rows have an ``idx``.
      metrics: Metric functions over class ids.
      head: Reading of rows by an encoder's head; by default all texts, in the order of the source's columns.
      examples: Golden examples.
      **others: Further fields of ``Benchmark``.
    """
    texts = [column for column, kind in source.columns.items() if kind == "text"]
    return Benchmark(
        name=name,
        title=title,
        source=source,
        word=KeyedTemplate(
            word=word,
            columns=columns or {column: column for column in sorted(texts)},
            labels=labels,
            index=None if has_index else no_index,
        ),
        postprocess=partial(string_label_to_class_id, label_classes=labels),
        metrics=metrics,
        labels=labels,
        extras={"idx": "int"} if has_index else {},
        head=head or SequenceClassification(texts=tuple(f"{{{column}}}" for column in texts), classes=labels),
        examples=examples,
        **others,
    )


def no_index(row: RowValues) -> dict[str, int]:
    """Return the index of a row without one."""
    del row
    return {}


def example(row: RowValues, inputs: str, targets: str, **extras: object) -> GoldenExample:
    """Return a golden example for a row that becomes one formatted row with the same ``idx``, if it has one.

    Args:
      row: Raw row.
      inputs: Input text that the row should become.
      targets: Target text that it should become.
      **extras: Further columns of the formatted row.
    """
    index = {"idx": row["idx"]} if "idx" in row else {}
    return GoldenExample(row, ({"inputs": inputs, "targets": targets, **index, **extras},))


def label_examples(
    columns: Sequence[str], *cases: tuple[tuple[str, ...], float, str, str], has_index: bool = True
) -> tuple[GoldenExample, ...]:
    """Return golden examples of rows with texts and a label.

    Args:
      columns: Names of the text columns.
      *cases: Texts, label, expected inputs and expected targets of each row.
      has_index: Number the rows in a column ``idx``.
    """
    examples = []
    for index, (texts, label, inputs, targets) in enumerate(cases):
        row = {**dict(zip(columns, texts, strict=True)), "label": label}
        examples.append(example(row | ({"idx": index} if has_index else {}), inputs, targets))
    return tuple(examples)
