"""Readers of parallel files: plain text with one sentence per line, and WMT's SGML."""

import html
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from t5x_like.io.files import as_path
from t5x_like.io.text_encoding import text_of
from t5x_like.text.benchmarks.record_files import Parse
from t5x_like.text.tasks.rows import BadRow, RawRow
from t5x_like.text.tasks.text_lines import text_lines
from t5x_like.text.templates import RowValues

_TAG = re.compile(r"<(seg|doc)\b([^>]*)>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"([\w-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))")
_SIDES = (("src", "ref"), ("ref", "src"))
_END = "</seg>"


@dataclass(frozen=True, kw_only=True)
class PairedFiles:
    """Reader of a file in the ``source`` language together with that of the ``target`` language in the same folder.

    ``newstest2014-deen-src.en.sgm`` and ``…-ref.de.sgm``; ``train.tok.en`` and ``train.tok.de``; ``corpus.de-en.en``
    and ``corpus.de-en.de``. Lines are paired by position, segments by document and segment ids.
    """

    source: str
    target: str

    def __call__(self, file: str, split: str) -> Iterator[RawRow | BadRow]:
        """Read rows; see ``source.Reader``.

        Raises:
          ValueError: The other file is missing, or has another number of sentences.
        """
        del split
        other = self._other(file)
        read = self._segments if ".sgm" in os.path.basename(file).lower() else self._lines
        yield from read(file, other)

    def _other(self, file: str) -> str:
        folder, name = os.path.split(file)
        target_name = re.sub(rf"(^|\.){self.source}(?=$|\.(sgml?|gz|zst)\b)", rf"\1{self.target}", name)
        sides = (re.sub(rf"(^|[-.]){side}\b", rf"\1{other}", target_name) for side, other in _SIDES)
        paths = [os.path.join(folder, each) for each in dict.fromkeys(sides) if each != target_name]
        paths = paths or [os.path.join(folder, target_name)]
        for path in paths:
            if as_path(path).exists():
                return path
        raise ValueError(
            f"{file}: no file next to it with the {self.target} of its sentences; expected {' or '.join(paths)}"
        )

    def _lines(self, file: str, other: str) -> Iterator[RawRow | BadRow]:
        counts = [_count(file), _count(other)]
        if counts[0] != counts[1]:
            raise ValueError(
                f"{file} has {counts[0]:,} lines, but {other} {counts[1]:,}; line n of one must be the translation of "
                "line n of the other. Is one of them cut off?"
            )
        for line, translation in zip(text_lines(file), text_lines(other), strict=True):
            row = RawRow({self.source: line.text, self.target: translation.text}, line.location)
            yield line.fault or translation.fault or row

    def _segments(self, file: str, other: str) -> Iterator[RawRow | BadRow]:
        for source, target in zip_longest(segments_of(file), segments_of(other)):
            if source is None or target is None:
                there, lacking = (file, other) if target is None else (other, file)
                raise ValueError(_lacking(source or target, there, lacking))
            if source.key != target.key:
                raise ValueError(
                    f"{file}:{source.line}: the segment {source.key} is where {other}:{target.line} has "
                    f"{target.key}; are they of the same test set?"
                )
            yield RawRow({self.source: source.text, self.target: target.text}, f"{file}:{source.line}")


@dataclass(frozen=True, kw_only=True)
class Segment:
    """One sentence of an SGML file: its document and segment, its text, and its line."""

    key: str
    text: str
    line: int


def segments_of(file: str) -> Iterator[Segment]:
    """Yield the segments of WMT's SGML in order, with character references replaced.

    If a file has several references, only the first document of each id counts.

    Raises:
      ValueError: A segment isn't closed, or the file is invalid UTF-8.
    """
    text = text_of(file)
    document, seen, num_segments, line, counted = "", set(), 0, 1, 0
    for tag in _TAG.finditer(text):
        line, counted = line + text.count("\n", counted, tag.start()), tag.start()
        attributes = _attributes(tag[2])
        if tag[1].lower() == "doc":
            document, num_segments = attributes.get("docid", ""), 0
            continue
        end = text.lower().find(_END, tag.end()) if _END not in text else text.find(_END, tag.end())
        following = _TAG.search(text, tag.end())
        if end < 0 or (following and following.start() < end):
            raise ValueError(f"{file}:{line}: a <seg> that is never closed")
        num_segments += 1
        key = f"{attributes.get('id', num_segments)} of document {document!r}"
        if key not in seen:
            seen.add(key)
            yield Segment(key=key, text=html.unescape(text[tag.end() : end]).strip(), line=line)


def _lacking(segment: Segment | None, there: str, lacking: str) -> str:
    assert segment is not None
    return (
        f"{there}:{segment.line}: the segment {segment.key} has no translation: {lacking} has fewer segments. Is it "
        "cut off?"
    )


def _attributes(text: str) -> dict[str, str]:
    return {name.lower(): html.unescape(a or b or c) for name, a, b, c in _ATTRIBUTE.findall(text)}


def _count(file: str) -> int:
    return sum(1 for _ in text_lines(file))


def translations(source: str, target: str) -> Parse:
    """Return a parser of Hugging Face's rows: ``{"translation": {"de": …, "en": …}}``, or one column per language.

    Args:
      source: Code of the language to translate from.
      target: Code of the language to translate to.

    Raises:
      KeyError: A language is missing.
    """

    def parse(record: RowValues) -> Iterator[dict[str, object]]:
        texts = record.get("translation", record)
        yield {language: texts[language] for language in (source, target)}

    return parse
