"""Pretraining tasks: a corpus, from plain files or built by ``t5x-like corpus build``, and an objective."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar, Literal

from t5x_like.config_class import config_class
from t5x_like.text.objectives.objective import ExampleSpec, Objective
from t5x_like.text.objectives.span_corruption import SpanCorruption
from t5x_like.text.tasks.corpus_files import CorpusFiles
from t5x_like.text.tasks.documents import (
    Document,
    read_documents,
    tokenize_sentences,
    tokenize_with_spans,
)
from t5x_like.text.tasks.file_task import FileTask, FoundT, TaskVisitor
from t5x_like.text.tasks.rows import BadRow


@config_class
class PretrainingTask(FileTask[Document]):
    """Documents that are joined, cut into runs and corrupted by an objective, anew in every epoch.

    Plain text has one document per line, or blank lines between documents. JSONL, CSV, TSV and parquet files have one
    document per row.

    Attributes:
      corpus: Directory that ``t5x-like corpus build`` wrote, such as "corpus/c4_en"; replaces ``files``.
      objective: Pretraining objective.
      separator: Separator of documents in plain text: "line" or "blank_line".
      column: Column with the text.
      sentences: Tokenize sentences one by one, and give the objective their ends. A sentence is a line between blank
        lines; in other files it ends with ``.``, ``?`` or ``!``.
      spans_column: Column with annotated words, phrases or entities: [[start, end], …] in characters.
    """

    corpus: str | None = None
    objective: Objective = field(default_factory=SpanCorruption)
    separator: Literal["line", "blank_line"] = "line"
    column: str = "text"
    sentences: bool = False
    spans_column: str | None = None

    is_pretraining: ClassVar[bool] = True
    _READS: ClassVar[str] = "document"
    _FILE: ClassVar[str] = "train.txt"

    def __post_init__(self) -> None:
        if self.corpus is not None:
            if self.files and self.files != CorpusFiles(self.corpus):
                raise ValueError(f"task {self.name!r}: give files or a corpus, not both")
            object.__setattr__(self, "files", CorpusFiles(self.corpus))
        super().__post_init__()
        if self.separator not in ("line", "blank_line"):
            raise ValueError(
                f"task {self.name!r}: separator must be 'line' or 'blank_line', not {self.separator!r}"
            )
        if isinstance(self.objective, type) or not isinstance(self.objective, Objective):
            raise ValueError(
                f"task {self.name!r}: {self.objective!r} is no objective; use SpanCorruption(), or in gin "
                "@span_corruption.SpanCorruption()"
            )

    @property
    def spec(self) -> ExampleSpec:
        """Properties of the objective's examples."""
        return self.objective.spec

    def as_trained(self) -> "PretrainingTask":
        """Return the task with sentence-wise tokenization if its objective needs that."""
        return replace(self, sentences=True) if self.objective.spec.needs_sentences else self

    def feature_names(self) -> tuple[str, ...]:
        """Return ``tokens``, and optionally ``sentence_ends`` in tokens and ``spans`` [N, 2] of annotated tokens."""
        names = {
            "tokens": True,
            "sentence_ends": self.sentences,
            "spans": self.spans_column is not None,
        }
        return tuple(name for name, wanted in names.items() if wanted)

    def tokenize(self, rows: Sequence[Document]) -> list[Mapping[str, Any]]:
        """Implement ``FileTask``."""
        tokenizer = self.tokenizer
        if self.spans_column is not None:
            return [tokenize_with_spans(tokenizer, row, sentences=self.sentences) for row in rows]
        if self.sentences:
            return [document._asdict() for document in tokenize_sentences(tokenizer, rows)]
        return [{"tokens": ids} for ids in tokenizer.encode_all([row.text for row in rows])]

    def accept(self, visitor: TaskVisitor[FoundT]) -> FoundT:
        """Implement ``FileTask``."""
        return visitor.documents(self)

    def shown(self, row: Document) -> None:
        """Return None: documents are joined and cut, so none corresponds to an example."""
        del row

    def require_answers(self) -> None:
        """Implement ``FileTask``."""
        raise ValueError(f"{self.name!r} is a pretraining task: measure its loss, it has no answers to score")

    def fingerprint(self) -> dict[str, str]:
        """Return everything that determines the cached tokens; the objective doesn't."""
        lines = {"kind": "documents", "separator": self.separator, "column": self.column}
        lines["sentences"] = "apart" if self.sentences else "not apart"
        lines["spans"] = f"from the column {self.spans_column!r}" if self.spans_column else "none"
        return lines

    def _rows(self, file: str) -> Iterator[Document | BadRow]:
        return read_documents(
            file, separator=self.separator, column=self.column, spans_column=self.spans_column
        )
