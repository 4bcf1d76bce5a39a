"""Submissions of GLUE and SuperGLUE: zip files with predictions for the hidden test sets."""

import io
import json
import lzma
import math
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from t5x_like.evaluation.scores_file import Row
from t5x_like.evaluation.submission_checks import SubmissionCheck, check_file, check_files
from t5x_like.io.files import PathLike, as_path, write_bytes
from t5x_like.nested_values import parts_of
from t5x_like.text.benchmarks.suites import SUITES, SubmissionFile, submission_files, suite_of_server
from t5x_like.value_types import fits

# Exceptions of zipfile for other, damaged, incomplete or encrypted files and unknown compression.
_DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, EOFError, OSError, ValueError)

# A row of predictions.jsonl: "answer" is postprocessed, "prediction" is the text, "idx…" is the source's index.


class Submission(NamedTuple):
    """Contents of a written submission.

    Attributes:
      benchmark: Name of the suite.
      files: Number of rows by file.
      missing: Further files that the server needs for an average.
      replaced: By file, number of rows whose prediction is not a valid answer; the first class replaces it.
    """

    benchmark: str
    files: dict[str, int]
    missing: tuple[str, ...]
    replaced: dict[str, int]


def write_submission(path: PathLike, answers: Mapping[str, Sequence[Row]]) -> Submission:
    """Write the zip file for one suite's server.

    Dates in the zip are fixed: equal answers give equal bytes.

    Args:
      path: The file to write.
      answers: Rows of ``predictions.jsonl`` for the test split, by task.

    Raises:
      ValueError: No task or tasks of two suites, or files that the server would refuse (missing or repeated rows, wrong
        counts). Nothing is written then.
    """
    benchmark = _one_benchmark(answers)
    forms = [form for form in SUITES[benchmark].submission if form.task in answers]
    contents, replaced = {}, {}
    for form in forms:
        contents[form.file], replaced[form.file] = render(form, answers[form.task])
    checked = check_files(contents)
    if checked.errors:
        raise ValueError(
            f"{path} was not written, the {benchmark} server would refuse it:\n  "
            + "\n  ".join(checked.errors)
        )
    write_bytes(path, _zipped(contents))
    return Submission(
        benchmark=benchmark,
        files={form.file: len(answers[form.task]) for form in forms},
        missing=checked.missing,
        replaced={file: count for file, count in replaced.items() if count},
    )


def check_test_rows(rows: Mapping[str, Sequence[Mapping[str, object]]]) -> None:
    """Check before the evaluation that rows are those of the server's test set: all, each once.

    Raises:
      ValueError: They differ, so that predictions for them could not be submitted.
    """
    errors = []
    for form in submission_files(rows):
        answer = {"answer": "-" if form.kind == "text" else 0, "prediction": "0"}
        try:
            content, _ = render(form, [{**_numbers_of(row), **answer} for row in rows[form.task]])
        except ValueError as error:
            errors.append(f"{form.task}: {error}")
            continue
        errors += [f"{form.task}: {error}" for error in check_file(form, content)[0]]
    if errors:
        listed = "\n  ".join(errors)
        raise ValueError(
            f"the test rows are not those that the server scores, and nothing was evaluated:\n  {listed}\n"
            "Get the official test files (t5x-like data status names them), or leave submission out"
        )


def _numbers_of(row: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name == "idx" or name.startswith("idx/")}


def render(form: SubmissionFile, rows: Sequence[Row]) -> tuple[bytes, int]:
    """Return one file's bytes, and the number of predictions that are not valid answers.

    Args:
      form: Form of the file.
      rows: Predictions of the task.

    Raises:
      ValueError: A row has no index.
    """
    read = [_answer(form, row) for row in rows]
    replaced = sum(1 for _, good in read if not good)
    if form.kind == "nested":
        lines = _nested(rows, [value for value, _ in read])
    elif form.kind == "text":
        lines = [
            {"idx": _index(row, "query"), "label": value} for row, (value, _) in zip(rows, read, strict=True)
        ]
        lines = list({line["idx"]: line for line in reversed(lines)}.values())  # a query's first row counts
    else:
        lines = [{"idx": _index(row), "label": value} for row, (value, _) in zip(rows, read, strict=True)]
    lines.sort(key=lambda line: line["idx"])
    if form.is_table:
        text = "index\tprediction\n" + "".join(f"{line['idx']}\t{line['label']}\n" for line in lines)
    else:
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    return text.encode("utf-8"), replaced


def _one_benchmark(tasks: Iterable[str]) -> str:
    names = {suite.name: suite.title for task in tasks if (suite := suite_of_server(task))}
    if not names:
        listed = ", ".join(form.task for form in submission_files())
        raise ValueError(f"none of the tasks {sorted(tasks)} is scored by a server; those are: {listed}")
    if len(names) > 1:
        raise ValueError(
            f"{' and '.join(names.values())} have servers of their own; write one submission for each"
        )
    return next(iter(names))


def _answer(form: SubmissionFile, row: Row) -> tuple[str | int, bool]:
    """Return the file's entry for a row, and True if it is the prediction."""
    answer = row["answer"]
    answer = answer["value"] if isinstance(answer, Mapping) else answer
    if form.kind == "text":
        text = " ".join(str(answer).split())
        return text, bool(text)
    if form.kind == "number":
        value = float(answer) if fits(answer, float) else math.nan
        good = math.isfinite(value) and str(row["prediction"]).strip() not in ("", "nan")
        bounded = min(max(value, 0.0), 5.0) if good else 0.0
        return f"{bounded:.3f}", good and 0.0 <= value <= 5.0
    good = fits(answer, int) and 0 <= answer < len(form.words)
    word = form.words[answer if good else 0]
    return int(word) if word.isdecimal() else word, good


def _index(row: Row, part: str = "") -> int:
    """Return the row's index in its test file, under TFDS's field names."""
    index = row.get(f"idx/{part}" if part else "idx")
    if index is None and part:
        index = (parts_of(row.get("idx")) or {}).get(part)
    if not fits(index, int):
        raise ValueError(
            f"row {row.get('number', '?')} has no number (idx{f'/{part}' if part else ''}) by which a server could "
            "know it; its task must keep the source's"
        )
    return index


def _nested(rows: Sequence[Row], labels: Sequence[Any]) -> list[dict[str, Any]]:
    passages: dict[int, dict[int, list[dict[str, int]]]] = {}
    for row, label in zip(rows, labels, strict=True):
        questions = passages.setdefault(_index(row, "paragraph"), {})
        questions.setdefault(_index(row, "question"), []).append(
            {"idx": _index(row, "answer"), "label": label}
        )

    def in_order(answers: list[dict[str, int]]) -> list[dict[str, int]]:
        return sorted(answers, key=lambda answer: answer["idx"])

    return [
        {
            "idx": passage,
            "passage": {
                "questions": [
                    {"idx": idx, "answers": in_order(question_answers)}
                    for idx, question_answers in sorted(questions.items())
                ]
            },
        }
        for passage, questions in passages.items()
    ]


def _zipped(contents: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def check_submission(path: PathLike) -> SubmissionCheck:
    """Check that a server would accept a zip file, from any tool.

    Raises:
      ValueError: It is not a zip file, or is damaged or encrypted.
    """
    content = as_path(path).read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            twice = [name for name in archive.namelist() if archive.namelist().count(name) > 1]
            contents = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    except _DAMAGED as error:
        raise ValueError(f"{path} is not a zip file that can be read: {error}") from error
    checked = check_files(contents)
    return checked._replace(
        errors=(*(f"{name}: is in the zip twice" for name in sorted(set(twice))), *checked.errors)
    )
