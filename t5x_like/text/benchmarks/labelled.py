"""Benchmarks of one class a row, as GLUE and SuperGLUE mostly have them."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from t5x_like.text.benchmarks.benchmark import Benchmark, GoldenExample, MetricFunction
from t5x_like.text.benchmarks.keyed_wording import Keyed
from t5x_like.text.benchmarks.source import BenchmarkSource
from t5x_like.text.heads import HeadFormat, SequenceClassification
from t5x_like.text.metrics import accuracy
from t5x_like.text.postprocessing import string_label_to_class_id
from t5x_like.text.tasks.rows import RowValues


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
        word=Keyed(word=word, columns=columns, labels=labels),
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
