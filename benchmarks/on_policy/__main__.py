"""Measure what learning from sampled answers reaches with tiny models.

    python -m benchmarks.on_policy sums --output benchmarks/results/grpo_sums_cpu.json

``sums`` continues a supervised run by GRPO, for a decoder and a T5. ``steps`` runs InstructGPT's three steps on the
shipped conversations, with a rule in place of people. ``over_optimization`` follows their reward model without a
penalty for long. Results of other models and seeds in ``--output`` stay. Runs are written to ``--runs``, where complete
ones are kept.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.machine import about
from benchmarks.on_policy import alignment, sums
from t5x_like.io.files import read_json, write_json
from t5x_like.reports.machine import describe_machine

_BY_SEED = {"steps": alignment.measure_steps, "over_optimization": alignment.measure_over_optimization}


def main() -> None:
    """Measure each model with each seed, and write one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("sums", *_BY_SEED))
    parser.add_argument("--models", nargs="+", choices=("gpt2", "t5"), default=["gpt2", "t5"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="changes of settings")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="where runs are written")
    parser.add_argument("--output", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    changes: dict[str, Any] = {
        name: json.loads(value) for name, value in (each.split("=") for each in arguments.set)
    }
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.runs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if arguments.what in _BY_SEED:
            for seed in arguments.seeds:
                keep(arguments.output, f"seed_{seed}", _BY_SEED[arguments.what](folder, seed, **changes))
            return
        for model in arguments.models:
            for seed in arguments.seeds:
                keep(arguments.output, f"{model}_{seed}", sums.measure(folder, model, seed, **changes))


def keep(output: Path | None, name: str, entry: dict[str, Any]) -> None:
    """Print a measurement, and add it to a file.

    Args:
      output: The file; ``None`` prints only.
      name: Name in the file.
      entry: What was measured.
    """
    print(json.dumps(entry), flush=True)
    if output is None:
        return
    runs = read_json(output)["runs"] if output.exists() else {}
    write_json(output, {"machine": describe_machine(), "runs": runs | {name: entry | about()}})


if __name__ == "__main__":
    main()
