"""Write a pretraining run's losses by step as a file of results, which the quickstart's picture is drawn from.

make quickstart
python -m benchmarks.learning_curve runs/quickstart/pretrain --output benchmarks/results/quickstart_curve_cpu.json
"""

import argparse

from benchmarks.machine import about
from t5x_like.io.files import as_path, read_jsonl, write_json
from t5x_like.reports.curves import read_curves


def main() -> None:
    """Read the run and write the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="the run's directory")
    parser.add_argument("--output", required=True, metavar="FILE")
    arguments = parser.parse_args()
    curves = [
        {
            "split": "validation" if curve.held_out else "training",
            "steps": curve.steps,
            "losses": [round(loss, 4) for loss in curve.losses],
        }
        for curve in read_curves(arguments.run)
    ]
    entropies = [
        line["unigram_entropy"]
        for line in read_jsonl(as_path(arguments.run) / "metrics.jsonl")
        if "unigram_entropy" in line
    ]
    recipe = {"recipe": "gin/recipes/quickstart/pretrain.gin", "seed": 0}
    write_json(arguments.output, about() | recipe | {"curves": curves, "unigram_entropy": entropies[-1]})


if __name__ == "__main__":
    main()
