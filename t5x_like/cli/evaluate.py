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
from typing import TYPE_CHECKING

from t5x_like.cli.arguments import EVALUATION, load_configuration
from t5x_like.cli.evaluate_suite import run_suite, wants_suite
from t5x_like.cli.saved_run import add_saved_run_arguments, tells_by_head, use_saved_run
from t5x_like.cli.suite_flags import add_suite_arguments

if TYPE_CHECKING:
    from t5x_like.evaluation.evaluator import TaskResult


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``t5x-like evaluate``."""
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
    drawer = "gin/runs/evaluate_head.gin" if tells_by_head(arguments.checkpoint) else "gin/runs/evaluate.gin"
    use_saved_run(arguments, drawer, OUTPUT_DIR=output, SPLIT=arguments.split)
    loaded = load_configuration(arguments, EVALUATION)

    from t5x_like.evaluation.run import evaluate
    from t5x_like.partitioning.processes import initialize_processes

    initialize_processes()
    results = evaluate(loaded.value)
    print(_table(results))
    print(f"written to {loaded.value.output_dir}")
    return 0


def _table(results: "dict[str, TaskResult]") -> str:
    rows = [("task", "metric", "score", "commonest answer", "rows")]
    for task, result in results.items():
        for metric, score in result.scores.items():
            baseline = result.baseline.get(metric)
            shown = f"{baseline:.2f}" if baseline is not None else "-"
            rows.append((task, metric, f"{score:.2f}", shown, f"{len(result.rows):,}"))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join(
        f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}"
        + "".join(f"  {cell:>{width}}" for cell, width in zip(row[2:], widths[2:], strict=True))
        for row in rows
    )
