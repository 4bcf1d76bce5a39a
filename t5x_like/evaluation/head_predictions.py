"""What an encoder's head tells of lines that a user gives."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from jax.sharding import Mesh

from t5x_like.evaluation.heads import head_scores, make_head_scorer, require_head, told_answers
from t5x_like.model import parameters
from t5x_like.text import registry
from t5x_like.text.batches.head_questions import questions_of
from t5x_like.text.batches.head_source import head_format_of
from t5x_like.text.tasks.pairs import LabelledRow, PairsTask
from t5x_like.text.tasks.rows import RawRow


class Told(NamedTuple):
    """What the head read and what it told of it."""

    input: str
    prediction: Any


def told_of_lines(
    task: str,
    lines: Iterable[str],
    graphdef: Any,
    params: Any,
    *,
    inputs_length: int,
    batch_size: int,
    mesh: Mesh,
) -> Iterator[Told]:
    """Answers lines, batch by batch: texts for a task from files, JSON objects with a benchmark's columns.

    Raises:
      ValueError: a task that no head reads, a head that the model lacks, or a line without the task's columns.
    """
    head_format_of(task)
    definition: Any = registry.definition(task)
    lines = iter(lines)
    while given := list(islice(lines, batch_size)):
        read = [_read(definition, line) for line in given]
        questions = questions_of(definition, read, inputs_length=inputs_length)
        require_head(parameters.merge(graphdef, params), questions)
        scorer = make_head_scorer(graphdef, questions.head[0], mesh)
        scores = head_scores(questions, scorer, params, mesh, batch_size=batch_size)
        for each, answer in zip(read, told_answers(questions, scores).answers, strict=True):
            yield Told(each.row.input_text, questions.answers.written(answer))


def _read(definition: PairsTask, line: str) -> LabelledRow:
    values = definition.line_columns(line)
    return LabelledRow(definition.head_format().read(values), RawRow(values, "a line"))
