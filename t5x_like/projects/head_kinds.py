"""Tables for heads besides classifiers: numbers, tags of words, and answers in a context."""

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from t5x_like.gin_config.user_error import UserError
from t5x_like.nested_values import one_or_several
from t5x_like.projects.project_rows import ProjectRow, count_of, listed, shown
from t5x_like.projects.table import TableRow
from t5x_like.projects.task_kinds import HEAD_TEMPLATE, TaskKind, in_order
from t5x_like.value_types import fits

_SHOWN_TAGS = 12
_CHUNK_MARKS = ("B-", "I-", "E-", "S-", "L-", "U-")


class NumberPrediction(TaskKind):
    """A number for each text or pair of texts."""

    template: ClassVar[str] = HEAD_TEMPLATE

    def _answer(self, row: TableRow) -> str:
        cell = self._text(row, self.columns.label).strip()
        try:
            float(cell)
        except ValueError:
            raise ValueError(f"{self.columns.label!r} is {shown(cell)}, not a number") from None
        return cell

    def check(self, rows: Sequence[ProjectRow]) -> None:
        if len({float(row.answer) for row in rows}) == 1:
            raise UserError(
                f"column {self.columns.label!r} has the number {rows[0].answer} in all {len(rows):,} rows"
            )

    def settings(self, rows: Sequence[ProjectRow]) -> Mapping[str, object]:
        values = [float(row.answer) for row in rows]
        return {
            "labels": (),
            "metrics": ("pearson_corrcoef", "spearman_corrcoef"),
            "model_task": "sequence_classification",
            "num_labels": 1,
            "head_module": "sequence_head",
            "head": "Regression",
            "head_fields": {
                "texts": tuple(f"{{{column}}}" for column in self.columns.texts),
                "label": self.columns.label,
                "lowest": min(values),
                "highest": max(values),
                "unlabeled": min(values) - 1.0,
                "mean": _rounded(statistics.fmean(values)),
                "deviation": _rounded(statistics.pstdev(values)),
            },
        }

    def lines(self, rows: Sequence[ProjectRow]) -> Iterator[str]:
        values = [float(row.answer) for row in rows]
        yield (
            f"label: column {self.columns.label!r}, numbers from {min(values):g} to {max(values):g}, mean "
            f"{statistics.fmean(values):.4g}, deviation {statistics.pstdev(values):.4g}"
        )


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


class Tagging(TaskKind):
    """A tag for each word."""

    template: ClassVar[str] = HEAD_TEMPLATE

    def read(self, row: TableRow) -> ProjectRow:
        words, tags = (_words(self._cell(row, name), name) for name in self.columns.read)
        if len(words) != len(tags):
            raise ValueError(f"{len(words)} words, but {len(tags)} tags in {self.columns.label!r}")
        cells = {self.columns.texts[0]: " ".join(words), self.columns.label: " ".join(tags)}
        group = str(row.cells.get(self.columns.group, "")) if self.columns.group is not None else ""
        return ProjectRow(
            cells, (" ".join(words),), " ".join(tags), tuple(dict.fromkeys(tags)), group, row.location
        )

    def _answer(self, row: TableRow) -> str:
        return " ".join(_words(self._cell(row, self.columns.label), self.columns.label))

    def check(self, rows: Sequence[ProjectRow]) -> None:
        tags = self._sizes(rows)
        if len(tags) == 1:
            raise UserError(
                f"column {self.columns.label!r} has one tag, {shown(next(iter(tags)))}, for all words"
            )

    def settings(self, rows: Sequence[ProjectRow]) -> Mapping[str, object]:
        tags = in_order(self._sizes(rows))
        are_chunks = all(tag == "O" or tag.startswith(_CHUNK_MARKS) for tag in tags)
        return {
            "labels": tuple(tags),
            "metrics": () if are_chunks else ("accuracy", "macro_f1"),
            "model_task": "token_classification",
            "num_labels": len(tags),
            "head_module": "token_head",
            "head": "TokenClassification",
            "head_fields": {
                "tokens": self.columns.texts[0],
                "tags": self.columns.label,
                "classes": "%LABELS",
            },
        }

    def lines(self, rows: Sequence[ProjectRow]) -> Iterator[str]:
        sizes = self._sizes(rows)
        shares = [f"{shown(tag)} {size / sizes.total():.1%}" for tag, size in sizes.most_common(_SHOWN_TAGS)]
        tags = count_of(len(sizes), "tag")
        yield f"label: column {self.columns.label!r}, {tags} of {sizes.total():,} words: {listed(shares, _SHOWN_TAGS)}"

    def _sizes(self, rows: Sequence[ProjectRow]) -> Counter[str]:
        return Counter(tag for row in rows for tag in row.answer.split())


