"""Score weights on held-out rows; writes scores.json, predictions.jsonl and, of benchmarks, a report.

t5x-like evaluate --checkpoint runs/finetune             the test rows of what the run was trained on
t5x-like evaluate --checkpoint RUN|HF_DIR --recipe glue  a suite of benchmarks; --tasks names some of them
t5x-like evaluate --checkpoint HF_DIR --recipe super_glue --num_shots 4          a decoder shown solved examples
t5x-like evaluate --checkpoint RUN --recipe glue --submission glue.zip           the file for GLUE's server
t5x-like evaluate --checkpoint RUN --recipe glue --watch                         each checkpoint as it appears
t5x-like evaluate --check_submission glue.zip                                    what is in it, and its faults
t5x-like evaluate --gin_file=gin/recipes/quickstart/evaluate.gin --gin.CHECKPOINT="'runs/finetune'" …
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t5x_like.cli.arguments import EVALUATION, EXPERIMENT, load_configuration, load_part
from t5x_like.cli.evaluate_suite import run_suite, wants_suite
from t5x_like.cli.saved_run import add_saved_run_arguments, tells_by_head, use_saved_run
from t5x_like.cli.suite_flags import add_suite_arguments

if TYPE_CHECKING:
    from t5x_like.evaluation.evaluator import TaskResult
    from t5x_like.evaluation.heads import HeadEvaluation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of ``t5x-like evaluate``."""
    add_saved_run_arguments(parser)
    parser.add_argument("--output_dir", metavar="DIR", help="where results go (RUN_DIR/evaluation)")
    parser.add_argument("--split", help="the rows to score (test; of benchmarks validation)")
    add_suite_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints each task's scores beside its baseline."""
    if wants_suite(arguments):
        return run_suite(arguments)
    output = arguments.output_dir
    if not output and not arguments.gin_file and arguments.checkpoint:
        output = f"{arguments.checkpoint.rstrip('/')}/evaluation"
    by_head = not arguments.gin_file and tells_by_head(arguments.checkpoint)
    drawer = "gin/runs/evaluate_head.gin" if by_head else "gin/runs/evaluate.gin"
    use_saved_run(arguments, drawer, OUTPUT_DIR=output, SPLIT=arguments.split)
    evaluation: Any = load_configuration(arguments, EVALUATION).value
    if by_head:
        evaluation = replace(evaluation, evaluations=_of_the_run(arguments, evaluation.evaluations[0]))

    from t5x_like.evaluation.run import evaluate
    from t5x_like.partitioning.processes import initialize_processes

    initialize_processes()
    results = evaluate(evaluation)
    print(_table(results))
    print(f"written to {evaluation.output_dir}")
    return 0


def _of_the_run(arguments: argparse.Namespace, asked: "HeadEvaluation") -> "tuple[HeadEvaluation, ...]":
    """What the run itself evaluated, which need not be what it learned from; of the split that is asked for."""
    from t5x_like.evaluation.heads import HeadEvaluation

    config = str(Path(arguments.checkpoint) / "config.gin")
    own = argparse.Namespace(**{**vars(arguments), "gin_file": [config]})
    found = load_part(own, EXPERIMENT, "evaluations", "EVALUATIONS")
    told = {name: getattr(asked, name) for name in ("split", "batch_size", "limit")}
    return tuple(replace(each, **told) for each in found if isinstance(each, HeadEvaluation))


def _table(results: "dict[str, TaskResult]") -> str:
    rows = [("task", "metric", "score", "commonest answer", "rows")]
    for task, result in results.items():
        for metric, score in result.scores.items():
            baseline = result.baseline.get(metric)
            shown = f"{baseline:.2f}" if baseline is not None else "-"
            rows.append((task, metric, f"{score:.2f}", shown, f"{len(result.rows):,}"))
        if not result.scores:  # a split without labels
            rows.append((task, "-", "-", "-", f"{len(result.rows):,}"))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join(
        f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}"
        + "".join(f"  {cell:>{width}}" for cell, width in zip(row[2:], widths[2:], strict=True))
        for row in rows
    )
