"""Documents of plain files for pretraining: reading, sentence splitting, and tokenization with annotated spans."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from t5x_like.text.cells import Cell, list_of, text_of
from t5x_like.text.entity_names import entity_spans
from t5x_like.text.sentence_splitting import split_sentences
from t5x_like.text.tasks.row_files import FORMATS, ending_of, read_rows
from t5x_like.text.tasks.rows import BadRow, EmptyFile, Row, convert
from t5x_like.text.tasks.text_lines import blocks_of, filled_lines, text_lines
from t5x_like.text.vocabularies.token_offsets import encode_with_offsets
from t5x_like.text.vocabularies.tokenizer import Tokenizer
from t5x_like.value_types import fits


class Document(NamedTuple):
    """Text of one document.

    Attributes:
      text: The text.
      location: Source (``file:line``).
      sentences: Lines that were joined, if the corpus has one sentence per line.
      spans: Annotated spans in characters, sorted; a third number is that of an entity.
    """

    text: str
    location: str
    sentences: tuple[str, ...] = ()
    spans: tuple[tuple[int, ...], ...] = ()

    @property
    def num_characters(self) -> int:
        """Number of characters of the text."""
        return len(self.text)


class TokenizedDocument(NamedTuple):
    """Tokens of one document.

    Attributes:
      tokens: Token ids.
      sentence_ends: End of each sentence in ``tokens``, the last one included.
    """

    tokens: list[int]
    sentence_ends: list[int]


def read_documents(
    file: str,
    *,
    separator: str,
    column: str,
    spans_column: str | None = None,
    entity_names: str | None = None,
) -> Iterator[Document | BadRow]:
    """Yield the documents of one file, which may be compressed by gzip or zstd.

    JSONL, CSV, TSV, parquet, TFRecord and ArrayRecord files have one document per row; other files are plain text.

    Args:
      file: Path.
      separator: In plain text, "line" for one document per line, "blank_line" for blank lines between documents, whose
        lines are then joined by spaces.
      column: Column with the text.
      spans_column: Column with annotations of the text, ``[[start, end], …]`` in characters.
      entity_names: File with names of entities. The annotations are then ``[[start, end, entity], …]``.
    """
    format = ending_of(file)
    if format in FORMATS:
        yield from convert(
            read_rows(file, format), lambda row: _document(row, column, spans_column, entity_names)
        )
        return
    if spans_column is not None:
        yield BadRow(
            f"plain text has no column {spans_column!r}; give JSONL, CSV, TSV or parquet files", file
        )
        return
    has_documents = False
    for document in _of_lines(file) if separator == "line" else _of_paragraphs(file):
        has_documents = True
        yield document
    if not has_documents:
        yield EmptyFile("the file is empty", file)


def _document(row: Row, column: str, spans_column: str | None, entity_names: str | None) -> Document:
    for needed in (column, spans_column):
        if needed is not None and needed not in row.cells:
            raise ValueError(f"no column {needed!r}; the columns are {', '.join(row.cells) or 'none'}")
    text = text_of(row.cells, column)
    if spans_column is None:
        return Document(text, row.location)
    try:
        cell = row.cells[spans_column]
        spans = (
            _spans(cell, len(text)) if entity_names is None else entity_spans(cell, len(text), entity_names)
        )
        return Document(text, row.location, spans=spans)
    except ValueError as error:
        raise ValueError(f"column {spans_column!r}: {error}") from None


def _spans(cell: Cell, length: int) -> tuple[tuple[int, int], ...]:
    expected = "[[start, end], …], two whole numbers for each span,"
    pairs = list_of(cell, expected)
    if not all(map(_is_pair, pairs)):
        raise ValueError(f"{expected} is expected")
    spans = tuple(sorted((pair[0], pair[1]) for pair in pairs))
    last = 0
    for start, end in spans:
        if not last <= start < end <= length:
            raise ValueError(
                f"the span [{start}, {end}] is empty, overlaps another, or ends after the text's {length} characters"
            )
        last = end
    return spans


def _is_pair(pair: object) -> bool:
    return fits(pair, tuple[int, int])


def _of_lines(file: str) -> Iterator[Document | BadRow]:
    return convert(filled_lines(text_lines(file)), lambda line: Document(line.text, line.location))


def _of_paragraphs(file: str) -> Iterator[Document | BadRow]:
    for block in blocks_of(text_lines(file)):
        yield from block.faults
        if block.lines:
            sentences = tuple(line.text.strip() for line in block.lines)
            yield Document(" ".join(sentences), block.location, sentences)


def sentences_of(document: Document) -> list[str]:
    """Return a document's sentences: the corpus's lines, or else by punctuation."""
    if document.sentences:
        return [document.sentences[0], *(f" {sentence}" for sentence in document.sentences[1:])]
    return split_sentences(document.text)


def tokenize_sentences(vocabulary: Any, documents: Sequence[Document | str]) -> list[TokenizedDocument]:
    """Tokenize documents sentence by sentence, without special ids; sentences without tokens are dropped.

    Args:
      vocabulary: Object with ``encode_all`` or ``encode``.
      documents: Documents, or texts to split into sentences.
    """
    sentences = [split_sentences(each) if isinstance(each, str) else sentences_of(each) for each in documents]
    flat = [sentence for each in sentences for sentence in each]
    encode_all = getattr(vocabulary, "encode_all", None)
    ids = iter(encode_all(flat) if encode_all else map(vocabulary.encode, flat))
    return [_as_document([next(ids) for _ in each]) for each in sentences]


def _as_document(sentences: Sequence[Sequence[int]]) -> TokenizedDocument:
    ends = accumulate(len(sentence) for sentence in sentences if len(sentence))
    return TokenizedDocument([token_id for sentence in sentences for token_id in sentence], list(ends))


def tokenize_with_spans(tokenizer: Tokenizer, document: Document, *, sentences: bool) -> dict[str, object]:
    """Tokenize a document, and convert its annotated spans to tokens.

    A span covers every token that has one of its characters, except tokens of the previous span. Spans without a token
    are dropped.

    Args:
      tokenizer: Tokenizer.
      document: Document.
      sentences: Tokenize sentence by sentence, and return ``sentence_ends``.

    Returns:
      ``tokens``, ``spans`` int64 [N, 2] or with entities [N, 3], and optionally ``sentence_ends``.

    Raises:
      ValueError: The vocabulary doesn't provide offsets of its pieces.
    """
    tokens: list[int] = []
    sentence_ends: list[int] = []
    starts, ends, offset = [], [], 0
    for part in sentences_of(document) if sentences else [document.text]:
        placed = encode_with_offsets(tokenizer, part)
        tokens += placed.ids
        starts.append(placed.starts + offset)
        ends.append(placed.ends + offset)
        offset += len(part)
        if placed.ids:
            sentence_ends.append(len(tokens))
    empty = np.zeros(0, np.int64)
    spans = token_spans(np.concatenate([empty, *starts]), np.concatenate([empty, *ends]), document.spans)
    return {"tokens": tokens, "spans": spans, **({"sentence_ends": sentence_ends} if sentences else {})}


def token_spans(
    starts: np.ndarray, ends: np.ndarray, spans: tuple[tuple[int, ...], ...]
) -> list[tuple[int, ...]]:
    """Convert spans of characters to spans of tokens; further numbers of a span stay.

    Args:
      starts: First character of each token, int64 [T].
      ends: Character after each token, int64 [T].
      spans: Spans of characters, sorted.
    """
    token_ranges = []
    last = 0
    for start, end, *others in spans:
        first = max(int(np.searchsorted(ends, start, side="right")), last)
        stop = int(np.searchsorted(starts, end, side="left"))
        if stop > first:
            token_ranges.append((first, stop, *others))
            last = stop
    return token_ranges
