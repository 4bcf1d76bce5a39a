"""Evaluates a checkpoint on tasks: answers and scores on disk, whatever happens on the way."""

import hashlib
import time
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

import t5x_like
from t5x_like.evaluation.submissions import check_test_rows
from t5x_like.evaluation.suite.answering import answer_length, answer_task
from t5x_like.evaluation.suite.asking import Asker
from t5x_like.evaluation.suite.by_head import answer_by_head, score_by_head
from t5x_like.evaluation.suite.class_order import class_order
from t5x_like.evaluation.suite.loaded_model import (
    LoadedModel,
    identity_of,
    is_run,
    load_model,
    steps_of,
    trained_on,
)
from t5x_like.evaluation.suite.measuring import measure_task
from t5x_like.evaluation.suite.planning import (
    HeadPlan,
    Plan,
    WordPlan,
    fitting_tasks,
    read_plans,
    tasks_with_files,
)
from t5x_like.evaluation.suite.questions import learned_from, published_rows
from t5x_like.evaluation.suite.recording import SCORES, Record, claim, refuse_others, replace_rows
from t5x_like.evaluation.suite.scoring import Entry, score_rows
from t5x_like.evaluation.suite.settings import SuiteRun
from t5x_like.files import read_json, write_json
from t5x_like.partitioning.shard import check_batch_size
from t5x_like.text.batches.head_questions import questions_of
from t5x_like.text.metrics.averages import AVERAGES, average, missing_parts
from t5x_like.text.progress import Progress
from t5x_like.text.tasks import registry

_DEFAULT_LENGTHS = {"encoder": 512, "encoder_decoder": 512, "decoder": 2048}


def evaluate_suite(run: SuiteRun, *, shown: bool = True, for_server: bool = False) -> dict[str, Any]:
    """Answers and scores every task, and returns what ``scores.json`` holds.

    In ``run.output_dir`` are ``scores.json``, ``evaluation.json`` (whose results these are) and for each task a folder
    with ``predictions.jsonl``, to which every batch is written as it is answered. Where some are there already, the
    evaluation goes on after them. ``for_server`` wants the very test rows that GLUE's and SuperGLUE's servers score.

    Raises:
      ValueError: a checkpoint, task, split or setting that can't be evaluated, or an ``output_dir`` with other results;
        nothing was written then.
    """
    mesh = run.mesh.build()
    check_batch_size(run.batch_size, mesh)
    step = _step_of(run)
    identity = _identity(run, step)
    refuse_others(run.output_dir, identity)
    chosen = tasks_with_files(run)
    model = load_model(
        run.checkpoint, mesh=mesh, step=step, vocabulary=run.vocabulary, num_sentinels=run.num_sentinels
    )
    length = _length_for(run, model)
    chosen = fitting_tasks(run, model, chosen)
    plans = read_plans(run, model, chosen)
    if run.max_new_tokens is not None and any(plan.method in ("generate", "rank") for plan in plans.values()):
        _room(model, length, run.max_new_tokens)
    if for_server:
        check_test_rows({task: plan.rows for task, plan in plans.items()})
    claim(run.output_dir, identity)
    entries: dict[str, Entry] = {}
    for number, (task, plan) in enumerate(plans.items(), start=1):
        start = time.monotonic()
        entry = _evaluate_task(run, model, plan, length, f"{task} ({number} of {len(plans)})", shown)
        skipped = {"skipped": plan.policy.num_skipped, "first_skipped": plan.policy.first_skipped}
        entries[task] = entry | skipped | {"seconds": round(time.monotonic() - start, 1)}
        read, published = (
            entry["examples"] + plan.policy.num_skipped,
            published_rows(plan.definition, run.split),
        )
        if run.limit is None and published not in (None, read):
            entries[task]["published"] = published
    found = {
        **identity,
        "model": type(model.config).__name__.removesuffix("Config"),
        "parameters": model.num_parameters,
        "inputs_length": length,
        "versions": {"t5x_like": t5x_like.__version__, "jax": jax.__version__, "numpy": np.__version__},
        "tasks": entries,
        "left_out": dict(chosen.left_out),
        "averages": averages_of(entries),
    }
    if jax.process_index() == 0:
        write_json(f"{run.output_dir}/{SCORES}", found)
    return found


def averages_of(entries: Mapping[str, Entry]) -> dict[str, Any]:
    """GLUE's and SuperGLUE's averages of which any part is there: ``None``, and what is ``missing``, if not all is."""
    scores = {
        f"{task}/{name}": value for task, entry in entries.items() for name, value in entry["scores"].items()
    }
    return {
        benchmark: {"score": average(benchmark, scores), "missing": missing_parts(benchmark, scores)}
        for benchmark, groups in AVERAGES.items()
        if any(name in scores for names in groups.values() for name in names)
    }


def read_suite_scores(output_dir: str) -> dict[str, Any]:
    """What ``evaluate_suite`` has written.

    Raises:
      ValueError: it is not of this form.
    """
    found = read_json(f"{output_dir}/{SCORES}")
    if "averages" not in found:
        raise ValueError(f"{output_dir}/{SCORES} is not of an evaluation on benchmarks")
    return found


def _evaluate_task(
    run: SuiteRun, model: LoadedModel, plan: Plan, length: int, label: str, shown: bool
) -> Entry:
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
    return entry | {"method": plan.method}


def _by_head(run: SuiteRun, model: LoadedModel, plan: HeadPlan, length: int, progress: Progress) -> Entry:
    questions = questions_of(plan.definition, plan.read, inputs_length=length)
    inputs = {number: questions.input_of(read) for number, read in enumerate(plan.read)}
    record = Record(run.output_dir, plan.task, inputs)
    progress.skip(len(record.rows))
    mixture = trained_on(run.checkpoint)
    order = class_order(run.classes or model.classes, questions.form, learned=mixture)
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
    room = _room(model, length, answer_length(asker, questions, run))
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


def _length_for(run: SuiteRun, model: LoadedModel) -> int:
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


def _room(model: LoadedModel, length: int, answer: int) -> int:
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


def _step_of(run: SuiteRun) -> int | None:
    """The step that is evaluated: a run's newest where none is named.

    Raises:
      ValueError: a run without one, or without that one.
    """
    if not is_run(run.checkpoint):
        if run.step is not None:
            raise ValueError(
                f"{run.checkpoint} is no run of ours and has no steps, only its weights; leave --step out"
            )
        return None
    steps = steps_of(run.checkpoint)
    if not steps or run.step not in (None, *steps):
        wanted = "finished step" if run.step is None else f"finished step {run.step}"
        raise ValueError(f"{run.checkpoint} has no {wanted}, only {steps or 'none'}")
    return steps[-1] if run.step is None else run.step


def _identity(run: SuiteRun, step: int | None) -> dict[str, Any]:
    given = {"vocabulary": run.vocabulary, "classes": list(run.classes)}
    settings = run.deciding() | {name: value for name, value in given.items() if value}
    digest = hashlib.sha256(repr(sorted(settings.items())).encode()).hexdigest()[:12]
    tasks = settings.pop("tasks")
    return {
        "checkpoint": run.checkpoint,
        "step": step,
        "weights": identity_of(run.checkpoint, step),
        **settings,
        "task_names": tasks,
        "settings_hash": digest,
    }
