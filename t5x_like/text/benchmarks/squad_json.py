"""SQuAD's JSON, versions 1.1 and 2.0, in TensorFlow Datasets' schema."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from t5x_like.text.benchmarks.record_files import parse_records, records_at_top
from t5x_like.text.tasks.rows import BadRow, RawRow


def read_squad(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read a row for each question, in the order of the file.

    Checks that answers are at their stated positions and ids are unique. A question that version 2.0 calls impossible
    has no answers.

    Args:
      file: Path of the file.
      split: Unused; all files have one format.

    Raises:
      ValueError: The file is not JSON, or not SQuAD's.
    """
    del split
    seen: dict[str, str] = {}

    def rows(title: str, context: str, question: RawRow) -> Iterator[RawRow]:
        row = _row(title, context, question.values)
        key = str(row["id"])
        if key in seen:
            raise ValueError(f"the id {row['id']!r} comes twice, first in {seen[key]}")
        seen[key] = question.location
        yield RawRow(row, question.location)

    for title, context, question in _questions(file):
        read = partial(rows, title, context)
        yield from parse_records([question], read, record="question", data_set="SQuAD")


def _questions(file: str) -> Iterator[tuple[str, str, RawRow]]:
    articles = records_at_top(file, "data", data_set="SQuAD")
    try:
        for article in articles:
            for part, paragraph in enumerate(article.values["paragraphs"]):
                for position, question in enumerate(paragraph["qas"]):
                    location = f"{article.location}.paragraphs[{part}].qas[{position}]"
                    yield article.values.get("title", ""), paragraph["context"], RawRow(question, location)
    except KeyError as error:
        raise ValueError(f"{file}: an article or paragraph without {error}; is it SQuAD's JSON?") from None
    except (TypeError, AttributeError):
        raise ValueError(
            f"{file}: 'data' must be a list of articles, those of paragraphs, and those of questions ('qas'), each an "
            "object; is it SQuAD's JSON?"
        ) from None


def _row(title: str, context: str, question: Mapping[str, Any]) -> dict[str, object]:
    answers = [] if question.get("is_impossible") else question["answers"]
    for answer in answers:
        start, text = answer["answer_start"], answer["text"]
        if context[start : start + len(text)] != text:
            raise ValueError(
                f"the answer {text!r} is not at character {start} of its context, where "
                f"{context[start : start + len(text)]!r} is"
            )
    return {
        "id": question["id"],
        "title": title,
        "context": context,
        "question": question["question"],
        "answers": {
            "text": [answer["text"] for answer in answers],
            "answer_start": [answer["answer_start"] for answer in answers],
        },
    }
