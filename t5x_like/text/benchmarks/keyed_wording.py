"""T5's plain wording: the benchmark's word, then each text after its name (Raffel et al. 2020, appendix D)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from t5x_like.text.benchmarks.benchmark import Benchmark, GoldenExample, MetricFunction, WordedRow
from t5x_like.text.benchmarks.source import BenchmarkSource
from t5x_like.text.heads import HeadFormat, SequenceClassification
from t5x_like.text.metrics import accuracy
from t5x_like.text.postprocessing import string_label_to_class_id
from t5x_like.text.tasks.rows import RowValues

UNLABELLED = "<unk>"  # the target of rows without a label


def label_word(row: RowValues, labels: Sequence[str], column: str = "label") -> str:
    """The word of a row's label.

    Raises:
      ValueError: the label is outside the set.
    """
    number = int(row[column])
    if number == -1:
        return UNLABELLED
    if not 0 <= number < len(labels):
        listed = ", ".join(f"{place} {word}" for place, word in enumerate(labels))
        raise ValueError(f"the label {number} is outside the set: {listed}, and -1 where there is none")
    return labels[number]


@dataclass(frozen=True, kw_only=True)
class KeyedWording:
    """``rte hypothesis: … premise: …``, answered by a label's word.

    ``columns`` says which texts follow, under which names. ``clean`` changes the text as a whole.
    """

    word: str
    columns: Mapping[str, str]  # the name written, and the row's column
    labels: tuple[str, ...]
    index: Callable[[RowValues], dict[str, Any]] | None = (
        None  # how a row is known; its ``idx`` where not given
    )
    clean: Callable[[str], str] = str

    def __call__(self, row: RowValues) -> list[WordedRow]:
        """The one example of a row.

        Raises:
          ValueError: the label is outside the set.
        """
        index = {"idx": row["idx"]} if self.index is None else self.index(row)
        targets = label_word(row, self.labels)
        return [{**index, "inputs": self.clean(keyed_text(self.word, self.columns, row)), "targets": targets}]


def keyed_text(word: str, columns: Mapping[str, str], row: RowValues) -> str:
    """``word name: text name: text``, the texts as they are."""
    return " ".join([word, *(part for name, column in columns.items() for part in (f"{name}:", row[column]))])


def number_word(value: float, step: float = 0.2) -> str:
    """A number rounded to steps of 0.2, with one decimal (§2.4).

    In single precision and to the even step, as T5's targets were made.
    """
    steps = np.float32(round(1 / step))
    return f"{np.rint(np.float32(value) * steps) / steps:.1f}"


def labelled(
    name: str,
    title: str,
    *,
    word: str,
    keys: Mapping[str, str] | Sequence[str],
    source: BenchmarkSource,
    labels: tuple[str, ...],
    metrics: tuple[MetricFunction, ...] = (accuracy,),
    head: HeadFormat | None = None,
    training_task: str = "",
    examples: tuple[GoldenExample, ...],
) -> Benchmark:
    """``keys`` are the row's texts, under the names that the wording writes. A head reads all texts where no form is
    given."""
    columns = dict(keys) if isinstance(keys, Mapping) else {key: key for key in keys}
    texts = tuple(f"{{{column}}}" for column, kind in source.columns.items() if kind == "text")
    return Benchmark(
        name=name,
        title=title,
        source=source,
        word=KeyedWording(word=word, columns=columns, labels=labels),
        postprocess=partial(string_label_to_class_id, label_classes=labels),
        metrics=metrics,
        labels=labels,
        extras={"idx": "int"},
        head=head or SequenceClassification(texts=texts, classes=labels),
        training_task=training_task,
        examples=examples,
    )


def example(row: RowValues, inputs: str, targets: str, **extras: Any) -> GoldenExample:
    """A row that becomes one example, known by its ``idx``."""
    return GoldenExample(row, ({"inputs": inputs, "targets": targets, "idx": row["idx"], **extras},))
