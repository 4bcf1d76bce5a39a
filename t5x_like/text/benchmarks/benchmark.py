"""The form of a benchmark: its source, wording, postprocessing, metrics and golden examples in one place.

Nothing here knows where data lie or which vocabulary is used: ``task.BenchmarkTask`` joins those to it. To add one,
write a ``Benchmark`` as ``glue_similarity.py`` has them and name its module in ``catalogue.py``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from t5x_like.text.benchmarks.source import BenchmarkSource, Kind
from t5x_like.text.heads import HeadFormat
from t5x_like.text.tasks.rows import RowValues

# What is said of a row: "inputs" and "targets", and anything else that postprocessing and submissions need.
WordedRow = dict[str, Any]
Wording = Callable[[RowValues], list[WordedRow]]
Postprocess = Callable[..., Any]  # (text, example=None, is_target=False) -> what metrics compare
MetricFunction = Callable[[Sequence[Any], Sequence[Any]], dict[str, Any]]


class GoldenExample(NamedTuple):
    """A row and all that is made of it: nothing where it is left out, several where it is multiplied."""

    row: RowValues
    worded: tuple[WordedRow, ...]


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One task as it is published.

    ``word`` makes a row into examples: dicts of ``inputs``, ``targets`` and ``extras``; none leaves the row out. It
    raises ValueError, saying what is wrong with the row. ``postprocess`` and ``metrics`` are functions of
    ``text.postprocessing`` and ``text.metrics``, called as T5's are.
    """

    name: str  # as T5's users know it: glue_cola_v002
    title: str  # one line for people
    source: BenchmarkSource
    word: Wording
    postprocess: Postprocess | None = None
    metrics: tuple[MetricFunction, ...] = ()
    labels: tuple[str, ...] = ()  # the answers there can be, in the order of their numbers; () where open
    extras: Mapping[str, Kind] = field(default_factory=dict)  # what ``word`` gives beside inputs and targets
    head: HeadFormat | None = None  # how an encoder's head reads the rows
    read_by_heads: str = ""  # where it has no head: the benchmark of the same rows that has one
    asked: tuple[str, ...] = ()  # the columns that a question is made of; all that hold text where not given
    splits: tuple[str, ...] = ()  # of the source's; all of them where not given
    training_task: str = ""  # whose training split is learned from, where this has none; worded alike
    training_examples: int | None = None  # where wording multiplies rows or leaves some out
    examples: tuple[GoldenExample, ...] = ()  # three, checked by one test for all benchmarks

    def __post_init__(self) -> None:
        object.__setattr__(self, "splits", self.splits or self.source.splits)
        unknown = [split for split in self.splits if split not in self.source.rows]
        if unknown:
            raise ValueError(
                f"benchmark {self.name!r}: its source has no split {unknown[0]!r}, only {', '.join(self.source.rows)}"
            )

    @property
    def num_training_examples(self) -> int:
        """Published examples to train on, 0 where it is only measured: its rate in T5's mixtures."""
        if self.training_examples is not None:
            return self.training_examples
        return self.source.rows["train"] if "train" in self.splits else 0
