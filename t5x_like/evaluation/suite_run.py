"""Evaluates a checkpoint on tasks: answers and scores on disk, whatever happens on the way."""

import hashlib
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

import t5x_like
from t5x_like.evaluation.evaluate_task import evaluate_task, length_for, room_for
from t5x_like.evaluation.loaded_model import identity_of, is_run, load_model, steps_of
from t5x_like.evaluation.plan import fitting_tasks, read_plans, tasks_with_files
from t5x_like.evaluation.prediction_log import SCORES, claim, refuse_others
from t5x_like.evaluation.scores import Entry
from t5x_like.evaluation.submissions import check_test_rows
from t5x_like.evaluation.suite_settings import SuiteRun
from t5x_like.io.files import read_json, write_json
from t5x_like.partitioning.shard import check_batch_size
from t5x_like.text.benchmarks.suites import SUITES


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
    length = length_for(run, model)
    chosen = fitting_tasks(run, model, chosen)
    plans = read_plans(run, model, chosen)
    if run.max_new_tokens is not None and any(plan.method in ("generate", "rank") for plan in plans.values()):
        room_for(model, length, run.max_new_tokens)
    if for_server:
        check_test_rows({task: plan.rows for task, plan in plans.items()})
    claim(run.output_dir, identity)
    entries: dict[str, Entry] = {}
    for number, (task, plan) in enumerate(plans.items(), start=1):
        label = f"{task} ({number} of {len(plans)})"
        entries[task] = evaluate_task(run, model, plan, length=length, label=label, shown=shown)
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
    """Returns the averages of suites of which any part is there: ``None``, and what is ``missing``, if not all is."""
    scores = {
        f"{task}/{name}": value for task, entry in entries.items() for name, value in entry["scores"].items()
    }
    return {
        name: {"score": suite.average_of(scores), "missing": suite.missing(scores)}
        for name, suite in SUITES.items()
        if suite.concerns(scores)
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
