"""The way of a run's configuration through the code, for records of decisions.

    python -m benchmarks.code_journeys [FOLDER] [--before FOLDER --before_commit COMMIT --output FILE]

It trains a tiny model for two steps in each checkout. Files that run are those of all functions that are called, from
the command line to the last checkpoint. The trace follows the ``Experiment`` and the configurations that it is made of,
such as those of the model, its layers, the mesh and the optimizer. Counted is every call from one file of the package
into another with one of them among its arguments. A climb is a call into a package above the caller's in the layers of
``pyproject.toml``, as when a lower package calls a function that was passed to it.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from benchmarks.machine import about
from t5x_like.io.files import write_json

_RECIPE = "gin/recipes/quickstart/pretrain.gin"
_TINY = (
    *("TRAIN_STEPS=2", "WARMUP_STEPS=1", "BATCH_SIZE=2", "INPUTS_LENGTH=32", "TARGETS_LENGTH=16"),
    *("LOG_EVERY_STEPS=1", "EVALUATE_EVERY_STEPS=2", "SAVE_EVERY_STEPS=2"),
)


class ConfigurationTrace:
    """Calls between files that pass the configuration.

    Args:
      root: Folder of the checkout whose package runs.
    """

    def __init__(self, root: Path) -> None:
        self.package = root / "t5x_like"
        self.ranks = package_ranks(root)
        self.running: set[str] = set()
        self.files: set[str] = set()
        self.entries = 0
        self.climbs = 0
        self.configurations: tuple[type, ...] = ()
        self.experiments: set[int] = set()

    def called(self, frame: FrameType, event: str, _: object) -> None:
        """Count a call; the function that ``sys.setprofile`` wants.

        Args:
          frame: The frame that begins.
          event: Only ``"call"`` counts.
        """
        if event != "call" or not (file := self._file(frame)):
            return
        code = frame.f_code
        if code.co_name != "<module>":
            self.running.add(file)
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        values = [frame.f_locals.get(name) for name in names]
        for value in values:
            if type(value).__name__ == "Experiment" and id(value) not in self.experiments:
                classes = {*map(type, _configurations_in(value))}
                self.configurations = tuple(classes.union(self.configurations))
                if len(classes) > 1:  # not while it is being made
                    self.experiments.add(id(value))
        if not any(isinstance(value, self.configurations) for value in values):
            return
        caller = next(self._callers(frame), file)
        if caller != file:
            self.files.add(file)
            self.entries += 1
            self.climbs += self.ranks.get(_top(file), 0) < self.ranks.get(_top(caller), 0)

    def figures(self) -> dict[str, int]:
        """Return the counts."""
        return {
            "files that run": len(self.running),
            "files with the configuration": len(self.files),
            "entries with it": self.entries,
            "climbs with it": self.climbs,
        }

    def _file(self, frame: FrameType) -> str | None:
        path = frame.f_code.co_filename
        return path[len(str(self.package)) + 1 :] if path.startswith(f"{self.package}/") else None

    def _callers(self, frame: FrameType) -> Iterator[str]:
        """Yield the files of the package among the callers, the nearest first."""
        above = frame.f_back
        while above:
            if file := self._file(above):
                yield file
            above = above.f_back


def package_ranks(root: Path) -> dict[str, int]:
    """Return the rank of each package, 0 for the highest, from the layers that import-linter checks.

    Args:
      root: Folder of the checkout.
    """
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each.get("containers") == ["t5x_like"])
    return {name.strip(" ()"): rank for rank, layer in enumerate(layers) for name in layer.split("|")}


def _top(file: str) -> str:
    return file.split("/")[0].removesuffix(".py")


def _configurations_in(value: object) -> Iterator[object]:
    """Yield the package's dataclasses that a value is made of, itself included."""
    if isinstance(value, tuple | list):
        for each in value:
            yield from _configurations_in(each)
    elif dataclasses.is_dataclass(value) and type(value).__module__.startswith("t5x_like."):
        yield value
        for each in dataclasses.fields(value):
            yield from _configurations_in(getattr(value, each.name, None))


def _trace(root: Path) -> dict[str, int]:
    """Train in this process and return the figures."""
    from t5x_like.cli.main import main as command  # of the checkout on the path

    trace = ConfigurationTrace(root)
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["train", f"--gin_file={_RECIPE}", f"--model_dir={folder}/run"]
        arguments += [f"--set={each}" for each in _TINY]
        threading.setprofile(trace.called)
        sys.setprofile(trace.called)
        try:
            status = command(arguments)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    if status:
        raise SystemExit(f"training ended with {status}")
    return trace.figures()


def journey(root: Path) -> dict[str, int]:
    """Return the figures of a checkout, from a process of its own.

    Args:
      root: Folder of the checkout.
    """
    finished = subprocess.run(
        [sys.executable, __file__, str(root), "--trace"],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root), "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(finished.stdout.splitlines()[-1])


def main() -> None:
    """Print the figures of a checkout, and of an earlier one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", default=Path(), help="the checkout (this folder)")
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="an earlier checkout")
    parser.add_argument("--before_commit", metavar="COMMIT", help="commit of --before")
    parser.add_argument("--output", metavar="FILE", help="keep the figures in this file")
    parser.add_argument("--trace", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.trace:
        print(json.dumps(_trace(arguments.folder.resolve())))
        return
    record: dict[str, object] = {"recipe": _RECIPE, "flags": list(_TINY)}
    if arguments.before:
        record |= {
            "before_commit": arguments.before_commit,
            "before": journey(arguments.before.resolve()),
        }
    record["now"] = journey(arguments.folder.resolve())
    print(json.dumps(record, indent=1))
    if arguments.output:
        write_json(arguments.output, {**about(), **record})


if __name__ == "__main__":
    main()
