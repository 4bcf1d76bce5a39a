"""File readers of the Children's Book Test and of LAMBADA."""

import re
from collections.abc import Iterator

from t5x_like.text.tasks.rows import BadRow, RawRow, convert
from t5x_like.text.tasks.text_lines import Line, blocks_of, filled_lines, text_lines
from t5x_like.text.templates import RowValues

BLANK = "XXXXX"
NUM_SENTENCES, NUM_OPTIONS = 20, 10
_NUMBERED = re.compile(r"(\d+) (.*)", re.DOTALL)


def read_book_test(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read questions of 20 numbered lines and a 21st with question, answer and ten options.

    Args:
      file: Path of the file.
      split: Unused; all files have one format.
    """
    del split
    for block in blocks_of(text_lines(file)):
        yield from block.faults
        if block.lines:
            yield _question(block.lines)


def _question(lines: list[Line]) -> RawRow | BadRow:
    sentences = []
    for number, line in enumerate(lines, start=1):
        numbered = _NUMBERED.match(line.text)
        if not numbered or int(numbered[1]) != number:
            reason = f"line {number} of a question must begin with {number}: {line.text[:40]!r}"
            return BadRow(reason, line.location)
        sentences.append(numbered[2])
    last = lines[-1].location
    if len(sentences) != NUM_SENTENCES + 1:
        return BadRow(f"a question of {len(sentences)} lines, where {NUM_SENTENCES + 1} are expected", last)
    cells = [cell for cell in sentences[-1].split("\t") if cell]
    if len(cells) != 3:
        return BadRow(f"{len(cells)} columns, where a question, its answer and options are expected", last)
    try:
        return RawRow(_book_row(sentences[:-1], cells[0], cells[1], cells[2].split("|")), last)
    except ValueError as error:
        return BadRow(str(error), last)


def _book_row(sentences: list[str], question: str, answer: str, options: list[str]) -> dict[str, object]:
    """Return a row of the task.

    Raises:
      ValueError: The question has no blank, or the answer is not among the options.
    """
    if BLANK not in question:
        raise ValueError(f"the question has no {BLANK} to be filled: {question!r}")
    kept = [option for option in options if option]
    if answer not in kept:
        raise ValueError(f"the answer {answer!r} is none of the options: {', '.join(kept)}")
    return {
        "passage": " ".join(sentences),
        "question": question,
        "options": kept,
        "answer": answer,
        "label": kept.index(answer),
    }


def hub_book_rows(record: RowValues) -> Iterator[dict[str, object]]:
    """Convert one of Hugging Face's rows."""
    yield _book_row(
        list(record["sentences"]), record["question"], record["answer"].strip(), list(record["options"])
    )


def read_passages(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read a passage from each line that isn't blank.

    Args:
      file: Path of the file.
      split: Unused; all files have one format.
    """
    del split
    lines = filled_lines(text_lines(file))
    return convert(lines, lambda line: RawRow({"passage": line.text.strip()}, line.location))
