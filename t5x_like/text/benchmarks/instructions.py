"""Prompt templates of a benchmark's rows as instructions in plain sentences, with the possible answers listed.

The form is that of FLAN (Wei et al. 2021, sections 2.1 and 2.3, https://arxiv.org/abs/2109.01652): several templates
for each task, and after the text of a classification ``OPTIONS:`` with an answer on each line.
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from t5x_like.configuration_names import is_call_by_keywords
from t5x_like.text.benchmarks.benchmark import Benchmark, FormattedRow, GoldenExample, PromptTemplate
from t5x_like.text.postprocessing import Postprocess, string_label_to_class_id
from t5x_like.text.templates import RowValues, Template

Cells = Callable[[RowValues], Mapping[str, str]]
# The other task's target -> the answer in words, in the order in which options are listed; empty for open answers.
Answers = Callable[[RowValues], Mapping[str, str]]


@dataclass(frozen=True, kw_only=True)
class InstructionTemplate:
    """One of several instructions for each row, chosen by a hash of its texts.

    Attributes:
      word: Prompt template of the task that the rows belong to: its targets, extras and checks are taken.
      templates: Instructions with ``{field}`` for the texts of ``cells``.
      cells: Returns a row's texts by the templates' fields.
      answers: Returns a row's possible answers by the other task's targets.
    """

    word: PromptTemplate
    templates: tuple[Template, ...]
    cells: Cells
    answers: Answers

    def __call__(self, row: RowValues) -> list[FormattedRow]:
        """Return the examples of a row.

        Raises:
          ValueError: The row is bad for the other task.
        """
        formatted = self.word(row)
        cells, answers = self.cells(row), self.answers(row)
        checksum = zlib.crc32("\n".join(cells.values()).encode("utf-8", "surrogatepass"))
        inputs = self.templates[checksum % len(self.templates)].fill(cells)
        if answers:
            inputs += "\nOPTIONS:" + "".join(f"\n- {answer}" for answer in answers.values())
        return [
            {**each, "inputs": inputs, "targets": answers.get(each["targets"], each["targets"])}
            for each in formatted
        ]


def columns(**names: str) -> Cells:
    """Return cells from a row's columns, by the templates' fields."""
    return lambda row: {field: str(row[column]) for field, column in names.items()}


def instructed(
    benchmark: Benchmark,
    name: str,
    templates: tuple[str, ...],
    cells: Cells,
    answers: Mapping[str, str] | Answers | None = None,
) -> Benchmark:
    """Define the task of another's rows, formatted as instructions.

    Args:
      benchmark: The other.
      name: Name of the task.
      templates: Instructions; see ``InstructionTemplate``.
      cells: Returns a row's texts by the templates' fields.
      answers: Answers in words by the other's labels, which become the labels; a function for answers that differ from
        row to row; None for open answers.
    """
    postprocess, labels = benchmark.postprocess, benchmark.labels
    if not callable(answers):
        fixed = dict(answers or {})
        labels = tuple(fixed[label] for label in labels) if fixed else labels
        postprocess = _with_labels(postprocess, labels)
    elif labels:  # "choice1" and the like: the answer is a text of the row
        postprocess, labels = None, ()
    word = InstructionTemplate(
        word=benchmark.word,
        templates=tuple(map(Template, templates)),
        cells=cells,
        answers=answers if callable(answers) else partial(_same_for_all, answers or {}),
    )
    return replace(
        benchmark,
        name=name,
        title=f"FLAN: {benchmark.title}",
        word=word,
        postprocess=postprocess,
        labels=labels,
        head=None,
        head_task=benchmark.head_task or (benchmark.name if benchmark.head else ""),
        training_task="",
        examples=tuple(
            GoldenExample(example.row, tuple(word(example.row))) for example in benchmark.examples
        ),
    )


def _same_for_all(answers: Mapping[str, str], row: RowValues) -> Mapping[str, str]:
    del row
    return answers


def _with_labels(postprocess: Postprocess | None, labels: tuple[str, ...]) -> object:
    """Return the class id of a text among ``labels`` where the other task has that of its own labels."""
    if is_call_by_keywords(postprocess) and postprocess.func is string_label_to_class_id:
        return partial(string_label_to_class_id, label_classes=labels)
    return postprocess
