"""Evaluation of a run on its own tasks, with the settings that its ``experiment.json`` holds."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from t5x_like.evaluation.evaluator import HeadEvaluation, TaskEvaluation
from t5x_like.evaluation.saved_runs import RunEvaluation, RunPrediction, evaluate_run
from t5x_like.evaluation.scores_file import TaskResult
from t5x_like.inference.generator import GenerationConfig
from t5x_like.io.files import PathLike
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.training.run_record import read_recorded


def evaluate(
    run: PathLike,
    *,
    split: str | None = None,
    evaluations: Sequence[TaskEvaluation | HeadEvaluation] = (),
    step: int | None = None,
    limit: int | None = None,
    batch_size: int | None = None,
    output_dir: PathLike | None = None,
    mesh: MeshConfig | None = None,
) -> dict[str, TaskResult]:
    """Score the weights of a run on held-out rows, and write ``scores.json`` and ``TASK/predictions.jsonl``.

    >>> t5x_like.evaluate("runs/finetune")["cmudict"].scores
    {'sequence_accuracy': 61.2}

    Args:
      run: Directory of the run. The tasks that it was trained with are registered.
      split: Rows to score; each evaluation's own split if not given, which is "validation" by default.
      evaluations: Evaluations to make. By default those that the run made during training, or the tasks it trained on.
      step: Step whose weights to take; the newest good one if not given.
      limit: Most rows of each task; all if not given, or those of ``evaluations``.
      batch_size: Rows at once; each evaluation's own number if not given.
      output_dir: Directory for results; ``evaluation`` in the run's directory if not given.
      mesh: Devices; all of them as data-parallel copies if not given.

    Raises:
      ValueError: not a run, no such step or split, or tasks that have no answers.
    """
    options = {"split": split, "batch_size": batch_size}
    changes: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    changes |= {} if evaluations and limit is None else {"limit": limit}
    chosen = evaluations or read_recorded(run, "evaluations") or (own_evaluation(run),)
    return evaluate_run(
        RunEvaluation(
            checkpoint=str(run),
            evaluations=tuple(replace(each, **changes) for each in chosen),
            output_dir=f"{str(run).rstrip('/')}/evaluation" if output_dir is None else str(output_dir),
            tasks=read_recorded(run, "tasks"),
            step=step,
            mesh=MeshConfig() if mesh is None else mesh,
        )
    )


def own_evaluation(run: PathLike) -> TaskEvaluation | HeadEvaluation:
    """Return the evaluation of the tasks that a run trains on, with the lengths of its training data.

    Raises:
      ValueError: not a run.
    """
    train = read_recorded(run, "train")
    if train.reads_heads:
        return HeadEvaluation(mixture=train.mixture, inputs_length=train.inputs_length)
    return TaskEvaluation(
        mixture=train.mixture,
        inputs_length=train.source_length,
        targets_length=train.targets_length,
        generation=GenerationConfig(max_new_tokens=train.targets_length),
    )


def own_prediction(run: PathLike, task: str) -> RunPrediction:
    """Return the prediction of ``t5x-like predict``, with the settings of a run's evaluation.

    Args:
      run: Folder of the run.
      task: Task of the rows.

    Raises:
      ValueError: not a run.
    """
    train = read_recorded(run, "train")
    prediction = RunPrediction(
        checkpoint=str(run),
        task=task,
        tasks=read_recorded(run, "tasks"),
        inputs_length=train.source_length,
        generation=GenerationConfig(max_new_tokens=own_answer_length(run)),
    )
    return prediction.as_evaluated(read_recorded(run, "evaluations"))


def own_answer_length(run: PathLike) -> int:
    """Return the longest written answer in tokens, which a decoder's rows have after the input.

    Raises:
      ValueError: not a run.
    """
    evaluations = read_recorded(run, "evaluations")
    if evaluations and isinstance(evaluations[0], TaskEvaluation):
        return evaluations[0].generation.max_new_tokens
    return read_recorded(run, "train").targets_length
