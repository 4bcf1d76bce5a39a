"""Train the recipe of docs/guides/your_own_task.md, and keep the score that it reaches.

    python -m benchmarks.guide_task --seeds 0 1 --output benchmarks/results/guide_task_cpu.json

Minutes are those of the whole command: compiling, training, evaluating. Results of other seeds in ``--output`` stay.
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


def guide_recipe() -> str:
    """Return the first recipe of the guide."""
    text = GUIDE.read_text(encoding="utf-8")
    return re.findall(r"^```\n(from __gin__.*?)^```", text, re.DOTALL | re.MULTILINE)[0]


def measure(folder: Path, seed: int) -> dict[str, Any]:
    """Train the guide's recipe with a seed, and return its last scores on the validation rows."""
    recipe, run = folder / "definitions.gin", folder / f"seed_{seed}"
    recipe.write_text(guide_recipe(), encoding="utf-8")
    program = Path(sys.executable).with_name("t5x-like")
    start = time.monotonic()
    flags = [f"--gin_file={recipe}", f"--model_dir={run}", f"--set=SEED={seed}"]
    subprocess.run([program, "train", *flags], check=True, cwd=ROOT)
    minutes = round((time.monotonic() - start) / 60, 1)
    last = max((run / "evaluations").glob("step_*"), key=lambda place: int(place.name.removeprefix("step_")))
    (entry,) = read_json(last / "scores.json")["tasks"].values()
    kept = {name: entry[name] for name in ("scores", "baseline", "examples")}
    return {"step": last.name, **kept, "minutes": minutes, "seed": seed} | about()


def main() -> None:
    """Read the flags, train, print and keep the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--output", type=Path, help="file to write")
    arguments = parser.parse_args()
    kept = read_json(arguments.output)["runs"] if arguments.output and arguments.output.exists() else {}
    with tempfile.TemporaryDirectory() as temporary:
        runs = kept | {f"seed_{seed}": measure(Path(temporary), seed) for seed in arguments.seeds}
    print(runs)
    if arguments.output:
        write_json(arguments.output, {"recipe": guide_recipe(), "machine": describe_machine(), "runs": runs})


if __name__ == "__main__":
    main()
