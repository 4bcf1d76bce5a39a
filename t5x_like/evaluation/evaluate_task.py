"""One task of an evaluation: asked as planned, scored, and what else is to be said of it."""

import time
from typing import Any

import jax

from t5x_like.evaluation.class_order import class_order
from t5x_like.evaluation.generate_answers import answer_length, answer_task
from t5x_like.evaluation.head_answers import answer_by_head, score_by_head
from t5x_like.evaluation.loaded_model import LoadedModel, trained_on
from t5x_like.evaluation.perplexity import measure_task
from t5x_like.evaluation.plan import HeadPlan, Plan, WordPlan
from t5x_like.evaluation.prediction_log import Record, replace_rows
from t5x_like.evaluation.questions import learned_from, published_rows
from t5x_like.evaluation.scorer import Asker
from t5x_like.evaluation.scores import Entry, score_rows
from t5x_like.evaluation.suite_settings import SuiteRun
from t5x_like.io.progress import Progress
from t5x_like.text import registry
from t5x_like.text.batches.head_questions import questions_of

_DEFAULT_LENGTHS = {"encoder": 512, "encoder_decoder": 512, "decoder": 2048}


def evaluate_task(
    run: SuiteRun, model: LoadedModel, plan: Plan, *, length: int, label: str, shown: bool
) -> Entry:
    """The entry of one task in ``scores.json``; its predictions are written on the way, or gone on with."""
    start = time.monotonic()
    progress = Progress(label, len(plan.rows), "questions", shown=shown and jax.process_index() == 0)
    with progress:
        if isinstance(plan, HeadPlan):
            entry = _by_head(run, model, plan, length, progress)
        elif plan.method == "measure":
            rows, entry = measure_task(model, plan.questions, run, length=length)
            replace_rows(run.output_dir, plan.task, rows)
            progress.reach(len(rows))
        else:
            entry = _by_words(run, model, plan, length, progress)
    read, published = entry["examples"] + plan.policy.num_skipped, published_rows(plan.definition, run.split)
    if run.limit is None and published not in (None, read):
        entry |= {"published": published}
    return entry | {
        "method": plan.method,
        "skipped": plan.policy.num_skipped,
        "first_skipped": plan.policy.first_skipped,
        "seconds": round(time.monotonic() - start, 1),
    }


def _by_head(run: SuiteRun, model: LoadedModel, plan: HeadPlan, length: int, progress: Progress) -> Entry:
    questions = questions_of(plan.definition, plan.read, inputs_length=length)
    inputs = {number: read.row.input_text for number, read in enumerate(plan.read)}
    record = Record(run.output_dir, plan.task, inputs)
    progress.skip(len(record.rows))
    mixture = trained_on(run.checkpoint)
    order = class_order(run.classes or model.classes, questions.head_format, learned=mixture)
    answer_by_head(model, questions, record, order=order, run=run, progress=progress)
    learned: Any = learned_from(plan.definition)
    entry = score_by_head(questions, record.finish(), learned, split=run.split, resamples=run.resamples)
    entry |= {"class_order": order.note} if order.note else {}
    own = {plan.task, learned.name} & {mixture, *_tasks_in(mixture)}
    return entry if own or not mixture else entry | {"head_of": mixture}


def _tasks_in(mixture: str) -> list[str]:
    try:
        return registry.names_of_tasks(mixture)
    except ValueError:  # a run's own, of which nothing is known here
        return []


def _by_words(run: SuiteRun, model: LoadedModel, plan: WordPlan, length: int, progress: Progress) -> Entry:
    questions = plan.questions
    record = Record(run.output_dir, plan.task, {row.number: row.inputs for row in questions.rows})
    asker = Asker(model, batch_size=run.batch_size, length=length)
    room = room_for(model, length, answer_length(asker, questions, run))
    progress.skip(len(record.rows))
    answer_task(
        asker,
        questions,
        plan.prompter,
        record,
        run=run,
        method=plan.method,
        length=room,
        progress=progress,
    )
    return score_rows(questions, record.finish(), resamples=run.resamples)


def length_for(run: SuiteRun, model: LoadedModel) -> int:
    """Tokens of a prompt.

    Raises:
      ValueError: more than the model can read.
    """
    most = model.positions
    if run.inputs_length is None:
        return min(_DEFAULT_LENGTHS[model.kind], most or _DEFAULT_LENGTHS[model.kind])
    if most is not None and run.inputs_length > most:
        raise ValueError(
            f"inputs_length is {run.inputs_length}, {run.checkpoint} can read {most} tokens; lower it"
        )
    return run.inputs_length


def room_for(model: LoadedModel, length: int, answer: int) -> int:
    """Tokens of a prompt, where the answer must fit behind it.

    Raises:
      ValueError: nothing is left.
    """
    if model.kind != "decoder" or model.positions is None:
        return length
    room = min(length, model.positions - answer)
    if room < 1:
        raise ValueError(
            f"an answer of {answer} tokens leaves no room for a question in {model.positions} positions; lower "
            "max_new_tokens"
        )
    return room
