"""Checks of submission files as GLUE's and SuperGLUE's servers make them: names, headers, rows, order, labels."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from t5x_like.io.files import json_value
from t5x_like.text.benchmarks.suites import SERVED, SubmissionFile
from t5x_like.text.templates import RowValues
from t5x_like.value_types import fits

_HEADER = "index\tprediction"
_LINE_END = b"\n"
_SHOWN = 3  # faults of one kind to list


class SubmissionCheck(NamedTuple):
    """Result of a check.

    Attributes:
      benchmark: Name of the suite; ``None`` if no file belongs to one.
      errors: Faults that the server would refuse.
      missing: Files that the server needs for an average.
      answers: Number of answers by file, as far as they can be read.
    """

    benchmark: str | None
    errors: tuple[str, ...]
    missing: tuple[str, ...]
    answers: Mapping[str, int] = {}


class _Line(NamedTuple):
    """An answer with its line number and index; MultiRC's index is (passage, question, answer)."""

    number: int
    key: Any
    label: Any


class _FormatError(ValueError):
    """A line in the wrong format."""


def check_files(files: Mapping[str, bytes]) -> SubmissionCheck:
    """Check all files of a submission, given by their names in the zip."""
    benchmark = _benchmark_of(files)
    if benchmark is None:
        titles = " or ".join(suite.title for suite in SERVED.values())
        return SubmissionCheck(None, (f"no file of {titles} among {', '.join(files) or 'none'}",), ())
    forms = {form.file: form for form in SERVED[benchmark].submission}
    errors, answers = [], {}
    for name, content in files.items():
        if name not in forms:
            errors.append(f"{name}: {_misnamed(name, forms)}")
            continue
        problems, answers[name] = check_file(forms[name], content)
        errors += [f"{name}: {error}" for error in problems]
    return SubmissionCheck(
        benchmark, tuple(errors), tuple(name for name in forms if name not in files), answers
    )


def check_file(form: SubmissionFile, content: bytes) -> tuple[list[str], int]:
    """Return the faults of one file and its number of answers.

    Args:
      form: Form of the file.
      content: Bytes of the file.
    """
    try:
        lines = list(_table(content) if form.is_table else _objects(form, content))
    except UnicodeDecodeError as error:
        return [f"is not UTF-8 from line {content.count(_LINE_END, 0, error.start) + 1} on"], 0
    except _FormatError as error:
        return [str(error)], 0
    return list(_errors_in(form, lines)), len(lines)


def _benchmark_of(files: Mapping[str, bytes]) -> str | None:
    num_files = {
        name: sum(
            form.file.lower() == file.rpartition("/")[2].lower()
            for form in suite.submission
            for file in files
        )
        for name, suite in SERVED.items()
    }
    best = max(num_files, key=lambda name: num_files[name])
    return best if num_files[best] else None


def _misnamed(name: str, forms: Mapping[str, SubmissionFile]) -> str:
    bare = name.rpartition("/")[2]
    near = next((known for known in forms if known.lower() == bare.lower()), None)
    if near and "/" in name:
        return f"is in a folder; put {near} at the top of the zip"
    return f"must be called {near}" if near else f"is no file of this benchmark, only {', '.join(forms)}"


def _errors_in(form: SubmissionFile, lines: Sequence[_Line]) -> Iterator[str]:
    if len(lines) != form.rows:
        yield f"has {len(lines):,} answers, the test set {form.rows:,}"
    keys = Counter(line.key for line in lines)
    yield from _listed("index given more than once", [key for key, times in keys.items() if times > 1])
    if form.kind != "nested":
        yield from _listed("index missing", [key for key in range(form.rows) if key not in keys])
        yield from _listed("no such index", [key for key in keys if not 0 <= key < form.rows])
    if [line.key for line in lines] != sorted(keys.elements()):
        yield "answers are not in the order of their indices"
    wrong = [line for line in lines if not _is_label(form, line.label)]
    allowed = {"number": "a number from 0 to 5", "text": "a text"}.get(form.kind, " or ".join(form.words))
    yield from _listed(
        f"answer that is not {allowed}", [f"{line.label!r} in line {line.number}" for line in wrong]
    )


def _listed(what: str, items: Sequence[object]) -> Iterator[str]:
    if items:
        more = f" and {len(items) - _SHOWN:,} more" if len(items) > _SHOWN else ""
        yield f"{what}: {', '.join(map(str, items[:_SHOWN]))}{more}"


def _is_label(form: SubmissionFile, label: Any) -> bool:
    if form.kind == "number":
        try:
            return math.isfinite(float(label)) and 0.0 <= float(label) <= 5.0
        except ValueError:
            return False
    if form.kind == "text":
        return fits(label, str) and bool(label.strip())
    words = form.words if form.is_table else [int(word) if word.isdecimal() else word for word in form.words]
    return not fits(label, bool) and label in words


def _table(content: bytes) -> Iterator[_Line]:
    lines = content.decode("utf-8").split("\n")
    if content.startswith(b"\xef\xbb\xbf") or "\r" in content.decode("utf-8"):
        raise _FormatError("has a byte order mark or carriage returns; write plain UTF-8 with line feeds")
    if lines[0] != _HEADER:
        raise _FormatError(f"begins with {lines[0][:40]!r}, not with the header {_HEADER!r}")
    if lines[-1] == "":
        lines.pop()
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("\t")
        if len(cells) != 2 or not re.fullmatch(r"[0-9]{1,9}", cells[0]):
            raise _FormatError(
                f"line {number} is {line[:40]!r}, not an index and an answer with a tab between"
            )
        yield _Line(number, int(cells[0]), cells[1])


def _objects(form: SubmissionFile, content: bytes) -> Iterator[_Line]:
    lines = content.decode("utf-8").split("\n")
    if lines[-1] == "":
        lines.pop()
    for number, text in enumerate(lines, start=1):
        try:
            row = json_value(text)
            if form.kind == "nested":
                yield from _answers(number, row)
            else:
                yield _Line(number, _integer(row["idx"]), row["label"])
        except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            wanted = (
                '{"idx": 0, "passage": {"questions": […]}}'
                if form.kind == "nested"
                else '{"idx": 0, "label": …}'
            )
            raise _FormatError(f"line {number} is {text[:40]!r}, not {wanted}{_reason(error)}") from error


def _reason(error: Exception) -> str:
    return {TypeError: "", KeyError: f" (no {error})"}.get(type(error), f" ({error})")


def _answers(number: int, row: RowValues) -> Iterator[_Line]:
    for question in row["passage"]["questions"]:
        for answer in question["answers"]:
            key = tuple(_integer(part["idx"]) for part in (row, question, answer))
            yield _Line(number, key, answer["label"])


def _integer(value: object) -> int:
    if not fits(value, int):
        raise ValueError(f"idx is {value!r}, not an integer")
    return value
