"""Benchmark with a data folder and a vocabulary: a task to register, cache, train and evaluate on."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import google_crc32c

from t5x_like.io.files import json_object
from t5x_like.io.paths import find_files
from t5x_like.text.benchmarks.benchmark import Benchmark, MetricFunction
from t5x_like.text.benchmarks.row_checks import empty_texts, find_fault
from t5x_like.text.benchmarks.source import Kind
from t5x_like.text.benchmarks.split_files import SplitFiles, wanted_files
from t5x_like.text.heads import HeadFormat
from t5x_like.text.heads.row_cells import column_of
from t5x_like.text.postprocessing import Postprocess
from t5x_like.text.tasks.pairs import PairsTask, TextPair, columns_of_line, needs_columns
from t5x_like.text.tasks.rows import BadRow, RawRow, convert, expand

_log = logging.getLogger(__name__)

VOCABULARY = "T5X_LIKE_VOCABULARY"
_SETTINGS = (
    "name",
    "vocabulary",
    "on_bad_row",
    "num_sentinels",
    "data_dir",
    "framing",
    "streams",
    "max_examples",
    "head",
)
T5_VOCABULARY = "gs://t5-data/vocabs/cc_all.32000/sentencepiece.model"


@dataclass(frozen=True, kw_only=True)
class BenchmarkTask(PairsTask):
    """One benchmark with its data and vocabulary; ``catalogue.benchmark_task`` makes it by name.

    Attributes:
      vocabulary: Path or name; by default $T5X_LIKE_VOCABULARY, or T5's.
      benchmark: The benchmark.
      data_dir: Folder with its files; by default $T5X_LIKE_DATA, or ``data``.
      files: Files in another place, in the benchmark's official format.
      head: Another head format than the benchmark's.
      remake: Makes the task again by its name in another process; ``None`` pickles the benchmark itself.
    """

    vocabulary: str = ""
    benchmark: Benchmark
    data_dir: str | None = None
    head: HeadFormat | None = None
    remake: Callable[..., "BenchmarkTask"] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.files:
            files = SplitFiles(self.benchmark.source, self.benchmark.splits, self.data_dir)
            object.__setattr__(self, "files", files)
        if not self.vocabulary:
            object.__setattr__(self, "vocabulary", os.environ.get(VOCABULARY) or T5_VOCABULARY)
        super().__post_init__()

    @property
    def answers(self) -> tuple[str, ...]:
        """Possible targets; see ``PairsTask``."""
        return self.benchmark.labels

    @property
    def continues_inputs(self) -> bool:
        """True if a decoder's answer continues the inputs; see ``PairsTask``."""
        return self.benchmark.continues_inputs

    @property
    def metric_functions(self) -> Sequence[MetricFunction]:
        """Metrics over postprocessed answers; see ``PairsTask``."""
        return self.benchmark.metrics

    @property
    def postprocessor(self) -> Postprocess | None:
        """T5's function from a text to the value that metrics compare; see ``PairsTask``."""
        return self.benchmark.postprocess

    @property
    def predicts_number(self) -> bool:
        """True if a head predicts a number for each row; see ``PairsTask``."""
        return self.benchmark.head is not None and self.benchmark.head.predicts_number

    @property
    def group_columns(self) -> tuple[str, ...]:
        """Columns of the groups that metrics compare; see ``PairsTask``."""
        return self.benchmark.group_columns

    def head_metrics(self) -> Sequence[MetricFunction]:
        """Metrics of the benchmark for a head's predictions; see ``PairsTask``."""
        return self.head_format().metrics(self.benchmark.metrics)

    def _rows(self, file: str) -> Iterator[TextPair | BadRow]:
        return expand(self._raw_rows(file), self._word)

    def _word(self, raw: RawRow) -> Iterator[TextPair]:
        formatted, declared = self.benchmark.word(raw.values), self._declared(raw.values)
        for each in formatted:
            extras = {name: each[name] for name in self.benchmark.extras}
            yield TextPair(each["inputs"], each["targets"], raw.values, raw.location, extras, declared)

    def _raw_rows(self, file: str) -> Iterator[RawRow | BadRow]:
        """Yield the rows of a file in TFDS's schema; those with a missing column or a wrong value as ``BadRow``."""
        columns = self.benchmark.source.columns
        num_empty, first = 0, ""

        def checked(row: RawRow) -> RawRow:
            nonlocal num_empty, first
            if fault := find_fault(row.values, columns):
                raise ValueError(fault)
            if empty := empty_texts(row.values, columns):
                num_empty, first = num_empty + 1, first or f"{row.location}: {' and '.join(empty)}"
            return row

        yield from convert(self._read(file), checked)
        if num_empty:
            _log.warning(
                "%s: %d rows have an empty text, and are used as they are (%s)", file, num_empty, first
            )

    def _read(self, file: str) -> Iterator[RawRow | BadRow]:
        if self.searched_files is not None:
            read, split = self.searched_files.reader_of(file)
        else:
            read = self.benchmark.source.layouts[0].read
            split = next((each for each in self.files if file in find_files(self.files[each])), None)
        if split is None:
            raise ValueError(f"task {self.name!r} has no split with the file {file}")
        return read(file, split)

    @property
    def searched_files(self) -> SplitFiles | None:
        """Files that are searched in the data folder; None for those that the task names."""
        return self.files if isinstance(self.files, SplitFiles) else None

    def wanted_files(self, split: str) -> str:
        """Name the files of a split, relative to the data folder; see ``PairsTask``."""
        if self.searched_files is None:
            return ""
        source = self.benchmark.source
        return (
            " or ".join(wanted_files(source, split)) or f"{source.tfds}, as TensorFlow Datasets prepares it"
        )

    def published_rows(self, split: str) -> int | None:
        """Return the published number of rows; None if the template drops or multiplies them."""
        benchmark = self.benchmark
        is_changed = any(len(each.formatted) != 1 for each in benchmark.examples)
        if self.searched_files is None or benchmark.training_examples is not None or is_changed:
            return None
        return benchmark.source.rows.get(split) or None

    def head_format(self) -> HeadFormat:
        """Return the head format; see ``FileTask``."""
        head = self.head or self.benchmark.head
        if head is not None:
            return head
        if self.benchmark.head_task:
            raise ValueError(
                f"{self._no_head_format()}; heads read the same rows as {self.benchmark.head_task!r}"
            )
        return super().head_format()

    def line_columns(self, line: str) -> Mapping[str, object]:
        """Parse a JSON object with the row's columns; see ``PairsTask``."""
        try:
            return json_object(line)
        except ValueError:
            raise ValueError(
                f"task {self.name!r} is a benchmark, whose rows have columns: give a JSON object with them on each "
                f"line, not {line[:60]!r} (t5x-like tasks show {self.name})"
            ) from None

    def word_question(self, line: str) -> str:
        """Format a JSON object with the row's columns, or the line itself if the template has only one text column.

        Raises:
          ValueError: The line is neither.
        """
        columns, texts = self.benchmark.source.columns, self._text_columns
        row: dict[str, Any] = {name: _nothing(kind) for name, kind in columns.items() if name not in texts}
        if len(texts) == 1:
            row[texts[0]] = line.split() if columns[texts[0]] == "texts" else line
        else:
            row |= columns_of_line(self.name, texts, line)
        if fault := find_fault(row, columns):
            raise needs_columns(self.name, texts, line, fault)
        return self._inputs_of(row)

    @property
    def _text_columns(self) -> Sequence[str]:
        columns = self.benchmark.source.columns
        return self.benchmark.question_columns or [name for name, kind in columns.items() if kind == "text"]

    @property
    def input_columns(self) -> tuple[str, ...]:
        """Columns of the texts; see ``PairsTask``."""
        return tuple(self._text_columns)

    def word_row(self, values: Mapping[str, object]) -> str:
        """Word a row with the benchmark's columns; see ``PairsTask``."""
        columns = self.benchmark.source.columns
        for name in self._text_columns:
            column_of(values, name)
        row = {name: _nothing(kind) for name, kind in columns.items()}
        row |= {name: values[name] for name in self._text_columns}
        if fault := find_fault(row, columns):
            raise ValueError(fault)
        return self._inputs_of(row)

    def row_columns(self, values: Mapping[str, object]) -> Mapping[str, object]:
        """Return a row without its label; see ``PairsTask``."""
        columns, labels = self.benchmark.source.columns, self.head_format().label_columns
        row = {name: _nothing(kind) for name, kind in columns.items()}
        row |= {name: value for name, value in values.items() if name not in labels}
        if fault := find_fault(row, columns):
            raise ValueError(fault)
        return row

    def _inputs_of(self, row: Mapping[str, object]) -> str:
        # Some templates leave out unlabeled rows, and questions are unlabeled.
        row = dict(row)
        return (self.benchmark.word(row) or self.benchmark.word(row | {"label": 0}))[0]["inputs"]

    def fingerprint(self) -> dict[str, str]:
        """Return the fingerprint; see ``PairsTask``. The golden examples represent the template."""
        template = repr([(example.row, example.formatted) for example in self.benchmark.examples])
        lines = {"kind": "benchmark", "benchmark": self.benchmark.name}
        lines |= self._stream_lines()
        return lines | {"wording": f"crc32c {google_crc32c.value(template.encode()):08x}"}

    def described(self) -> dict[str, object]:
        """Return the values that distinguish this task from others: its settings and template, without found files."""
        files = {} if self.searched_files is not None else {"files": dict(self.files)}
        return {**{name: getattr(self, name) for name in _SETTINGS}, **files, **self.fingerprint()}

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by name if the task is the catalogue's: its functions need not be picklable."""
        settings = {name: getattr(self, name) for name in _SETTINGS}
        if self.searched_files is None:
            settings["files"] = dict(self.files)
        if self.remake is not None:
            return partial(self.remake, **settings), ()
        return partial(BenchmarkTask, benchmark=self.benchmark, **settings), ()


def _nothing(kind: Kind | Mapping[str, Kind]) -> object:
    if isinstance(kind, Mapping):
        return {name: _nothing(inner) for name, inner in kind.items()}
    return {"int": -1, "float": -1.0, "text": ""}.get(kind, [])
