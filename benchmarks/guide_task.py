"""Run the commands of docs/guides/your_own_task.md, and keep the score that its recipe reaches.

    python -m benchmarks.guide_task --seeds 0 1 --output benchmarks/results/guide_task_cpu.json

Pretrains the quickstart's T5, unless ``--initial_checkpoint`` names such a run, and trains the guide's recipe from it.
Minutes are those of the whole command: compiling, training, evaluating.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.machine import about
from t5x_like.io.files import read_json, write_json
from t5x_like.reports.machine import describe_machine

ROOT = Path(__file__).resolve().parent.parent
GUIDE = ROOT / "docs" / "guides" / "your_own_task.md"
PRETRAINING = "gin/recipes/quickstart/pretrain.gin"


def guide_recipe() -> str:
    """Return the first recipe of the guide."""
    blocks = re.findall(
        r"^```\n(from __gin__.*?)^```", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    return blocks[0]


def train(recipe: str | Path, model_dir: Path, *flags: str) -> float:
    """Train a recipe with ``t5x-like train``, and return the minutes that it took."""
    start = time.monotonic()
    command = [
        Path(sys.executable).with_name("t5x-like"),
        "train",
        f"--gin_file={recipe}",
        f"--model_dir={model_dir}",
        *flags,
    ]
    subprocess.run(command, check=True, cwd=ROOT)
    return round((time.monotonic() - start) / 60, 1)


def measure(folder: Path, initial_checkpoint: Path, seed: int) -> dict[str, Any]:
    """Train the guide's recipe with a seed, and return its last scores on the validation rows."""
    recipe = folder / "definitions.gin"
    recipe.write_text(guide_recipe(), encoding="utf-8")
    run = folder / f"seed_{seed}"
    minutes = train(recipe, run, f"--set=INITIAL_CHECKPOINT={initial_checkpoint}", f"--set=SEED={seed}")
    last = max((run / "evaluations").glob("step_*"), key=lambda place: int(place.name.removeprefix("step_")))
    (entry,) = read_json(last / "scores.json")["tasks"].values()
    kept = {name: entry[name] for name in ("scores", "baseline", "examples")}
    return {"step": last.name, **kept, "minutes": minutes} | about()


def main() -> None:
    """Read the flags, train, print and keep the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--initial_checkpoint", type=Path, help="a run of the quickstart's pretraining")
    parser.add_argument("--output", help="file to write")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        result: dict[str, Any] = {"recipe": guide_recipe(), "machine": describe_machine()}
        initial = arguments.initial_checkpoint
        if not initial:
            initial = folder / "pretrain"
            result["minutes_of_pretraining"] = train(PRETRAINING, initial)
        result["runs"] = {
            f"seed_{seed}": measure(folder, initial.resolve(), seed) for seed in arguments.seeds
        }
    print(result["runs"])
    if arguments.output:
        write_json(Path(arguments.output), result)


if __name__ == "__main__":
    main()
