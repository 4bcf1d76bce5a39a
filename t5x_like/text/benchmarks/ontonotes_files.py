"""Documents of CoNLL-2012's columns (OntoNotes 5): words, speakers, names and coreference.

Columns: document, part, word's number, word, part of speech, parse, predicate, frameset, sense, speaker, names, one
column for each predicate, coreference (https://conll.cemantix.org/2012/data.html).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from t5x_like.text.benchmarks.tagged_files import bracket_tags, columns_of
from t5x_like.text.tasks.rows import BadRow, RawRow, convert, expand
from t5x_like.text.tasks.text_lines import Line, text_lines
from t5x_like.text.templates import RowValues

_BEGIN = re.compile(r"#begin document \((.*)\)(?:; part (\d+))?\s*")
_END = "#end document"
_WORD, _SPEAKER, _NAMES = 3, 9, 10
_FEWEST_COLUMNS = 12
_COREFERENCE = re.compile(r"(\()?(\d+)(\))?")
# A slash marks these as punctuation, not as web addresses.
_MARKED = {"/.": ".", "/?": "?"}
_NO_SPEAKERS = ("", "-")


@dataclass
class _Sentence:
    """Lines of a sentence, collected while reading."""

    location: str
    words: list[str] = field(default_factory=list)
    speakers: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    coreference: list[str] = field(default_factory=list)
    fault: BadRow | None = None

    def add(self, line: Line) -> None:
        cells = columns_of(line.text)
        if line.fault or len(cells) < _FEWEST_COLUMNS:
            reason = (
                f"{len(cells)} columns, where at least {_FEWEST_COLUMNS} are expected: {line.text[:60]!r}"
            )
            self.fault = self.fault or line.fault or BadRow(reason, line.location)
            return
        self.words.append(_MARKED.get(cells[_WORD], cells[_WORD]))
        self.speakers.append(cells[_SPEAKER])
        self.names.append(cells[_NAMES])
        self.coreference.append(cells[-1])


@dataclass
class _Document:
    name: str
    location: str
    sentences: list[_Sentence] = field(default_factory=list)


def _documents(file: str) -> Iterator[_Document | BadRow]:
    """Yield the parts of documents; words outside of them, and a part without its end, as bad rows."""
    document: _Document | None = None
    sentence: _Sentence | None = None
    is_outside = False
    for line in text_lines(file):
        begins = None if line.fault else _BEGIN.fullmatch(line.text)
        if begins:
            if document is not None:
                yield document
                yield BadRow("a document begins before the last one has its '#end document'", line.location)
            document = _Document(f"{begins[1]}_{int(begins[2] or 0)}", line.location)
            sentence, is_outside = None, False
        elif not line.fault and line.text.startswith(_END):
            if document is not None:
                yield document
            document, sentence = None, None
        elif line.is_blank:
            sentence = None
        elif document is None:
            if not is_outside:
                reason = "no '#begin document' is before this line; is the file in CoNLL-2012's columns?"
                yield BadRow(reason, line.location)
            is_outside = True
        else:
            if sentence is None:
                sentence = _Sentence(line.location)
                document.sentences.append(sentence)
            sentence.add(line)
    if document is not None:
        yield document
        yield BadRow(
            f"the file ends within the document {document.name!r}; is it cut off?", document.location
        )


@dataclass(frozen=True, kw_only=True)
class NamesFile:
    """Reader of the names in each sentence.

    Attributes:
      classes: Tags in the order of class ids.
      without: Beginnings of the names of documents without annotation, which are left out.
    """

    classes: Sequence[str]
    without: tuple[str, ...] = ("pt/",)

    def __call__(self, file: str, split: str) -> Iterator[RawRow | BadRow]:
        """Read rows; see ``source.Reader``."""
        del split
        numbers = {tag: index for index, tag in enumerate(self.classes)}

        def rows(document: _Document) -> Iterator[RawRow | BadRow]:
            if not document.name.startswith(self.without):
                sentences = (sentence.fault or sentence for sentence in document.sentences)
                yield from convert(sentences, lambda sentence: _names_row(sentence, numbers))

        return expand(_documents(file), rows)


def _names_row(sentence: _Sentence, numbers: Mapping[str, int]) -> RawRow:
    try:
        tags = bracket_tags(sentence.names)
    except ValueError as error:
        raise ValueError(f"names: {error}") from None
    unknown = [tag for tag in tags if tag not in numbers]
    if unknown:
        raise ValueError(f"the tag {unknown[0]!r} is outside the set: {', '.join(numbers)}")
    return RawRow({"tokens": sentence.words, "ner": [numbers[tag] for tag in tags]}, sentence.location)


def read_coreference(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read the parts of documents with their mentions. One bad line makes a part bad.

    Args:
      file: Path of the file.
      split: Unused; all files have one format.
    """
    del split
    return convert(_documents(file), _coreference)


