"""Repeat papers' comparisons as toys, and keep the scores next to the published ones.

    python -m benchmarks.comparisons --names t5_objectives gpt_pretraining --seeds 2 --runs runs/comparisons \
        --output benchmarks/results/comparisons_cpu.json

The comparisons are the recipes in ``gin/recipes/comparisons``, and ``t5_table_10`` in ``gin/recipes/tuning``, which
needs ``--set INITIAL_CHECKPOINT=runs/quickstart/pretrain``. Those that ``--output`` has with as many seeds are not
repeated, so several sittings fill one file.
"""

import argparse
import time
from pathlib import Path
from typing import Any

from benchmarks.commands import run
from benchmarks.machine import about
from t5x_like.io.files import read_json, write_json

RECIPES = {
    file.stem: file
    for folder in ("comparisons", "tuning")
    for file in sorted(Path("gin/recipes", folder).glob("*.gin"))
    if "\nCOMPARISON = " in file.read_text()
}


def main() -> None:
    """Run what is missing, and write the file after each comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--names", nargs="+", default=list(RECIPES), choices=RECIPES)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="MACRO=VALUE", help="as for a sweep")
    parser.add_argument("--runs", type=Path, required=True, metavar="DIR", help="where runs are written")
    parser.add_argument("--output", required=True, metavar="FILE")
    arguments = parser.parse_args()
    results: dict[str, Any] = {"comparisons": {}}
    if Path(arguments.output).exists():
        results = read_json(arguments.output)
    for name in arguments.names:
        if results["comparisons"].get(name, {}).get("seeds", 0) >= arguments.seeds:
            continue
        facts, start = about(), time.monotonic()
        output = arguments.runs / name
        changes = [f"--set={change}" for change in arguments.set]
        run("sweep", RECIPES[name], f"--seeds={arguments.seeds}", f"--output={output}", *changes)
        minutes = round((time.monotonic() - start) / 60, 1)
        results["comparisons"][name] = (
            entry(read_json(output / "results.json")) | {"minutes": minutes} | facts
        )
        results["comparisons"] = dict(sorted(results["comparisons"].items()))
        write_json(arguments.output, results)


def entry(results: dict[str, Any]) -> dict[str, Any]:
    """Return what to keep of a sweep's ``results.json``: a row for each setting, and pairs in the paper's order."""
    published = results.get("published", {"source": None, "scores": {}, "pairs": None})
    rows = {
        setting["settings"]["setting"]: {
            "scores": setting["scores"],
            "parameters": setting["num_parameters"],
            "mean": setting["mean"],
            "std": setting["std"],
            "published": published["scores"].get(setting["settings"]["setting"]),
        }
        for setting in results["settings"]
    }
    return {
        "metric": results["metric"],
        "lowest_is_best": results["lowest_is_best"],
        "seeds": results["seeds"],
        "source": published["source"],
        "pairs": published["pairs"],
        "settings": rows,
    }


if __name__ == "__main__":
    main()
