"""Tasks as encoders' heads read them: benchmarks by their own form, users' files by their labels."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from t5x_like.text.benchmarks.source import Raw
from t5x_like.text.benchmarks.task import BenchmarkTask
from t5x_like.text.heads.formats import HeadFormat, SequenceClassification
from t5x_like.text.heads.rows import HeadRow, read_row
from t5x_like.text.tasks.rows import Bad, RowPolicy
from t5x_like.text.tasks.text_task import TextTask

HeadTask = BenchmarkTask | TextTask


class Read(NamedTuple):
    """A row for the head, and as it came."""

    row: HeadRow
    raw: Raw


def form_of(definition: Any, name: str) -> HeadFormat:
    """What a head reads of a task: a benchmark's own form; of a task from files its input, and its labels as classes.

    Raises:
      ValueError: nothing is said of it.
    """
    if isinstance(definition, BenchmarkTask) and definition.benchmark.form is not None:
        return definition.benchmark.form
    if isinstance(definition, TextTask) and definition.labels:
        return SequenceClassification(texts=("{inputs}",), classes=tuple(definition.labels), label="targets")
    what = f"task {name!r} has no form for an encoder's head"
    if isinstance(definition, TextTask):
        raise ValueError(f"{what}: give it labels or label_words, which become the head's classes")
    same = _of_the_same_rows(definition)
    if same:
        raise ValueError(f"{what}; heads read the same rows as {same!r}")
    raise ValueError(f"{what}: its answers are written; train an encoder-decoder or a decoder on it")


def _of_the_same_rows(definition: Any) -> str:
    """A benchmark that a head can read, from the source that this one has, too."""
    if not isinstance(definition, BenchmarkTask):
        return ""
    from t5x_like.text.benchmarks import catalogue

    source, known = definition.benchmark.source, catalogue.benchmarks().values()
    return next((each.name for each in known if each.source is source and each.form is not None), "")


def read_head_rows(definition: HeadTask, split: str, policy: RowPolicy | None = None) -> Iterator[Read]:
    """The rows of a split.

    Raises:
      ValueError: no such split or file, or a bad row (under ``on_bad_row="fail"``), named by file and line.
    """
    form = form_of(definition, definition.name)
    policy = RowPolicy(definition.on_bad_row) if policy is None else policy
    for raw in _raw_rows(definition, split, policy):
        try:
            yield Read(read_row(form, raw.values), raw)
        except ValueError as error:
            policy.take(Bad(str(error), raw.place))


def _raw_rows(definition: HeadTask, split: str, policy: RowPolicy) -> Iterator[Raw]:
    if isinstance(definition, BenchmarkTask):
        yield from definition.raw_rows(split, policy)
        return
    for worded in definition.read(split, policy):
        yield Raw({"inputs": worded.inputs, "targets": worded.targets}, worded.place)
