"""decaNLP's form of a row: a question about a context (McCann et al. 2018, section 2)."""

from collections.abc import Callable
from typing import NamedTuple

from t5x_like.text.benchmarks.benchmark import FormattedRow, PromptTemplate
from t5x_like.text.benchmarks.keyed_template import UNLABELED
from t5x_like.text.templates import RowValues


class QuestionContext(NamedTuple):
    """A row as decaNLP words it.

    Attributes:
      question: Question, which names the task.
      context: Text that it is about.
      answers: Right answers, the first of which is the target; empty for unlabeled rows.
    """

    question: str
    context: str
    answers: tuple[str, ...]


def question_template(ask: Callable[[RowValues], QuestionContext], *extras: str) -> PromptTemplate:
    """Return the template ``question: … context: …`` with the answer as the target.

    Args:
      ask: Converts a row.
      *extras: Columns of the row to keep; ``answers`` is all right answers.
    """

    def word(row: RowValues) -> list[FormattedRow]:
        question, context, answers = ask(row)
        kept = {name: list(answers) if name == "answers" else row[name] for name in extras}
        targets = answers[0] if answers else UNLABELED
        formatted = {"inputs": f"question: {question} context: {context}", "targets": targets}
        return [{**kept, **formatted, "question": question, "context": context}]

    return word
