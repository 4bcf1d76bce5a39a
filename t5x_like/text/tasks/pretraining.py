"""Pretraining tasks: a corpus, from plain files or built by ``t5x-like corpus build``, and an objective."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar, Literal

from t5x_like.config_class import config_class, refuse_unused
from t5x_like.configuration_names import config_function
from t5x_like.text.entity_names import names_digest
from t5x_like.text.fields import ENTITY_SPANS, SENTENCE_ENDS, SPANS, TOKENS, Feature
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
from t5x_like.text.tasks.mixtures import Mixture, Proportional
from t5x_like.text.tasks.row_files import formats_of
from t5x_like.text.tasks.rows import BadRow
from t5x_like.text.tasks.word_segmentation import require_segmenter, segmenter_version, word_spans
from t5x_like.value_types import fits

_CORPUS = "{corpus}"  # replaced by the name of a corpus in the paths of ``corpus_tasks``


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
      entity_names: File with a name of an entity on each line, such as a text file of their vectors. The annotations
        then have the name of an entity, too: [[start, end, entity], …].
      max_tokens: Train on the first so many tokens, again and again (Raffel et al. 2020, §3.4.2, table 9); None for
        all. The last document is cut. Other splits are read in full.
      word_segmentation: "jieba" finds the words of Chinese, which whole-word masks then keep together; see
        ``word_segmentation``.
    """

    corpus: str | None = None
    objective: Objective = field(default_factory=SpanCorruption)
    separator: Literal["line", "blank_line"] = "line"
    column: str = "text"
    sentences: bool = False
    spans_column: str | None = None
    entity_names: str | None = None
    max_tokens: int | None = None
    word_segmentation: Literal["jieba"] | None = None

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
        if self.corpus is not None or None not in formats_of(self.files):
            refuse_unused(
                self, "separator", because="it is for plain text, and these files have a document in each row"
            )
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError(f"task {self.name!r}: max_tokens must be at least 1, not {self.max_tokens}")
        if self.entity_names is not None and self.spans_column is None:
            raise ValueError(
                f"task {self.name!r}: entity_names has the names of entities, and no column says where they are; give "
                "spans_column, whose cells are [[start, end, entity], …]"
            )
        if self.word_segmentation is not None:
            if self.spans_column is not None:
                raise ValueError(
                    f"task {self.name!r}: give spans_column, whose spans may be words, or word_segmentation, not both"
                )
            require_segmenter()
        if not fits(self.objective, Objective):
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

    def features(self) -> tuple[Feature, ...]:
        """Return ``tokens``, and optionally ``sentence_ends`` in tokens and ``spans`` [N, 2 or 3] of tokens."""
        spans = SPANS if self.entity_names is None else ENTITY_SPANS
        wanted = {TOKENS: True, SENTENCE_ENDS: self.sentences, spans: self._has_spans}
        return tuple(feature for feature, is_wanted in wanted.items() if is_wanted)

    @property
    def _has_spans(self) -> bool:
        return self.spans_column is not None or self.word_segmentation is not None

    def tokenize(self, rows: Sequence[Document]) -> list[Mapping[str, Any]]:
        tokenizer = self.tokenizer
        if self.word_segmentation is not None:
            rows = [row._replace(spans=word_spans(row.text)) for row in rows]
        if self._has_spans:
            return [tokenize_with_spans(tokenizer, row, sentences=self.sentences) for row in rows]
        if self.sentences:
            return [document._asdict() for document in tokenize_sentences(tokenizer, rows)]
        return [{"tokens": ids} for ids in tokenizer.encode_all([row.text for row in rows])]

    def accept(self, visitor: TaskVisitor[FoundT]) -> FoundT:
        return visitor.documents(self)

    def shown(self, row: Document) -> None:
        """Return None: documents are joined and cut, so none corresponds to an example."""
        del row

    def require_answers(self) -> None:
        raise ValueError(f"{self.name!r} is a pretraining task: measure its loss, it has no answers to score")

    def fingerprint(self) -> dict[str, str]:
        """Return everything that determines the cached tokens; the objective doesn't."""
        lines = {"kind": "documents", "separator": self.separator, "column": self.column}
        lines["sentences"] = "apart" if self.sentences else "not apart"
        lines["spans"] = f"from the column {self.spans_column!r}" if self.spans_column else "none"
        if self.entity_names:
            lines["entities"] = f"by names whose hash is {names_digest(self.entity_names)}"
        if self.word_segmentation:
            lines["spans"] = f"words by {segmenter_version()}"
        return lines

    def _rows(self, file: str) -> Iterator[Document | BadRow]:
        return read_documents(
            file,
            separator=self.separator,
            column=self.column,
            spans_column=self.spans_column,
            entity_names=self.entity_names,
        )


