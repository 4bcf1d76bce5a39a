"""Train small recipes as their headers say, and keep the scores that the headers state.

    python -m benchmarks.recipe_scores --runs runs/recipe_scores --output benchmarks/results/recipe_scores_cpu.json \
        [RUN …]

A run starts from the weights of another one where ``RUNS`` says so. Runs that ``--output`` has with as many seeds are
not repeated.
"""

import argparse
import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.commands import run
from benchmarks.machine import about
from t5x_like.io.files import read_json, write_json

_SPIECE = {"VOCABULARY": "data/vocabulary/spiece.model"}


class Recipe(NamedTuple):
    """A recipe to train.

    Attributes:
      path: Its gin file, below ``gin/recipes``.
      after: Run whose weights it starts from.
      macros: Values of macros.
      num_seeds: Runs with SEED 0 to this number minus 1.
    """

    path: str
    after: str = ""
    macros: dict[str, Any] | None = None
    num_seeds: int = 1


RUNS = {
    "gpt": Recipe("tuning/gpt_pretrain"),
    "gpt_head": Recipe("tuning/gpt_head", "gpt", num_seeds=3),
    "gpt_head_without_lm": Recipe("tuning/gpt_head", "gpt", {"AUXILIARY_LM_WEIGHT": None}, 3),
    "gpt_head_from_scratch": Recipe("tuning/gpt_head", num_seeds=3),
    "bert": Recipe("objectives/masked_lm", macros=_SPIECE),
    "masked_cloze": Recipe("tuning/masked_cloze", "bert", num_seeds=3),
    "glm": Recipe("objectives/blank_infilling", macros=_SPIECE),
    "glm_cloze": Recipe("tuning/glm_cloze", "glm", num_seeds=3),
    "unilm_both_ways": Recipe("tuning/unilm_both_ways"),
    "unilm_titles": Recipe("tuning/unilm_titles"),
}


def main() -> None:
    """Train what is missing, and write the file after each run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=list(RUNS), metavar="RUN", help=", ".join(RUNS))
    parser.add_argument("--runs", type=Path, required=True, metavar="DIR", help="where runs are written")
    parser.add_argument("--output", required=True, metavar="FILE")
    arguments = parser.parse_args()
    result: dict[str, Any] = read_json(arguments.output) if Path(arguments.output).exists() else {}
    for name in arguments.names:
        if len(result.get(name, {}).get("seconds", ())) < RUNS[name].num_seeds:
            result[name] = measure(name, arguments.runs) | about()
            write_json(arguments.output, dict(sorted(result.items())))


def measure(name: str, runs: Path) -> dict[str, Any]:
    """Train a run with each of its seeds, and return seconds, scores and baselines."""
    recipe = RUNS[name]
    seconds, scores, baselines = [], list[dict[str, float]](), dict[str, float]()
    for seed in range(recipe.num_seeds):
        directory = runs / (f"{name}_{seed}" if seed else name)
        macros = dict(recipe.macros or {}) | {"SEED": seed}
        if recipe.after:
            macros["INITIAL_CHECKPOINT"] = str(runs / recipe.after)
        start = time.monotonic()
        run("train", f"--gin_file=gin/recipes/{recipe.path}.gin", f"--model_dir={directory}", **macros)
        seconds.append(round(time.monotonic() - start, 1))
        tasks = last_scores(directory)
        scores.append(flat(tasks, "scores"))
        baselines = flat(tasks, "baseline")
    return {
        "recipe": f"gin/recipes/{recipe.path}.gin",
        "after": recipe.after,
        "macros": recipe.macros or {},
        "seconds": seconds,
        "scores": {metric: [each[metric] for each in scores] for metric in scores[0]},
        "means": {metric: round(statistics.mean(each[metric] for each in scores), 2) for metric in scores[0]},
        "baselines": baselines,
    }


def last_scores(directory: Path) -> dict[str, Any]:
    """Return the tasks of a run's last evaluation; none if it was not evaluated."""
    files = directory.glob("evaluations/step_*/scores.json")
    last = max(files, key=lambda file: int(file.parent.name.removeprefix("step_")), default=None)
    return read_json(last)["tasks"] if last else {}


def flat(tasks: dict[str, Any], part: str) -> dict[str, float]:
    """Return the metrics of all tasks by ``task/metric``."""
    return {
        f"{task}/{metric}": round(value, 2)
        for task, entry in tasks.items()
        for metric, value in (entry.get(part) or {}).items()
    }


if __name__ == "__main__":
    main()
