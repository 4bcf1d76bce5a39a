"""Evaluation of a checkpoint on benchmarks, with predictions on disk as they are made."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import jax

from t5x_like.evaluation.evaluated_tasks import find_task
from t5x_like.evaluation.head_predictor import list_heads
from t5x_like.evaluation.prediction_log import PredictionLog, check_results_directory, claim_results_directory
from t5x_like.evaluation.scores_file import Entry, ScoresFile, build_scores, write_scores
from t5x_like.evaluation.submissions import check_test_rows
from t5x_like.evaluation.suite_model import SuiteModel
from t5x_like.evaluation.suite_settings import SuiteEvaluation
from t5x_like.evaluation.task_evaluators import (
    describe_model,
    evaluate_task,
)
from t5x_like.evaluation.task_selection import select_answerable, select_by_files
from t5x_like.partitioning.shard import check_batch_size
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.pretrained.run_weights import steps_of, trained_with_framing
from t5x_like.pretrained.weight_sources import identity_of, is_run


def evaluate_suite(
    suite: SuiteEvaluation, *, shown: bool = True, for_server: bool = False, base: Checkpoint | None = None
) -> ScoresFile:
    """Evaluate every task and return the contents of ``scores.json``.

    Writes ``scores.json``, ``evaluation.json`` (the settings that results depend on) and ``TASK/predictions.jsonl``
    into ``suite.output_dir``. An interrupted evaluation continues after the predictions that exist.

    Args:
      suite: Checkpoint, tasks and settings.
      shown: Show progress.
      for_server: Require the exact test rows that GLUE's and SuperGLUE's servers score.
      base: The open checkpoint that the frozen weights of ``suite.checkpoint`` came from, whose arrays are shared.

    Raises:
      ValueError: A checkpoint, task, split or setting that can't be evaluated, or an ``output_dir`` with other results.
        Nothing was written then.
    """
    mesh = suite.mesh.build()
    check_batch_size(suite.batch_size, mesh)
    step = _step_of(suite.checkpoint, suite.step)
    identity = {
        "checkpoint": suite.checkpoint,
        "step": step,
        "weights": identity_of(suite.checkpoint, step),
        **suite.identity_settings(),
    }
    check_results_directory(suite.output_dir, identity)
    find = partial(
        find_task,
        vocabulary=suite.vocabulary or suite.checkpoint,
        data_dir=suite.data_dir,
        on_bad_row=suite.on_bad_row,
    )
    selection = select_by_files(
        {task: find(task, num_sentinels=0) for task in suite.tasks},
        suite.split,
        needs_training_split=bool(suite.num_shots),
        skip_missing=suite.skip_missing,
        data_dir=suite.data_dir,
    )
    model = open_checkpoint(
        suite.checkpoint,
        mesh=mesh,
        step=step,
        vocabulary=suite.vocabulary,
        num_sentinels=suite.num_sentinels,
        needs_tokenizer=True,
        base=base,
    )
    suite_model = SuiteModel(suite, model)
    definitions = {task: find(task, num_sentinels=model.tokenizer.num_sentinels) for task in selection.tasks}
    if framing := trained_with_framing(suite.checkpoint):
        definitions = {task: replace(each, framing=framing) for task, each in definitions.items()}
    selection = select_answerable(
        selection,
        suite_model.faults(definitions),
        whose=f"{suite.checkpoint} (heads: {list_heads(suite_model.model)})",
        skip_missing=suite.skip_missing,
    )
    suite.check_methods(
        list(dict.fromkeys(suite_model.method(definitions[task]) for task in selection.tasks))
    )
    weights = {task: suite_model.weights(definitions[task]) for task in selection.tasks}
    evaluators = {task: suite_model.evaluator(definitions[task]) for task in selection.tasks}
    if for_server:
        check_test_rows({task: each.source_rows for task, each in evaluators.items()})
    claim_results_directory(suite.output_dir, identity)
    entries: dict[str, Entry] = {}
    for position, task in enumerate(selection.tasks, start=1):
        evaluator = evaluators.pop(task)  # frees the rows of finished tasks
        start = time.monotonic()
        log = PredictionLog(suite.output_dir, task, evaluator.inputs)
        result = evaluate_task(
            evaluator,
            weights[task],
            label=f"{task} ({position} of {len(selection.tasks)})",
            shown=shown and not jax.process_index(),
            log=log,
            resamples=suite.resamples,
        )
        entries[task] = result.entry | {"seconds": round(time.monotonic() - start, 1)}
    own = {name: value for name, value in identity.items() if name not in ("checkpoint", "step")}
    scores = build_scores(
        entries,
        checkpoint=suite.checkpoint,
        step=step,
        model=describe_model(model.config, model.params),
        settings=own | {"inputs_length": suite_model.length},
        left_out=selection.left_out,
    )
    if jax.process_index() == 0:
        write_scores(suite.output_dir, scores)
    return scores


def evaluate_adapters(
    checkpoint: str, suites: Sequence[SuiteEvaluation]
) -> Iterator[tuple[SuiteEvaluation, ScoresFile]]:
    """Evaluate runs that trained adapters on one checkpoint, which is opened once.

    Args:
      checkpoint: The checkpoint that all of them were trained on.
      suites: The evaluation of each run.

    Yields:
      Each evaluation, with the contents of its ``scores.json``.

    Raises:
      ValueError: As ``evaluate_suite``; or a run was trained on other weights.
    """
    base = open_checkpoint(checkpoint, mesh=suites[0].mesh.build(), finite=False)
    for suite in suites:
        yield suite, evaluate_suite(suite, base=base)


def _step_of(checkpoint: str, requested: int | None) -> int | None:
    """Return the step to evaluate: by default a run's newest; ``None`` for other checkpoints.

    Raises:
      ValueError: The run has no steps, or not that one.
    """
    if not is_run(checkpoint):
        if requested is not None:
            raise ValueError(
                f"{checkpoint} is no run of ours and has no steps, only its weights; leave step out"
            )
        return None
    steps = steps_of(checkpoint)
    if not steps or requested not in (None, *steps):
        wanted = "finished step" if requested is None else f"finished step {requested}"
        raise ValueError(f"{checkpoint} has no {wanted}, only {steps or 'none'}")
    return steps[-1] if requested is None else requested
