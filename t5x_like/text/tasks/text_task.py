"""Text-to-text tasks from plain files: templates for inputs and targets, and metrics."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import accumulate
from typing import Any, Literal

from t5x_like.config_class import config_class, refuse_unused
from t5x_like.configuration_names import check_recordable
from t5x_like.message_sentences import sentence
from t5x_like.text.cells import Cell, joined_text_of, references_of, several, text_of
from t5x_like.text.fields import REFERENCE_ENDS, Feature
from t5x_like.text.heads import HeadFormat, SequenceClassification
from t5x_like.text.metrics.by_name import (
    OF_REFERENCES,
    MetricFunction,
    check_metric,
    is_of_heads,
    metric_function,
)
from t5x_like.text.postprocessing import Example, Postprocess
from t5x_like.text.tasks.pairs import PairsTask, TextPair, columns_of_line
from t5x_like.text.tasks.row_files import (
    FORMATS,
    Format,
    cells_of,
    ending_of,
    formats_of,
    read_rows,
    separator_hint,
)
from t5x_like.text.tasks.rows import BadRow, RawRow, Row, RowPolicy, convert, expand
from t5x_like.text.templates import Template

_DEFAULT_METRICS = ("sequence_accuracy",)


@config_class
class TextTask(PairsTask):
    """Text-to-text task from TSV, CSV, JSONL, parquet or Arrow files, optionally compressed by gzip or zstd.

    >>> TextTask(
    ...     name="reviews", vocabulary="bytes", files={"train": "train.tsv"}, metrics=("accuracy",),
    ...     input_template="review: {text}", target_template="{label}", label_words={"0": "bad", "1": "good"},
    ... ).labels
    ('bad', 'good')

    Attributes:
      input_template: Input text, with ``{column}`` for a row's cells.
      target_template: Target text.
      format: Format of the files; by default according to their extensions.
      columns: Names of the columns of TSV and CSV files without a header line.
      delimiter: Character between the cells of CSV files.
      row_filter: Cells that a row must have, such as ``{"category": "plant"}``; other rows are left out.
      label_words: Word for each raw label in the target.
      labels: Possible targets, for metrics, ranking and heads; by default those of ``label_words``.
      metrics: Names of metrics, or functions of your own. By default ``sequence_accuracy``, or for a head the metrics
        that are usual for it. If rows have several references, all of them count. A function takes all targets and all
        predictions, and returns scores by name. It gets texts, lists of them for several references, and of a head
        class indices or numbers. Confidence intervals call it with samples of the rows, too.
      postprocess: Function ``(text, example=None, is_target=False)`` from each target and prediction to what metrics
        compare, as in T5; ``text.postprocessing`` has many. ``example`` has the row's texts. None keeps the text.
        Metrics with names need texts, those of your own anything.
      reference: Target of training for rows whose target is a list of texts: the "first", or with "each_epoch" the
        next one in every epoch.
      head: Texts and label that a head reads from a row's columns, such as ``SequenceClassification(texts=("{premise}",
        "{hypothesis}"), …)`` for a pair. By default a head classifies the input text, with ``labels`` as classes.
    """

    input_template: str
    target_template: str
    format: Format | None = None
    columns: Sequence[str] = ()
    delimiter: str = ","
    row_filter: Mapping[str, str] = field(default_factory=dict)
    label_words: Mapping[str, str] = field(default_factory=dict)
    labels: Sequence[str] = ()
    metrics: Sequence[str | MetricFunction] = ()
    postprocess: Postprocess | None = None
    reference: Literal["first", "each_epoch"] = "first"
    head: HeadFormat | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.format is not None and self.format not in FORMATS:
            raise ValueError(f"task {self.name!r}: format must be one of {FORMATS}, not {self.format!r}")
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n':
            raise ValueError(f"task {self.name!r}: delimiter must be one character, not {self.delimiter!r}")
        words = {str(raw): word for raw, word in self.label_words.items()}  # gin allows numbers as keys
        object.__setattr__(self, "label_words", words)
        object.__setattr__(self, "labels", tuple(self.labels) or tuple(dict.fromkeys(words.values())))
        for template in (self.input_template, self.target_template):
            Template(template)
        formats = {self.format} if self.format else formats_of(self.files)
        if formats.isdisjoint(("csv", None)):
            refuse_unused(self, "delimiter", because=f"task {self.name!r} has no CSV files")
        if formats.isdisjoint(("csv", "tsv", None)):
            because = f"files of task {self.name!r} name their columns"
            refuse_unused(self, "columns", because=because)
        classes = self.labels or (self.head.answer_names if self.head else ())
        for metric in self.metrics:
            check_metric(metric, classes, for_head=self.head is not None)
        if self.postprocess is not None:
            check_recordable(self.postprocess, "postprocess")
        if self.postprocess is not None and self.head is not None:
            raise ValueError(self._no_postprocessing_of_heads)
        if self.reference not in ("first", "each_epoch"):
            raise ValueError(
                f"task {self.name!r}: reference must be 'first' or 'each_epoch', not {self.reference!r}"
            )
        if self.reference == "each_epoch" and self.head is not None:
            raise ValueError(f"task {self.name!r}: a head has labels and no references; leave reference out")

    @property
    def answers(self) -> tuple[str, ...]:
        """Possible targets; empty if they are open."""
        return tuple(self.labels)

    @property
    def metric_functions(self) -> list[MetricFunction]:
        """Metrics, functions of targets and predictions that return scores."""
        names = [metric for metric in self.metrics if not is_of_heads(metric)]
        return [metric_function(metric, self.labels) for metric in names or _DEFAULT_METRICS]

    @property
    def postprocessor(self) -> Postprocess | None:
        """Implement ``PairsTask``; each of several references is converted by itself."""
        return self.postprocess and partial(_postprocess, self.postprocess)

    @property
    def _no_postprocessing_of_heads(self) -> str:
        return f"task {self.name!r}: postprocess reads text that models write, and a head predicts labels; leave it out"

    def word_question(self, line: str) -> str:
        """Return ``line`` in the input template: as its only column, or as a JSON object with its columns.

        A template without columns has the same text for every line.

        Raises:
          ValueError: The line has another form.
        """
        template = Template(self.input_template)
        if len(template.fields) <= 1:
            return template.fill(dict.fromkeys(template.fields, line))
        cells = columns_of_line(self.name, template.fields, line)
        return template.fill({name: str(cells[name]) for name in template.fields})

    def features(self) -> tuple[Feature, ...]:
        """Return ``inputs`` and ``targets``, and with ``reference="each_epoch"`` the end of each reference in these."""
        ends = (REFERENCE_ENDS,) if self.reference == "each_epoch" else ()
        return (*super().features(), *ends)

    def tokenize(self, rows: Sequence[TextPair]) -> list[Mapping[str, Any]]:
        if self.reference == "first":
            return super().tokenize(rows)
        texts = [row.extras.get("references", (row.targets,)) for row in rows]
        references = iter(self.tokenizer.encode_all([text for each in texts for text in each]))
        examples: list[Mapping[str, Any]] = []
        for features, each in zip(super().tokenize(rows), texts, strict=True):
            ids = [next(references) for _ in each]
            joined = [token_id for reference in ids for token_id in reference]
            ends = list(accumulate(map(len, ids)))
            examples.append({**features, "targets": joined, "reference_ends": ends})
        return examples

    @property
    def input_columns(self) -> tuple[str, ...]:
        if self.head is not None:
            return self.head.input_columns
        return tuple(dict.fromkeys(Template(self.input_template).fields))

    def word_row(self, values: Mapping[str, object]) -> str:
        template = Template(self.input_template)
        if missing := template.missing(values):
            raise ValueError(missing)
        cells = _cells(values)
        return template.fill({column: text_of(cells, column) for column in template.fields})

    def row_columns(self, values: Mapping[str, object]) -> Mapping[str, object]:
        if self.head is None:
            return {"inputs": self.word_row(values)}
        labels = self.head.label_columns
        return _cells({name: cell for name, cell in values.items() if name not in labels})

    @property
    def _templates(self) -> tuple[Template, Template]:
        """Templates of inputs and targets."""
        return Template(self.input_template), Template(self.target_template)

    @property
    def _further_columns(self) -> tuple[str, ...]:
        """Columns that rows need besides those of the templates."""
        return ()

    def head_format(self) -> HeadFormat:
        """Return ``head``, or sequence classification of the input with ``labels`` as classes.

        Raises:
          ValueError: There is neither.
        """
        if self.head is not None:
            return self.head
        if self.reference != "first":
            raise ValueError(f"task {self.name!r}: a head has labels and no references; leave reference out")
        if not self.labels:
            raise ValueError(
                f"{self._no_head_format()}: give it labels or label_words, which become the head's classes, or a head"
            )
        return SequenceClassification(texts=("{inputs}",), classes=tuple(self.labels), label="targets")

    def head_metrics(self) -> Sequence[MetricFunction]:
        head_format = self.head_format()
        if self.postprocess is not None:
            raise ValueError(self._no_postprocessing_of_heads)
        try:
            return head_format.named_metrics(self.metrics)
        except ValueError as error:
            raise ValueError(f"task {self.name!r}: {error}") from None

    def _with_users_columns(self, message: str) -> str:
        fields = Template(self.target_template).fields
        if self.head is not None or len(fields) != 1 or not message.startswith("targets is "):
            return message
        return f"column {fields[0]!r}{message.removeprefix('targets')}"

    def _raw_rows(self, file: str) -> Iterator[RawRow | BadRow]:
        def raw(pair: TextPair) -> RawRow:
            values = {"inputs": pair.inputs, "targets": pair.targets}
            values |= {column: pair.row[column] for column in self.streams.values()}
            return RawRow(values if self.head is None else pair.row, pair.location)

        return convert(self._rows(file), raw)

    def line_columns(self, line: str) -> dict[str, object]:
        """Implement ``PairsTask``; a single column may be a line that is no JSON object."""
        if self.head is not None:
            columns = Template(self.input_template).fields
            if len(columns) == 1 and not line.lstrip().startswith("{"):
                return {columns[0]: line}
            return dict(columns_of_line(self.name, columns, line))
        return {"inputs": self.word_question(line)}

    def fingerprint(self) -> dict[str, str]:
        lines = {"kind": "text to text", "input_template": repr(self.input_template)}
        lines["target_template"] = repr(self.target_template)
        lines["label_words"] = repr(dict(sorted(self.label_words.items())))
        lines["format"] = self.format or "by the files' ending"
        lines["columns"] = ", ".join(self.columns) or "named by the files"
        if self.reference != "first":
            lines["reference"] = self.reference
        if self.row_filter:
            lines["row_filter"] = repr(dict(sorted(self.row_filter.items())))
        lines |= self._stream_lines()
        return lines if self.delimiter == "," else lines | {"delimiter": self.delimiter}

    def none_usable(self, split: str, policy: RowPolicy | None = None) -> ValueError:
        error = super().none_usable(split, policy)
        return ValueError(f"{error}; row_filter={dict(self.row_filter)}") if self.row_filter else error

    def _rows(self, file: str) -> Iterator[TextPair | BadRow]:
        templates = self._templates
        format = self.format or _format_of(file)
        others = (*self.row_filter, *self.streams.values(), *self._further_columns)
        needed = (*templates, Template("".join(f"{{{column}}}" for column in others)))

        def missing(row: Row) -> str | None:
            return next(filter(None, (template.missing(row.cells) for template in needed)), None)

        def refuse_other_table(row: Row) -> None:
            if format in ("tsv", "csv") and (reason := missing(row)):  # wrong for every row
                hint = separator_hint(tuple(row.cells), format)
                raise ValueError(f"task {self.name!r}, {file}: {sentence(reason)}{hint}")

        def word(row: Row) -> Iterator[TextPair]:
            if any(row.cells.get(column, cell) != cell for column, cell in self.row_filter.items()):
                return
            if reason := missing(row):
                raise ValueError(reason)
            yield self._word(row, templates)

        rows = read_rows(file, format, columns=self.columns, delimiter=self.delimiter)
        return expand(rows, word, check=refuse_other_table)

    def _word(self, row: Row, templates: tuple[Template, Template]) -> TextPair:
        inputs, targets = templates
        if self.head is None:
            texts = {column: text_of(row.cells, column) for column in inputs.fields}
            filled = self._references(row.cells, targets)
        else:  # it reads the columns themselves
            fields = (*inputs.fields, *targets.fields)
            texts = {column: joined_text_of(row.cells, column) for column in fields}
            filled = (targets.fill(texts),)
        declared = self._declared(row.cells)
        extras = {"references": list(filled)} if len(filled) > 1 else {}
        return TextPair(inputs.fill(texts), filled[0], row.cells, row.location, extras, declared)

    def _references(self, cells: Mapping[str, Cell], template: Template) -> Sequence[str]:
        """Return the row's targets, one for each reference.

        Raises:
          ValueError: A cell is no text and no list of texts, or has no word.
        """
        texts = {column: references_of(cells, column) for column in template.fields}
        if self.label_words:
            texts = {column: tuple(self._word_of(column, text) for text in texts[column]) for column in texts}
        column = several(template.fields, texts)
        if column is None:
            return (template.fill({name: options[0] for name, options in texts.items()}),)
        for metric in self.metrics:
            if isinstance(metric, str) and metric not in OF_REFERENCES:
                raise ValueError(
                    f"column {column!r} holds several references, and metric {metric!r} compares with one; choose from "
                    f"{', '.join(OF_REFERENCES)}"
                )
        if self.labels:
            raise ValueError(
                f"column {column!r} holds several labels; a task with labels has one for each row"
            )
        return [
            template.fill({name: text if name == column else texts[name][0] for name in texts})
            for text in texts[column]
        ]

    def _word_of(self, column: str, label: str) -> str:
        if label not in self.label_words:
            known = ", ".join(map(repr, self.label_words))
            raise ValueError(f"label_words has no word for {column}={label!r}, only {known}")
        return self.label_words[label]


def _postprocess(
    function: Postprocess, text: str, *, example: Example | None = None, is_target: bool = False
) -> object:
    """Return the value of a text, and of a target with several references a list of their values."""
    references = (example or {}).get("references", ()) if is_target else ()
    if len(references):
        return [function(each, example=example, is_target=True) for each in references]
    return function(text, example=example, is_target=is_target)


def _cells(values: Mapping[str, object]) -> Mapping[str, object]:
    """Return cells as a file of them is read for training.

    Raises:
      ValueError: A cell is no text of Unicode.
    """
    return cells_of(values, "").cells


def _format_of(file: str) -> str:
    ending = ending_of(file)
    known = {"txt": "tsv"}.get(ending, ending)
    if known not in FORMATS:
        raise ValueError(f"{file}: no format is known for {ending or 'no extension'!r}; give format='tsv', …")
    return known
