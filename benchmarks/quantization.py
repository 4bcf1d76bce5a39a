"""Train the same recipe with products in full precision, int8 and float8, and compare the losses.

    python -m benchmarks.quantization --gin_file=gin/recipes/quickstart/pretrain.gin --config=T5Config --seeds 0 1 2 \
        --runs runs/quantization --output benchmarks/results/quantization_cpu.json

Batches and fresh weights are those of the seed. Differences between seeds say how far a difference between types is
noise.
"""

import argparse
from pathlib import Path
from typing import Any, get_args

from benchmarks.commands import run
from benchmarks.machine import about
from t5x_like.io.files import read_json, read_jsonl, write_json
from t5x_like.model.layers.quantized_matmul import Quantization


def main() -> None:
    """Train what is missing, and write the losses."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gin_file", required=True, metavar="FILE", help="a pretraining recipe")
    parser.add_argument("--config", required=True, metavar="CLASS", help="its model's configuration class")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--runs", type=Path, required=True, metavar="DIR", help="where runs are written")
    parser.add_argument("--output", required=True, metavar="FILE")
    arguments = parser.parse_args()
    output = Path(arguments.output)
    results: dict[str, Any] = read_json(output) if output.exists() else {}
    losses = results.setdefault(arguments.gin_file, {"steps": arguments.steps})
    for seed in arguments.seeds:
        for quantization in (None, *get_args(Quantization)):
            losses.setdefault(str(quantization), {})[f"seed_{seed}"] = loss(arguments, seed, quantization)
            write_json(output, about() | results)


def loss(arguments: argparse.Namespace, seed: int, quantization: str | None) -> float:
    """Train, and return the last validation loss in nats a token."""
    home = arguments.runs / f"{Path(arguments.gin_file).stem}_{quantization}_{seed}"
    if not home.exists():
        run(
            "train",
            f"--gin_file={arguments.gin_file}",
            f"--model_dir={home}",
            *([f"--set={arguments.config}.quantization={quantization}"] if quantization else []),
            TRAIN_STEPS=arguments.steps,
            SAVE_EVERY_STEPS=0,
            SEED=seed,
        )
    lines = read_jsonl(home / "metrics.jsonl")
    return [line["loss"] for line in lines if line["split"].startswith("validation/")][-1]


if __name__ == "__main__":
    main()
