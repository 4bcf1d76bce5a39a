"""SQuAD's JSON, versions 1.1 and 2.0, in TensorFlow Datasets' schema."""

from collections.abc import Iterator, Mapping
from typing import Any

from t5x_like.text.benchmarks.record_files import list_at_top
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
    for place, title, context, question in _questions(file):
        try:
            row = _row(title, context, question)
        except KeyError as error:
            yield BadRow(f"the question has no {error}, only {', '.join(question)}", place)
            continue
        except (TypeError, AttributeError):
            yield BadRow(f"the values are not of the kinds that SQuAD's have: {str(question)[:120]}", place)
            continue
        except ValueError as error:
            yield BadRow(str(error), place)
            continue
        if str(row["id"]) in seen:
            yield BadRow(f"the id {row['id']!r} comes twice, first in {seen[str(row['id'])]}", place)
            continue
        seen[str(row["id"])] = place
        yield RawRow(row, place)


def _questions(file: str) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    articles = list_at_top(file, "data", data_set="SQuAD")
    try:
        for index, article in enumerate(articles):
            for part, paragraph in enumerate(article["paragraphs"]):
                for position, question in enumerate(paragraph["qas"]):
                    place = f"{file}:data[{index}].paragraphs[{part}].qas[{position}]"
                    yield place, article.get("title", ""), paragraph["context"], question
    except KeyError as error:
        raise ValueError(f"{file}: an article or paragraph without {error}; is it SQuAD's JSON?") from None
    except (TypeError, AttributeError):
        raise ValueError(
            f"{file}: 'data' must be a list of articles, those of paragraphs, and those of questions ('qas'), each an "
            "object; is it SQuAD's JSON?"
        ) from None


def _row(title: str, context: str, question: Mapping[str, Any]) -> dict[str, Any]:
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
