"""Input of ``corpus explain``: pages, also without a URL or text, and other bad words to try."""

import dataclasses
import itertools
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.pages.file_kinds import Kind, kind_from_content, kind_from_name
from t5x_like.corpora.pages.page_fields import Fields
from t5x_like.corpora.pages.page_reader import PageReaderConfig, read_pages
from t5x_like.corpora.rules.bad_words import BadWords
from t5x_like.corpora.rules.languages import Languages
from t5x_like.io.decompression import Chunk, MissingBytes, decompress, split_lines
from t5x_like.io.files import as_path, json_object, json_value
from t5x_like.io.paths import find_file

STANDARD_INPUT = "-"


class PageToExplain(NamedTuple):
    """A page to explain.

    Attributes:
      name: Its URL or, without one, its file and line.
      fault: The reason if it can't be read.
    """

    name: str
    url: str | None
    page: Page
    fault: str | None = None


def pages_to_explain(file: str, reading: PageReaderConfig, *, kind: Kind) -> Iterator[PageToExplain]:
    """Yield the pages of a file or, for ``-``, of standard input.

    JSONL and plain text may be compressed by gzip or zstd, and their pages blank; other kinds are read as for building
    a corpus. An unreadable row of JSONL is yielded with its fault, so that the others are still explained.

    Args:
      kind: The file's kind if neither its name nor its content shows it.

    Raises:
      ValueError: There is no such file, or it can't be read; with file and place.
    """
    if file == STANDARD_INPUT:
        yield from _pages(sys.stdin.buffer, "standard input", reading, kind)
        return
    try:
        stream = as_path(file).open("rb")
    except (FileNotFoundError, IsADirectoryError):
        raise ValueError(f"{file!r} is no file") from None
    with stream:
        yield from _pages(stream, file, reading, kind)


def _pages(stream: IO[bytes], file: str, reading: PageReaderConfig, kind: Kind) -> Iterator[PageToExplain]:
    chunks = decompress(stream, reading.limits)
    first = next(chunks, b"")
    start = first if isinstance(first, bytes) else b""
    kind = reading.kind or kind_from_name(file) or kind_from_content(start) or kind
    chunks = itertools.chain([first], chunks)
    if kind == "text":
        text = _text(b"".join(_whole(chunk, file) for chunk in chunks), file)
        yield PageToExplain(file, None, Page("", text))
    elif kind == "jsonl":
        yield from _rows(chunks, file, reading)
    elif stream is sys.stdin.buffer:
        raise ValueError(f"standard input is a {kind} file; save it, and give its name")
    else:
        for read in read_pages(file, reading):
            yield PageToExplain(read.page.url, read.page.url, read.page)


def _rows(chunks: Iterable[Chunk], file: str, reading: PageReaderConfig) -> Iterator[PageToExplain]:
    for number, line in split_lines(chunks, max_bytes=reading.max_page_bytes):
        location = f"{file}, line {number}"
        try:
            text = _text(_whole(line, location), location)
            if text.strip():
                yield _page_of(_object(text, location), location, reading.fields)
        except ValueError as error:
            yield PageToExplain(location, None, Page("", ""), str(error))


def _page_of(row: dict[str, Any], location: str, fields: Fields) -> PageToExplain:
    values = {name: row.get(name) for name in fields.names}
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    url = texts.get(fields.url)
    for name, value in values.items():
        if name not in texts and (value is not None or name == fields.text):
            known = ", ".join(list(row)[:20])
            fault = f"{location}: {name!r} should be text, not {value!r:.60}; there are {known}"
            return PageToExplain(url or location, url, Page("", ""), fault)
    page = Page(
        url or "", values[fields.text] or "", values[fields.timestamp] or "", language=values[fields.language]
    )
    return PageToExplain(url or location, url, page)


def _object(text: str, location: str) -> dict[str, Any]:
    try:
        return json_object(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{location}: invalid JSON: {error}") from None
    except ValueError as error:
        raise ValueError(f"{location}: {error}") from None


def _whole(chunk: Chunk, location: str) -> bytes:
    if isinstance(chunk, MissingBytes):
        raise ValueError(f"{location}: {chunk.reason}")
    return chunk


def _text(content: bytes, location: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{location}: invalid UTF-8 at byte {error.start}") from None


@contextmanager
def with_other_bad_words(steps: Sequence[object], file: str | None) -> Iterator[Sequence[Any]]:
    """Yield the steps with their bad words replaced by those of a file.

    Args:
      steps: Steps of a recipe.
      file: A value of ``BadWords.lists``, or a list under any name for every language that the steps keep. None leaves
        the steps unchanged.

    Raises:
      ValueError: The file doesn't exist or isn't valid, or no step looks for bad words.
    """
    if file is None:
        yield steps
        return
    looking = {index: step for index, step in enumerate(steps) if isinstance(step, BadWords)}
    if not looking:
        raise ValueError("bad_words=…: no step of the recipe looks for bad words")
    path = Path(find_file(file))
    kept = [code for step in steps if isinstance(step, Languages) for code in step.keep or ()]
    with tempfile.TemporaryDirectory(prefix="bad_words_") as folder:
        lists = str(path)
        if not _names_language(path, kept):
            content = path.read_bytes()  # read once: it may be a pipe
            for language in kept:
                (Path(folder) / f"{language}{'.json' if path.suffix == '.json' else '.txt'}").write_bytes(
                    content
                )
            lists = folder
        yield [
            dataclasses.replace(looking[index], lists=lists) if index in looking else step
            for index, step in enumerate(steps)
        ]


def _names_language(path: Path, kept: Sequence[str]) -> bool:
    """Return whether the file itself says the languages of its terms, or nothing else can."""
    if path.is_dir() or path.stem in kept or not kept:
        return True
    if path.suffix != ".json":
        return False
    try:
        return isinstance(json_value(path.read_bytes().decode("utf-8")), dict)
    except ValueError as error:
        raise ValueError(f"bad_words={path}: invalid JSON: {error}") from None
