"""SuperGLUE's JSON lines in TensorFlow Datasets' schema (https://super.gluebenchmark.com/tasks)."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from t5x_like.text.benchmarks.benchmark import FormattedRow
from t5x_like.text.benchmarks.record_files import Parse, parse_records
from t5x_like.text.tasks.row_files import read_raw_rows
from t5x_like.text.tasks.rows import BadRow, RawRow
from t5x_like.text.templates import RowValues


@dataclass(frozen=True, kw_only=True)
class JsonLines:
    """Reader of a split's file. Only rows of test splits may lack their label, which is then -1.

    Attributes:
      parse: Converts a line's object to rows.
      classes: Label words in the order of class ids.
    """

    parse: Parse
    classes: tuple[str, ...] = ()

    def __call__(self, file: str, split: str) -> Iterator[RawRow | BadRow]:
        """Read rows; see ``source.Reader``."""
        seen: dict[str, str] = {}

        def rows(record: RawRow) -> Iterator[RawRow]:
            for row in self.parse(record.values):
                self._finish(row, record.location, seen, is_test=split.startswith("test"))
                yield RawRow(row, record.location)

        return parse_records(read_raw_rows(file, "jsonl"), rows)

    def _finish(self, row: dict[str, object], location: str, seen: dict[str, str], *, is_test: bool) -> None:
        """Convert the label to its class id, and check that the index is new.

        Raises:
          ValueError: The index is repeated, or the label is missing or outside the set.
        """
        key = json.dumps(row["idx"], sort_keys=True)
        if key in seen:
            raise ValueError(f"idx {key} comes twice, first in {seen[key]}")
        seen[key] = location
        if not self.classes:
            return
        label = row.pop("label", None)
        if label is None and not is_test:
            raise ValueError("no 'label'; only rows of a test split may lack it")
        row["label"] = -1 if label is None else _class_of(label, self.classes)


def _class_of(label: object, classes: Sequence[str]) -> int:
    """Return the class id of a label: true or false, a class word, or 0 or 1.

    Raises:
      ValueError: The label is outside the set.
    """
    known = {word.lower(): index for index, word in enumerate(classes)}
    if str(label).lower() in known:
        return known[str(label).lower()]
    if label in (0, 1, -1):
        return int(label)
    raise ValueError(f"the label {label!r} is outside the set: {', '.join(classes)}")


def flat(*columns: str) -> Parse:
    """Return a parser of objects that have these columns."""

    def parse(line: RowValues) -> Iterator[dict[str, object]]:
        row = {name: line[name] for name in (*columns, "idx")}
        yield row | ({"label": line["label"]} if "label" in line else {})

    return parse


def multirc(line: RowValues) -> Iterator[dict[str, object]]:
    """Yield a row for each answer to each question on a paragraph.

    Raises:
      ValueError: A label is outside the set.
    """
    passage = line["passage"]
    for question in passage["questions"]:
        for answer in question["answers"]:
            label = answer.get("label")
            if label not in (0, 1, None):
                raise ValueError(f"the label {label!r} is outside the set: 0, 1")
            yield {
                "paragraph": passage["text"],
                "question": question["question"],
                "answer": answer["text"],
                "idx": {"paragraph": line["idx"], "question": question["idx"], "answer": answer["idx"]},
                **({} if label is None else {"label": bool(label)}),
            }


def record(line: RowValues) -> Iterator[dict[str, object]]:
    """Yield a row for each query on a passage, with its distinct entities and answers in alphabetical order."""
    passage = line["passage"]
    text = passage["text"]
    entities = sorted({text[entity["start"] : entity["end"] + 1] for entity in passage["entities"]})
    for query in line["qas"]:
        yield {
            "passage": text,
            "query": query["query"],
            "entities": entities,
            "answers": sorted({answer["text"] for answer in query.get("answers", ())}),
            "idx": {"passage": line["idx"], "query": query["idx"]},
        }


def wsc_fixed(line: RowValues) -> Iterator[dict[str, object]]:
    """Yield a row whose spans occur in its text, as in TFDS's ``wsc.fixed``.

    Raises:
      ValueError: A span can't be found in the text.
    """
    flattened = {**line, **line["target"]}
    (row,) = flat("text", "span1_index", "span2_index", "span1_text", "span2_text")(flattened)
    for span in ("span1", "span2"):
        _repair(row, span)
    yield row


# Two subjects with words between them, which are not a span of the text.
_APART = ("Kamenev and Zinoviev", "Kamenev, Zinoviev, and Stalin")
_RUN_TOGETHER, _ITS_PLACE = "theyscold", 10


def _repair(row: FormattedRow, span: str) -> None:
    text, written, index = row["text"], row[f"{span}_text"], row[f"{span}_index"]
    if written in text or written in _APART:
        return
    if _RUN_TOGETHER in written:
        row["span2_index"] = _ITS_PLACE
    words = text.split()
    if not -len(words) <= index < len(words):
        raise ValueError(f"{span}_index {index} is outside the text's {len(words)} words")
    first = written[0].lower() if words[index][0].islower() else written[0].upper()
    repaired = (first + written[1:]).rstrip(".").replace("\n", " ")
    if repaired not in text:
        raise ValueError(f"{span}_text {written!r} is not in the text, nor is it as {repaired!r}")
    row[f"{span}_text"] = repaired