@config_function
def corpus_tasks(
    *,
    mixture: str,
    corpora: Mapping[str, float] | Sequence[str],
    vocabulary: str,
    train_files: str,
    validation_files: str,
    objective: Objective,
    temperature: float = 1.0,
    num_sentinels: int = 100,
) -> tuple[PretrainingTask | Mixture, ...]:
    """Return a pretraining task for each of several corpora, and their mixture: a recipe's ``TASKS``.

    Files without ``{corpus}`` are one corpus: a single task that has the mixture's name. The log says then that the
    rates of several ``corpora`` have no effect.

    >>> settings = {"vocabulary": "bytes", "objective": SpanCorruption(), "validation_files": "{corpus}/validation.txt"}
    >>> tasks = corpus_tasks(
    ...     mixture="both", corpora={"web": 0.8, "books": 0.2}, train_files="{corpus}/train.txt", **settings
    ... )
    >>> [task.name for task in tasks], tasks[1].files["train"]
    (['web', 'books', 'both'], 'books/train.txt')

    Args:
      mixture: Name of the mixture.
      corpora: Rate of each corpus by its name, or the names alone.
      vocabulary: See ``PretrainingTask``, as for ``objective``.
      train_files: Path or pattern of each corpus's files, with ``{corpus}`` for its name.
      validation_files: Path or pattern of each corpus's held-out files, with ``{corpus}`` for its name.
      objective: Pretraining objective of all corpora.
      temperature: Temperature of rates by numbers of documents, where ``corpora`` has none; see ``Proportional``.
      num_sentinels: Number of sentinels added to the vocabulary, unless it has its own: 100, and 300 for UMT5.

    Raises:
      ValueError: ``{corpus}`` is in the one and not in the other, or ``temperature`` is given next to rates.
    """
    patterns = {"train": train_files, "validation": validation_files}
    placed = [split for split, pattern in patterns.items() if _CORPUS in pattern]

    def task(name: str) -> PretrainingTask:
        files = {split: pattern.replace(_CORPUS, name) for split, pattern in patterns.items()}
        return PretrainingTask(
            name=name, vocabulary=vocabulary, files=files, objective=objective, num_sentinels=num_sentinels
        )

    if not placed:
        if len(corpora) > 1:
            logging.getLogger(__name__).warning(
                "corpora and temperature have no effect: the files are one corpus, without the %d of %s; to mix "
                "several, write %s into the paths of the files",
                len(corpora),
                ", ".join(corpora),
                _CORPUS,
            )
        return (task(mixture),)
    if len(placed) == 1:
        raise ValueError(
            f"{_CORPUS} is in the files of {placed[0]} only ({patterns[placed[0]]!r}); write it into both, or into "
            "neither for one corpus"
        )
    has_rates = isinstance(corpora, Mapping)
    if has_rates and temperature != 1.0:
        raise ValueError(
            f"temperature={temperature:g} has no effect: corpora has the rates; give the names of corpora alone to mix "
            "by their numbers of documents, or leave temperature out"
        )
    rates = corpora if has_rates else Proportional(maximum=None, temperature=temperature)
    return (*map(task, corpora), Mixture(name=mixture, tasks=tuple(corpora), rates=rates))
