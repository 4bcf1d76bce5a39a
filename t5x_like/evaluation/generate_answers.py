"""One task's questions answered batch by batch: written, or ranked."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from t5x_like.evaluation.encoding import Encoded, Pair, encode_answers, encode_prompts
from t5x_like.evaluation.generation import Generation
from t5x_like.evaluation.prediction_log import Record, Row
from t5x_like.evaluation.prompts import Prompter
from t5x_like.evaluation.questions import Question, Questions
from t5x_like.evaluation.scorer import Asker
from t5x_like.evaluation.suite_settings import Method, Normalisation, SuiteRun
from t5x_like.io.progress import Progress

_LONGEST_ANSWER = 64  # tokens, where a task doesn't say which answers there are
_LONGEST_NUMBER = 8


def answer_task(
    asker: Asker,
    questions: Questions,
    prompter: Prompter,
    record: Record,
    *,
    run: SuiteRun,
    method: Method,
    length: int,
    progress: Progress,
) -> None:
    """Answers what ``record`` has no answer to yet; a batch is written before the next one is begun.

    Batches are made of questions of like length and are the same however often the work was interrupted.
    """
    prompts = [prompter.prompt(row.number, row.inputs) for row in questions.rows]
    encoded = encode_prompts(asker.model, prompter, prompts, length=length)
    longest = answer_length(asker, questions, run)
    for places in _batches([len(prompt.ids) for prompt in encoded], asker.batch_size):
        rows = [questions.rows[place] for place in places]
        waiting = sum(row.number not in record.rows for row in rows)
        if not waiting:
            continue
        batch = [encoded[place] for place in places]
        if method == "rank":
            answers = _rank(asker, questions, batch, rows, prompter.style.joint, longest, run.normalisation)
        else:
            generation = Generation(
                max_new_tokens=longest, num_beams=run.num_beams, length_penalty_alpha=run.length_penalty
            )
            answers = _write(asker, questions, batch, rows, prompter.style.joint, generation)
        record.add(
            record_row(questions, row, answer | {"cut": prompt.cut, "dropped": prompt.dropped})
            for row, prompt, answer in zip(rows, batch, answers, strict=True)
        )
        progress.add(waiting)


def answer_length(asker: Asker, questions: Questions, run: SuiteRun) -> int:
    """Tokens for an answer: what the longest that there is takes, and its end."""
    if run.max_new_tokens is not None:
        return run.max_new_tokens
    if questions.is_number:
        return _LONGEST_NUMBER
    if not questions.labels:
        return _LONGEST_ANSWER
    ids = asker.model.tokenizer.encode_all([" " + label for label in questions.labels])
    return max(map(len, ids)) + 2


def record_row(questions: Questions, row: Question, answer: Row) -> Row:
    """What is written of one question: with its number in the source, and the answer as metrics read it."""
    kept = {name: value for name, value in row.example.items() if name == "idx" or name.startswith("idx/")}
    found = {
        "task": questions.task,
        "number": row.number,
        **kept,
        "input": row.inputs,
        "target": row.targets if questions.is_labelled(row) else None,
        **answer,
    }
    return found | {"answer": questions.answer_of(row, answer["prediction"])}


def _write(
    asker: Asker,
    questions: Questions,
    batch: Sequence[Encoded],
    rows: Sequence[Question],
    joint: str,
    generation: Generation,
) -> list[dict[str, Any]]:
    texts = asker.write(batch, generation)
    targets = [row.targets if questions.is_labelled(row) else None for row in rows]
    likelihoods: Sequence[float | None] = [None] * len(rows)
    if any(target is not None for target in targets):
        shown = [target or "" for target in targets]
        pairs = encode_answers(asker.model, batch, shown, length=generation.max_new_tokens, joint=joint)
        found = asker.score(_not_empty(pairs)).tolist()
        likelihoods = [
            None if target is None else value for target, value in zip(targets, found, strict=True)
        ]
    return [
        {"prediction": text, "log_likelihood": value} for text, value in zip(texts, likelihoods, strict=True)
    ]


def _rank(
    asker: Asker,
    questions: Questions,
    batch: Sequence[Encoded],
    rows: Sequence[Question],
    joint: str,
    longest: int,
    normalisation: Normalisation,
) -> list[dict[str, Any]]:
    scores = np.zeros((len(rows), len(questions.labels)))
    sizes = np.ones_like(scores)
    for column, label in enumerate(questions.labels):
        pairs = encode_answers(asker.model, batch, [label] * len(rows), length=max(longest, 64), joint=joint)
        scores[:, column] = asker.score(_not_empty(pairs))
        if normalisation == "tokens":
            sizes[:, column] = [max(len(pair.answer), 1) for pair in pairs]
        elif normalisation == "bytes":
            sizes[:, column] = len(label.encode("utf-8"))
    compared = np.nan_to_num(scores / sizes, nan=-np.inf, neginf=-np.inf)
    best = np.argmax(compared, axis=1)
    found = []
    for row, likelihoods, place in zip(rows, scores.tolist(), best.tolist(), strict=True):
        choices = dict(zip(questions.labels, likelihoods, strict=True))
        found.append(
            {
                "prediction": "" if math.isnan(likelihoods[place]) else questions.labels[place],
                "log_likelihood": choices.get(row.targets),
                "choices": choices,
            }
        )
    return found


def _not_empty(pairs: Sequence[Pair]) -> Sequence[Pair]:
    """A decoder's answer that adds no token has nothing to be scored; it costs nothing."""
    return [pair if len(pair.prompt) else Pair(np.zeros(1, np.int32), pair.answer) for pair in pairs]


def _batches(sizes: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Places of questions of like length, the longest first: what doesn't fit into memory shows at once."""
    order = np.argsort(-np.asarray(sizes), kind="stable").tolist()
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]
