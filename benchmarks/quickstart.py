"""Write what `make quickstart` reached as a file of results: losses by step, which a picture shows, and scores.

make setup && time make quickstart
python -m benchmarks.quickstart runs/quickstart --minutes 5.6 --output benchmarks/results/quickstart_cpu.json
"""

import argparse

from benchmarks.machine import about
from t5x_like.evaluation.scores_file import read_scores
from t5x_like.io.files import as_path, read_jsonl, write_json
from t5x_like.reports.curves import read_curves


def main() -> None:
    """Read the runs and write the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", help="the folder of `make quickstart`")
    parser.add_argument(
        "--minutes", type=float, required=True, help="wall time of `make quickstart` after set-up"
    )
    parser.add_argument("--output", required=True, metavar="FILE")
    arguments = parser.parse_args()
    pretrain = as_path(arguments.runs) / "pretrain"
    curves = []
    for curve in read_curves(pretrain):
        # A run that was stopped ends with a log line of fewer steps than the others.
        points = [
            point for point in zip(curve.steps, curve.losses, strict=True) if point[0] % curve.steps[0] == 0
        ]
        curves.append(
            {
                "split": "validation" if curve.held_out else "training",
                "steps": [step for step, _ in points],
                "losses": [round(loss, 4) for _, loss in points],
            }
        )
    logged = list(read_jsonl(pretrain / "metrics.jsonl"))
    entropy = [line["unigram_entropy"] for line in logged if "unigram_entropy" in line][-1]
    evaluation = as_path(arguments.runs) / "evaluation"
    entries = (
        read_scores(evaluation)["tasks"] if evaluation.exists() else {}
    )  # the curve may be written before
    scores = {
        task: {"scores": entry["scores"], "baseline": entry["baseline"], "rows": entry["examples"]}
        for task, entry in entries.items()
    }
    write_json(
        arguments.output,
        about()
        | {
            "seed": 0,
            "minutes": arguments.minutes,
            "curves": curves,
            "unigram_entropy": entropy,
            "tasks": scores,
        },
    )


if __name__ == "__main__":
    main()
