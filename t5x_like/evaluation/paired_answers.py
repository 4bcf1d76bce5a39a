"""Answers of two models to the same prompts, from tables of predictions."""

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from typing import NamedTuple

from t5x_like.text.cells import text_of
from t5x_like.text.tasks.row_files import ending_of, read_raw_rows
from t5x_like.text.tasks.rows import RawRow, convert, partition

_FORMATS = ("jsonl", "csv", "tsv", "parquet")
_USUAL_PROMPTS = ("prompt", "input", "inputs", "question", "text")


class AnswerPair(NamedTuple):
    """Two answers to one prompt."""

    prompt: str
    first: str
    second: str

    @property
    def swapped(self) -> "AnswerPair":
        """The answers in the other order."""
        return AnswerPair(self.prompt, self.second, self.first)


def read_answers(
    file: str, *, prompt_column: str | None = None, answer_column: str = "prediction"
) -> list[tuple[str, str]]:
    """Read prompts and answers of a table, such as ``predictions.jsonl``.

    Args:
      file: Table in JSONL, CSV, TSV or parquet.
      prompt_column: Column of the prompts; by default the first of ``prompt``, ``input``, ``inputs``, ``question`` and
        ``text`` that there is.
      answer_column: Column of the answers.

    Raises:
      ValueError: A column is missing, a row is bad, or there is none.
    """

    def read(row: RawRow) -> tuple[str, str]:
        usual = (name for name in _USUAL_PROMPTS if name in row.values)
        columns = (prompt_column or next(usual, _USUAL_PROMPTS[0]), answer_column)
        for name in columns:
            if name not in row.values:
                raise ValueError(f"no column {name!r}; the columns are {', '.join(row.values) or 'none'}")
        prompt, answer = (text_of(row.values, name) for name in columns)
        return prompt, answer

    if ending_of(file) not in _FORMATS:
        raise ValueError(f"{file} is no table by its name; give one that ends with .{', .'.join(_FORMATS)}")
    answers, bad = partition(convert(read_raw_rows(file, ending_of(file)), read))
    if bad:
        raise ValueError(f"{bad[0]}; each row needs a prompt and an answer")
    if not answers:
        raise ValueError(f"{file} has no rows; there is nothing to compare")
    return answers


def pair_answers(
    first: Sequence[tuple[str, str]], second: Sequence[tuple[str, str]], *, names: tuple[str, str]
) -> list[AnswerPair]:
    """Pair the answers of both sides by their prompts, in the order of the first side.

    Several answers to one prompt are paired in their order.

    Args:
      first: Prompts and answers of the first side.
      second: Those of the second side.
      names: Names of the sides, for messages.

    Raises:
      ValueError: The sides have different prompts.
    """
    counts = [Counter(prompt for prompt, _ in side) for side in (first, second)]
    for name, other, extra in ((*names, counts[0] - counts[1]), (*names[::-1], counts[1] - counts[0])):
        if extra:
            prompt = next(iter(extra))
            raise ValueError(
                f"{name} has {extra.total():,} answers to prompts that {other} has no answer to, such as "
                f"{shortened(prompt)}; give answers to the same prompts"
            )
    waiting: dict[str, deque[str]] = defaultdict(deque)
    for prompt, answer in second:
        waiting[prompt].append(answer)
    return [AnswerPair(prompt, answer, waiting[prompt].popleft()) for prompt, answer in first]


def shortened(text: str) -> str:
    """Return a text in quotes, and only its beginning if it is long, for messages."""
    return repr(text if len(text) <= 80 else f"{text[:80]}…")
