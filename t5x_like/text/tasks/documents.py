"""Documents of plain files for pretraining: read with their places, cut into sentences, tokenized with their spans."""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from t5x_like.text.tasks.rows import FORMATS, BadRow, Row, decode_line, ending_of, lines_of, read_rows
from t5x_like.text.vocabularies.token_offsets import encode_with_offsets
from t5x_like.text.vocabularies.tokenizer import Tokenizer

# A mark that ends a sentence, with quotes and brackets that close after it, before white space; the marks of
# Chinese and Japanese need none.
_END = re.compile(r"""[.?!]+["'”’»)\]]*(?=\s)|[。？！]+[”’」』）]*""")


class Document(NamedTuple):
    """Text and where it came from (``file:line``)."""

    text: str
    place: str
    sentences: tuple[str, ...] = ()  # the lines that were joined, where the corpus has one sentence a line
    spans: tuple[tuple[int, int], ...] = ()  # annotated stretches, in characters, in order


class TokenizedDocument(NamedTuple):
    """The tokens of one document, and where each of its sentences ends in them, the last one included."""

    tokens: list[int]
    sentence_ends: list[int]


def read_documents(
    file: str, *, separator: str, column: str, spans_column: str | None = None
) -> Iterator[Document | BadRow]:
    """Documents of one file: of JSONL, CSV, TSV, parquet, TFRecord or ArrayRecord one a row (``column``), of
    other files plain text.

    Text may be gzip or zstd (``corpus.jsonl.zst``).

    In plain text every line is a document (``separator="line"``) or blank lines stand between them
    (``separator="blank_line"``); lines of one document are then joined by spaces. ``spans_column`` holds
    annotations of the text as ``[[start, end], …]``, in characters.
    """
    format = ending_of(file)
    if format in FORMATS:
        for row in read_rows(file, format):
            yield _document(row, column, spans_column) if isinstance(row, Row) else row
        return
    if spans_column is not None:
        yield BadRow(
            f"plain text has no column {spans_column!r}; give JSONL, CSV, TSV or parquet files", file
        )
        return
    found = False
    for document in _of_lines(file) if separator == "line" else _of_paragraphs(file):
        found = True
        yield document
    if not found:
        yield BadRow("the file is empty", file)


def _document(row: Row, column: str, spans_column: str | None) -> Document | BadRow:
    for needed in (column, spans_column):
        if needed is not None and needed not in row.cells:
            return BadRow(
                f"no column {needed!r}; the columns are {', '.join(row.cells) or 'none'}", row.place
            )
    text = row.cells[column]
    if spans_column is None:
        return Document(text, row.place)
    try:
        return Document(text, row.place, spans=_spans(row.cells[spans_column], len(text)))
    except ValueError as error:
        return BadRow(f"column {spans_column!r}: {error}", row.place)


def _spans(cell: str, length: int) -> tuple[tuple[int, int], ...]:
    try:
        pairs = json.loads(cell)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
    if not isinstance(pairs, Sequence) or not all(map(_is_pair, pairs)):
        raise ValueError("[[start, end], …] is expected, two whole numbers for each span")
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
    return isinstance(pair, list) and len(pair) == 2 and all(type(number) is int for number in pair)


def _of_lines(file: str) -> Iterator[Document | BadRow]:
    for number, line in lines_of(file):
        text = decode_line(line, file, number)
        if isinstance(text, BadRow):
            yield text
        elif text.strip():
            yield Document(text, f"{file}:{number}")


def _of_paragraphs(file: str) -> Iterator[Document | BadRow]:
    lines: list[str] = []
    start = 0
    for number, line in lines_of(file):
        text = decode_line(line, file, number)
        if isinstance(text, BadRow):
            yield text
        elif text.strip():
            start = start if lines else number
            lines.append(text.strip())
        elif lines:
            yield Document(" ".join(lines), f"{file}:{start}", tuple(lines))
            lines = []
    if lines:
        yield Document(" ".join(lines), f"{file}:{start}", tuple(lines))


def split_sentences(text: str) -> list[str]:
    """The sentences of ``text``, which joined are the text again: white space stays before what follows it.

    A sentence ends at ``.``, ``?`` or ``!``, closing quotes or brackets included, where white space follows.
    Abbreviations are taken for ends: objectives need pieces of natural size more than grammar.

    >>> split_sentences('"Who?" she said. It rained.')
    ['"Who?"', ' she said.', ' It rained.']
    """
    ends = [match.end() for match in _END.finditer(text)]
    if ends and not text[ends[-1] :].strip():
        ends.pop()
    edges = [0, *ends, len(text)]
    return [text[start:end] for start, end in pairwise(edges) if end > start]


def sentences_of(document: Document) -> list[str]:
    """A document's sentences: as its corpus has them, or else as marks end them."""
    if document.sentences:
        return [document.sentences[0], *(f" {sentence}" for sentence in document.sentences[1:])]
    return split_sentences(document.text)


def tokenize_sentences(vocabulary: Any, documents: Sequence[Document | str]) -> list[TokenizedDocument]:
    """Documents tokenized sentence by sentence; a ``str`` is cut as ``split_sentences`` does.

    ``vocabulary`` is anything with ``encode_all``, or else ``encode``. A sentence without a token (white space) is
    none. Special ids are not added.
    """
    sentences = [split_sentences(each) if isinstance(each, str) else sentences_of(each) for each in documents]
    flat = [sentence for each in sentences for sentence in each]
    encode_all = getattr(vocabulary, "encode_all", None)
    ids = iter(encode_all(flat) if encode_all else map(vocabulary.encode, flat))
    return [_as_document([next(ids) for _ in each]) for each in sentences]


def _as_document(sentences: Sequence[Sequence[int]]) -> TokenizedDocument:
    ends = accumulate(len(sentence) for sentence in sentences if len(sentence))
    return TokenizedDocument([number for sentence in sentences for number in sentence], list(ends))


def tokenize_with_spans(tokenizer: Tokenizer, document: Document, *, sentences: bool) -> dict[str, Any]:
    """``tokens``, ``spans`` int64 [spans, 2], and ``sentence_ends`` if sentences are tokenized apart.

    A span takes every token that holds some of its characters, except one that the span before it took; a span of
    which no token is left is dropped.

    Raises:
      ValueError: the vocabulary doesn't tell where its pieces lie.
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
    nowhere = np.zeros(0, np.int64)
    spans = token_spans(np.concatenate([nowhere, *starts]), np.concatenate([nowhere, *ends]), document.spans)
    found: dict[str, Any] = {"tokens": tokens, "spans": spans}
    return found | ({"sentence_ends": sentence_ends} if sentences else {})


def token_spans(
    starts: np.ndarray, ends: np.ndarray, spans: tuple[tuple[int, int], ...]
) -> list[tuple[int, int]]:
    """Spans of tokens for spans of characters, given where each token starts and ends."""
    found = []
    last = 0
    for start, end in spans:
        first = max(int(np.searchsorted(ends, start, side="right")), last)
        stop = int(np.searchsorted(starts, end, side="left"))
        if stop > first:
            found.append((first, stop))
            last = stop
    return found
