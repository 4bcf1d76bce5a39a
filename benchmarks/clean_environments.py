"""Build the wheel and the source distribution, and use them in clean environments of several Pythons.

    python -m benchmarks.clean_environments --python python3.11 python3.12 python3.13 \
      --output benchmarks/results/clean_environments.json

Each environment is made by ``venv``, gets the package by pip, and runs a few commands in a folder without the
checkout. The first command that fails ends the measurement.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.installation import size_of
from benchmarks.machine import about
from t5x_like.io.files import write_json
from t5x_like.version import __version__

ROOT = Path(__file__).resolve().parent.parent
RELEASE = ROOT / "tests/fixtures/releases" / __version__
_EXTRAS = "beam,chinese,corpora,datasets,elmo,gguf,hub,quantization,ray,retrieval,s3,seqio,serve,speech"
_SMALL = ("TRAIN_STEPS=2", "BATCH_SIZE=2", "INPUTS_LENGTH=64", "TARGETS_LENGTH=24", "EVALUATE_EVERY_STEPS=0")
_GENERATE = """
import json, t5x_like
model = t5x_like.from_pretrained("letters/export")
texts = [model.generate(text, max_new_tokens=4) for text in ("one 0", "seven 3")]
assert texts == json.load(open("letters/expected.json"))["models"]["export"]["texts"], texts
"""
_REGISTER = """
import seqio, t5x_like
from t5x_like.text import registry
from t5x_like.text.seqio_bridge.registration import connect
connect()
templates = {"input_template": "{word}", "target_template": "{capital}"}
files = {"train": "letters/data/train.jsonl"}
registry.register([t5x_like.TextTask(name="letters", vocabulary="bytes", files=files, **templates)])
task = seqio.get_mixture_or_task("letters")
assert len(list(task.get_dataset({"inputs": 16, "targets": 8}, split="train", shuffle=False))) == 32
"""


class Command(NamedTuple):
    """A command of a check.

    Attributes:
      title: Name of the check in the results.
      words: Program of the environment's ``bin`` and its arguments.
    """

    title: str
    words: Sequence[str]


COMMANDS = (
    Command("train", ("t5x-like", "train", "--gin_file=gin/recipes/quickstart/pretrain.gin", "--model_dir=run",
                      *(word for setting in _SMALL for word in ("--set", setting)))),
    Command("continue a run", ("t5x-like", "train", "--model_dir=run", "--set", "RunConfig.total_steps=3")),
    Command("open an export", ("python", "-c", _GENERATE)),
    Command("list tasks", ("t5x-like", "tasks", "list")),
)  # fmt: skip
COMMANDS_OF_EXTRAS = (
    Command("read a task by seqio", ("python", "-c", _REGISTER)),
    Command("build a corpus", ("t5x-like", "corpus", "build", "--recipe=gin/corpora/c4_en.gin",
                               "--input=letters/pages.jsonl", "--output=corpus", "--workers=1")),
    Command("convert an export to a run", ("t5x-like", "convert", "--from=letters/export", "--to=run2")),
)  # fmt: skip


def main() -> None:
    """Build, install, run the commands, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", nargs="+", default=[sys.executable], metavar="FILE")
    parser.add_argument("--output", required=True, metavar="FILE")
    arguments = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "--directory", folder], cwd=ROOT, check=True
        )
        (wheel,), (source,) = Path(folder).glob("*.whl"), Path(folder).glob("*.tar.gz")
        for python in arguments.python:
            for package, extras in ((wheel, ""), (source, ""), (wheel, _EXTRAS)):
                measured = checked(python, package, extras)
                name = f"Python {measured['python']}, {measured['package']}"
                results[f"{name}, extras" if extras else name] = measured
                print(measured, flush=True)
    write_json(arguments.output, {**about(), "version": __version__, "environments": results})


def checked(python: str, package: Path, extras: str) -> dict[str, Any]:
    """Install a package into a new environment, run the commands there, and return what was measured.

    Args:
      python: Interpreter.
      package: Wheel or source distribution.
      extras: Names of extras with commas, or an empty text.
    """
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as folder:
        programs = Path(folder, "environment/bin")
        subprocess.run([python, "-m", "venv", str(programs.parent)], check=True)
        start = time.perf_counter()
        pip = [str(programs / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        subprocess.run([*pip, f"{package}[{extras}]" if extras else str(package)], check=True)
        seconds = time.perf_counter() - start
        subprocess.run(["cp", "-r", str(RELEASE), f"{folder}/letters"], check=True)
        commands = [*COMMANDS, *(COMMANDS_OF_EXTRAS if extras else ())]
        for command in commands:
            words = [str(programs / command.words[0]), *command.words[1:]]
            subprocess.run(words, cwd=folder, env=variables, stdout=subprocess.DEVNULL, check=True)
        versions = (
            "import json, platform, jax; print(json.dumps([platform.python_version(), jax.__version__]))"
        )
        printed = subprocess.run(
            [str(programs / "python"), "-c", versions], capture_output=True, text=True, check=True
        )
        python_version, jax_version = json.loads(printed.stdout)
        return {
            "python": python_version,
            "jax": jax_version,
            "package": "wheel" if package.suffix == ".whl" else "source distribution",
            "extras": extras,
            "megabytes": round(size_of(programs.parent) / 1e6),
            "packages": len(list(programs.parent.glob("lib/python*/site-packages/*.dist-info"))),
            "install_seconds": round(seconds, 1),
            "passed": [command.title for command in commands],
        }


if __name__ == "__main__":
    main()