def _coreference(document: _Document) -> RawRow | BadRow:
    if fault := next((sentence.fault for sentence in document.sentences if sentence.fault), None):
        return fault
    mentions = [
        [cluster, start, end]
        for offset, sentence in zip(_offsets(document.sentences), document.sentences, strict=True)
        for cluster, start, end in _mentions(sentence, offset)
    ]
    words = [sentence.words for sentence in document.sentences]
    speakers = [sentence.speakers[0] for sentence in document.sentences]
    return RawRow(coreference_row(document.name, words, speakers, mentions), document.location)


def _offsets(sentences: Sequence[_Sentence]) -> list[int]:
    offsets = [0]
    for sentence in sentences:
        offsets.append(offsets[-1] + len(sentence.words))
    return offsets[:-1]


def _mentions(sentence: _Sentence, offset: int) -> list[tuple[int, int, int]]:
    """Return cluster, first word and word after the last of each mention."""
    mentions: list[tuple[int, int, int]] = []
    waiting: dict[int, list[int]] = {}
    for index, cell in enumerate(sentence.coreference, start=offset):
        for part in cell.split("|") if cell not in ("-", "_") else ():
            parts = _COREFERENCE.fullmatch(part)
            if parts is None or not (parts[1] or parts[3]):
                raise ValueError(
                    f"coreference {cell!r} in {sentence.location}: {part!r} is neither '(3' nor '3)' nor '(3)'"
                )
            cluster = int(parts[2])
            if parts[1]:
                waiting.setdefault(cluster, []).append(index)
            if parts[3]:
                if not waiting.get(cluster):
                    raise ValueError(
                        f"coreference {cell!r} in {sentence.location}: {cluster} ends, but did not begin"
                    )
                mentions.append((cluster, waiting[cluster].pop(), index + 1))
    still = [cluster for cluster, starts in waiting.items() if starts]
    if still:
        raise ValueError(f"coreference in {sentence.location}: the mention of {still[0]} never ends")
    return mentions


def coreference_row(
    name: str, sentences: Sequence[Sequence[str]], speakers: Sequence[str], mentions: Sequence[Sequence[int]]
) -> dict[str, object]:
    """Return a row of the task.

    Args:
      name: Document and part.
      sentences: Words of each sentence.
      speakers: Speaker of each sentence; ``-`` for none.
      mentions: Cluster, first word and word after the last, counted over all sentences.
    """
    columns = ("cluster", "start", "end")
    ordered = sorted(mentions, key=lambda mention: (mention[1], -mention[2]))
    starts = [sum(map(len, sentences[:sentence_index])) for sentence_index in range(len(sentences))]
    return {
        "id": name,
        "tokens": [word for sentence in sentences for word in sentence],
        "sentence_starts": starts,
        "speakers": ["" if speaker in _NO_SPEAKERS else speaker for speaker in speakers],
        "mentions": {column: [mention[index] for mention in ordered] for index, column in enumerate(columns)},
    }


def hub_names(record: RowValues) -> Iterator[dict[str, object]]:
    """Convert one of Hugging Face's documents to rows of names, a sentence each."""
    for sentence in [] if str(record["document_id"]).startswith("pt/") else record["sentences"]:
        words, tags = list(sentence["words"]), list(sentence["named_entities"])
        if len(words) != len(tags):
            raise ValueError(
                f"{len(words)} words, but {len(tags)} named_entities; there must be one for each word"
            )
        yield {"tokens": words, "ner": tags}


def hub_coreference(record: RowValues) -> Iterator[dict[str, object]]:
    """Convert one of Hugging Face's documents to rows of coreference, a part each. Its ends are last words."""
    parts: dict[int, list[Mapping[str, Any]]] = {}
    for sentence in record["sentences"]:
        parts.setdefault(int(sentence["part_id"]), []).append(sentence)
    for part, sentences in parts.items():
        mentions, offset = [], 0
        for sentence in sentences:
            for cluster, first, last in sentence["coref_spans"]:
                mentions.append([cluster, offset + first, offset + last + 1])
            offset += len(sentence["words"])
        words = [list(sentence["words"]) for sentence in sentences]
        speakers = [str(sentence["speaker"] or "") for sentence in sentences]
        yield coreference_row(f"{record['document_id']}_{part}", words, speakers, mentions)
