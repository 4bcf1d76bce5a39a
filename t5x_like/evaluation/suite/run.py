"""Evaluates a checkpoint on tasks: answers and scores on disk, whatever happens on the way."""

import hashlib
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

import t5x_like
from t5x_like.evaluation.suite.answering import answer_length, answer_task
from t5x_like.evaluation.suite.asking import Asker
from t5x_like.evaluation.suite.loaded_model import LoadedModel, identity_of, is_run, load_model, steps_of
from t5x_like.evaluation.suite.prompts import Prompter
from t5x_like.evaluation.suite.questions import Questions, find_task, load_questions, training_rows
from t5x_like.evaluation.suite.recording import SCORES, Record, claim, replace_rows
from t5x_like.evaluation.suite.scoring import Entry, score_rows
from t5x_like.evaluation.suite.settings import Method, SuiteRun, method_for, style_for
from t5x_like.files import read_json, write_json
from t5x_like.partitioning.shard import check_batch_size
from t5x_like.text.metrics.averages import AVERAGES, average, missing_parts
from t5x_like.text.progress import Progress

_DEFAULT_LENGTHS = {"encoder": 512, "encoder_decoder": 512, "decoder": 2048}


def evaluate_suite(run: SuiteRun, *, shown: bool = True) -> dict[str, Any]:
    """Answers and scores every task, and returns what ``scores.json`` holds.

    In ``run.output_dir`` are ``scores.json``, ``evaluation.json`` (whose results these are) and for each task a folder
    with ``predictions.jsonl``, to which every batch is written as it is answered. Where some are there already, the
    evaluation goes on after them.

    Raises:
      ValueError: a checkpoint, task, split or setting that can't be evaluated, or an ``output_dir`` with other results.
    """
    mesh = run.mesh.build()
    check_batch_size(run.batch_size, mesh)
    step = _step_of(run)
    claim(run.output_dir, identity := _identity(run, step))
    model = load_model(
        run.checkpoint, mesh=mesh, step=step, vocabulary=run.vocabulary, num_sentinels=run.num_sentinels
    )
    length = _length_for(run, model)
    plans = [_plan(run, model, task) for task in run.tasks]
    entries: dict[str, Entry] = {}
    for number, (task, plan) in enumerate(zip(run.tasks, plans, strict=True), start=1):
        start = time.monotonic()
        entry = _evaluate_task(run, model, plan, length, f"{task} ({number} of {len(run.tasks)})", shown)
        entries[task] = entry | {"seconds": round(time.monotonic() - start, 1)}
    found = {
        **identity,
        "model": type(model.config).__name__.removesuffix("Config"),
        "parameters": model.num_parameters,
        "inputs_length": length,
        "versions": {"t5x_like": t5x_like.__version__, "jax": jax.__version__, "numpy": np.__version__},
        "tasks": entries,
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


class _Plan(NamedTuple):
    """One task, its rows read: what is missing or wrong is told before anything is answered."""

    questions: Questions
    prompter: Prompter
    method: Method


def _plan(run: SuiteRun, model: LoadedModel, task: str) -> _Plan:
    definition = find_task(
        task,
        vocabulary=run.vocabulary or run.checkpoint,
        num_sentinels=model.tokenizer.num_sentinels,
        data_dir=run.data_dir,
    )
    questions = load_questions(definition, run.split, limit=run.limit)
    prompter = Prompter(
        task=questions.task,
        style=style_for(run, model.kind),
        num_shots=run.num_shots,
        seed=run.shot_seed,
        pool=training_rows(questions.definition) if run.num_shots else (),
    )
    return _Plan(questions, prompter, method_for(run, model.kind, questions))


def _evaluate_task(
    run: SuiteRun, model: LoadedModel, plan: _Plan, length: int, label: str, shown: bool
) -> Entry:
    questions, prompter, method = plan
    if method == "head":
        from t5x_like.evaluation.suite.by_head import answer_by_head

        rows, entry = answer_by_head(model, questions.definition, run, length=length)
        replace_rows(run.output_dir, questions.task, rows)
        return entry | {"method": method}
    if method == "measure":
        from t5x_like.evaluation.suite.measuring import measure_task

        rows, entry = measure_task(model, questions, run, length=length)
        replace_rows(run.output_dir, questions.task, rows)
        return entry | {"method": method}
    record = Record(run.output_dir, questions)
    asker = Asker(model, batch_size=run.batch_size, length=length)
    room = _room(model, length, answer_length(asker, questions, run))
    with Progress(
        label, len(questions.rows), "questions", shown=shown and jax.process_index() == 0
    ) as progress:
        progress.skip(len(record.rows))
        answer_task(
            asker, questions, prompter, record, run=run, method=method, length=room, progress=progress
        )
    return score_rows(questions, record.finish(), resamples=run.resamples) | {"method": method}


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
        return None
    steps = steps_of(run.checkpoint)
    if not steps or run.step not in (None, *steps):
        wanted = "finished step" if run.step is None else f"finished step {run.step}"
        raise ValueError(f"{run.checkpoint} has no {wanted}, only {steps or 'none'}")
    return steps[-1] if run.step is None else run.step


def _identity(run: SuiteRun, step: int | None) -> dict[str, Any]:
    words = {} if not run.vocabulary else {"vocabulary": run.vocabulary}
    settings = run.deciding() | words
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