def _words(cell: Any, column: str) -> list[str]:
    words = cell.split() if isinstance(cell, str) else [str(word) for word in cell]
    if not words:
        raise ValueError(f"{column!r} is an empty list")
    if wrong := [word for word in words if len(word.split()) != 1]:
        raise ValueError(f"{column!r} has the word {shown(wrong[0])}, which is empty or has a space")
    return words


class Answers(TaskKind):
    """Answers that are spans of a context."""

    template: ClassVar[str] = HEAD_TEMPLATE

    def _answer(self, row: TableRow) -> dict[str, list[Any]]:
        context = self._text(row, self.columns.texts[1])
        texts, starts = _answer_spans(
            row.cells.get(self.columns.label), row.cells.get("answer_start"), context
        )
        for text, start in zip(texts, starts, strict=True):
            if start < 0 or context[start : start + len(text)] != text:
                raise ValueError(f"the answer {shown(text)} is not at character {start} of the context")
        return {"text": texts, "answer_start": starts}

    def check(self, rows: Sequence[ProjectRow]) -> None:
        if all(not row.cells[self.columns.label]["text"] for row in rows):
            raise UserError(f"column {self.columns.label!r} has no answer in any of {len(rows):,} rows")

    def settings(self, rows: Sequence[ProjectRow]) -> Mapping[str, object]:
        question, context = self.columns.texts
        return {
            "labels": (),
            "metrics": (),
            "model_task": "question_answering",
            "num_labels": 2,
            "head_module": "span_head",
            "head": "QuestionAnswering",
            "head_fields": {
                "question": f"{{{question}}}",
                "context": f"{{{context}}}",
                "answers": self.columns.label,
                "unanswerable": any(not row.cells[self.columns.label]["text"] for row in rows),
            },
        }

    def lines(self, rows: Sequence[ProjectRow]) -> Iterator[str]:
        nothing = sum(not row.cells[self.columns.label]["text"] for row in rows)
        unanswered = f"; {count_of(nothing, 'question')} without an answer" if nothing else ""
        yield f"label: column {self.columns.label!r}, answers in the context{unanswered}"


def _answer_spans(cell: Any, start: object, context: str) -> tuple[list[str], list[int]]:
    """Return texts and first characters of answers, from SQuAD's record, a list of records, or a text."""
    if cell is None or cell == []:
        return [], []
    if fits(cell, list[dict[str, Any]]):
        cell = {name: [each.get(name) for each in cell] for name in ("text", "answer_start")}
    if fits(cell, dict):
        texts, starts = cell.get("text"), cell.get("answer_start")
        if not fits([texts, starts], list[list[Any]]) or len(texts) != len(starts):
            raise ValueError('answers need {"text": […], "answer_start": […]} of equal lengths')
        return list(map(str, texts)), list(map(int, starts))
    texts = list(map(str, one_or_several(cell)))
    if fits(start, str) and len(texts) == 1 and start.strip().isdecimal():
        return texts, [int(start)]
    starts = [context.find(text) for text in texts]
    if -1 in starts:
        raise ValueError(f"the answer {shown(texts[starts.index(-1)])} is not in the context")
    return texts, starts
