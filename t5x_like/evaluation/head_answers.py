"""One task answered by a fine-tuned encoder's head, and scored: the rows and the entry that the other ways give."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from t5x_like.evaluation.class_order import ClassOrder
from t5x_like.evaluation.heads import head_scores, make_head_scorer, told_answers
from t5x_like.evaluation.loaded_model import LoadedModel
from t5x_like.evaluation.prediction_log import Record, Row
from t5x_like.evaluation.scores import Entry, counts, score
from t5x_like.evaluation.span_answers import best_thresholds
from t5x_like.evaluation.suite_settings import SuiteRun
from t5x_like.io.progress import Progress
from t5x_like.text.batches.head_questions import HeadQuestions, training_rows
from t5x_like.text.tasks.pairs import PairsTask

_BATCHES_AT_ONCE = 8  # whose answers are written together


def answer_by_head(
    model: LoadedModel,
    questions: HeadQuestions,
    record: Record,
    *,
    order: ClassOrder,
    run: SuiteRun,
    progress: Progress,
) -> None:
    """Answers what ``record`` has no answer to yet, the longest rows first; see ``answering.answer_task``.

    Raises:
      ValueError: a score that is not a number.
    """
    scorer = make_head_scorer(model.graphdef, questions.head[0], model.mesh)
    for numbers in _parts(questions, run.batch_size * _BATCHES_AT_ONCE):
        waiting = sum(number not in record.rows for number in numbers)
        if not waiting:
            continue
        part = questions.part(numbers)
        scores = head_scores(part, scorer, model.params, model.mesh, batch_size=run.batch_size)
        _require_numbers(part, numbers, scores)
        found = told_answers(part, order.applied(scores)).rows(part)
        record.add(
            {"task": questions.task, "number": number, **row, "cut": int(place in part.examples.cut)}
            for place, (number, row) in enumerate(zip(numbers, found, strict=True))
        )
        progress.add(waiting)


def score_by_head(
    questions: HeadQuestions, rows: Sequence[Row], learned: PairsTask, *, split: str, resamples: int
) -> Entry:
    """The entry of a task in ``scores.json``, from all of its rows in order.

    The commonest answer is that of the training split of ``learned``.
    """
    labelled = [number for number, row in enumerate(rows) if row["target"] is not None]
    given = [rows[number]["answer"] for number in labelled]
    entry = score(questions.answers.metrics, questions.targets, given, resamples=resamples)
    commonest = questions.most_frequent(training_rows(learned)) if labelled else None
    baseline = {} if commonest is None else questions.score(commonest)
    return (
        entry
        | counts(split, rows, num_labelled=len(labelled))
        | {
            "baseline": {name: value for name, value in baseline.items() if math.isfinite(value)},
            "invalid": 0,
            "labels": list(questions.head_format.class_names),
        }
        | ({"best_thresholds": thresholds} if (thresholds := best_thresholds(rows)) else {})
    )


def _parts(questions: HeadQuestions, size: int) -> Iterator[list[int]]:
    """Rows of like length together, the longest first; the same however often the work was interrupted."""
    longest = np.zeros(len(questions), np.int64)
    np.maximum.at(longest, questions.examples.origins, questions.examples.sizes)
    order = np.argsort(-longest, kind="stable").tolist()
    for start in range(0, len(order), size):
        yield order[start : start + size]


def _require_numbers(part: HeadQuestions, numbers: Sequence[int], scores: Sequence[np.ndarray]) -> None:
    for origin, each in zip(part.examples.origins.tolist(), scores, strict=True):
        if np.isnan(each).any():
            raise ValueError(
                f"task {part.task!r}: what the head says of question {numbers[origin]} is not a number (NaN); nothing "
                "can be told from such weights, evaluate others"
            )
