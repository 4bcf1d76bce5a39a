"""What an encoder's head tells of lines that a user gives."""

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from jax.sharding import Mesh

from t5x_like.evaluation.heads import head_scores, make_head_scorer, require_head, told_answers
from t5x_like.model import parameters
from t5x_like.text.benchmarks.source import Raw
from t5x_like.text.heads.questions import questions_of
from t5x_like.text.heads.rows import read_row
from t5x_like.text.heads.tasks import HeadTask, Read, form_of
from t5x_like.text.tasks import registry
from t5x_like.text.tasks.text_task import TextTask


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
    definition: Any = registry.definition(task)
    form_of(definition, task)
    lines = iter(lines)
    while given := list(islice(lines, batch_size)):
        read = [_read(definition, line) for line in given]
        questions = questions_of(definition, read, inputs_length=inputs_length)
        require_head(parameters.merge(graphdef, params), questions)
        scorer = make_head_scorer(graphdef, questions.head[0], mesh)
        scores = head_scores(questions, scorer, params, mesh, batch_size=batch_size)
        for each, answer in zip(read, told_answers(questions, scores).answers, strict=True):
            yield Told(questions.input_of(each), questions.answers.written(answer))


def _read(definition: HeadTask, line: str) -> Read:
    if isinstance(definition, TextTask):
        values: Any = {"inputs": definition.word_question(line)}
    else:
        values = _columns(definition.name, line)
    return Read(read_row(form_of(definition, definition.name), values), Raw(values, "a line"))


def _columns(task: str, line: str) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except json.JSONDecodeError:
        values = None
    if not isinstance(values, dict):
        raise ValueError(
            f"task {task!r} is a benchmark, whose rows have columns: give a JSON object with them on each line, not "
            f"{line[:60]!r} (t5x-like tasks show {task})"
        )
    return values
