"""Definition of a benchmark: its source, prompt template, postprocessing, metrics and golden examples in one place.

Definitions don't know the data folder or the vocabulary; ``task.BenchmarkTask`` adds these. To add a benchmark, write a
``Benchmark`` as in ``glue.py`` and name its module in ``catalogue.py``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from t5x_like.text.benchmarks.source import BenchmarkSource, Kind
from t5x_like.text.heads import HeadFormat
from t5x_like.text.postprocessing import Postprocess
from t5x_like.text.templates import RowValues

# A formatted row: "inputs" and "targets", and further fields for postprocessing and submissions.
FormattedRow = dict[str, Any]
PromptTemplate = Callable[[RowValues], list[FormattedRow]]
MetricFunction = Callable[[Sequence[Any], Sequence[Any]], dict[str, Any]]


class GoldenExample(NamedTuple):
    """A source row and the expected examples: none if the row is left out, several if it is multiplied."""

    row: RowValues
    formatted: tuple[FormattedRow, ...]


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One task as it is published.

    Attributes:
      name: T5's name, such as ``glue_cola_v002``.
      title: One line for people.
      source: The rows.
      word: Converts a row to examples: dicts of ``inputs``, ``targets`` and ``extras``; none leaves the row out. Raises
        ValueError for a bad row.
      postprocess: T5's function from an output text to the value that metrics compare.
      metrics: Functions of ``text.metrics`` over postprocessed targets and predictions.
      labels: Possible targets in the order of class ids; empty for open answers.
      extras: Further fields that ``word`` gives, with their types.
      group_columns: Columns of the groups that metrics compare as a whole; ``idx/question`` is a field of ``idx``.
      head: Reading of rows by an encoder's head.
      head_task: For a benchmark without ``head``: the benchmark of the same rows that has one.
      question_columns: Columns that a question consists of; by default all text columns.
      splits: Splits of the source; all by default.
      training_task: Benchmark whose training split belongs to this one, which has none; its template is the same.
      training_examples: Number of training examples, if the template multiplies or leaves out rows.
      continues_inputs: A decoder's answer continues the inputs, so that prompts need no marker before it.
      examples: Three golden examples, checked by one test for all benchmarks.
    """

    name: str
    title: str
    source: BenchmarkSource
    word: PromptTemplate
    postprocess: Postprocess | None = None
    metrics: tuple[MetricFunction, ...] = ()
    labels: tuple[str, ...] = ()
    extras: Mapping[str, Kind] = field(default_factory=dict)
    group_columns: tuple[str, ...] = ()
    head: HeadFormat | None = None
    head_task: str = ""
    question_columns: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    training_task: str = ""
    training_examples: int | None = None
    continues_inputs: bool = False
    examples: tuple[GoldenExample, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "splits", self.splits or self.source.splits)
        unknown = [split for split in self.splits if split not in self.source.rows]
        if unknown:
            raise ValueError(
                f"benchmark {self.name!r}: its source has no split {unknown[0]!r}, only {', '.join(self.source.rows)}"
            )

    @property
    def num_training_examples(self) -> int:
        """Published number of training examples, the rate in T5's mixtures; 0 for benchmarks without training split."""
        if self.training_examples is not None:
            return self.training_examples
        return self.source.rows["train"] if "train" in self.splits else 0
