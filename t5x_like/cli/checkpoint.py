"""List, check, compare, thin out and export the checkpoints of a run.

t5x-like checkpoint list runs/pretrain                    every step: finished or not, size and date
t5x-like checkpoint verify runs/pretrain                  read every file against its checksum
t5x-like checkpoint diff runs/pretrain/1000 runs/other    arrays that differ, the largest difference first
t5x-like checkpoint prune runs/pretrain --keep 2          delete older steps and remains of interrupted saves
t5x-like checkpoint export runs/pretrain --to DIR         Hugging Face's format; the same as convert --export

A run is given by its directory, or by that of one of its steps. A damaged step ends with exit code 2.
"""

import argparse
import json
import os

from etils import epath

from t5x_like.checkpoints.manifest import problem_in
from t5x_like.checkpoints.saved_steps import SavedStep, saved_steps, steps_to_keep
from t5x_like.checkpoints.steps import (
    absolute,
    delete_all_but,
    find_checkpoints,
    finished_steps,
    list_steps,
    whole_step,
)
from t5x_like.cli.main import main
from t5x_like.cli.number_types import non_negative, positive
from t5x_like.gin_config.user_error import UserError
from t5x_like.io.writer_lock import exclusive_writer
from t5x_like.nested_values import json_number
from t5x_like.reports.rendering import date_and_time, iso_time, plural, printable, size
from t5x_like.reports.score_tables import aligned


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like checkpoint``."""
    verbs = parser.add_subparsers(dest="what", required=True, metavar="list|verify|diff|prune|export")

    def add_verb(name: str, line: str) -> argparse.ArgumentParser:
        return verbs.add_parser(name, help=line, description=line, allow_abbrev=False)

    listing = add_verb("list", "every step: finished, unfinished or set aside; size and date")
    listing.add_argument("run", metavar="RUN", help="directory of the run")
    listing.add_argument("--json", action="store_true", help="print JSON")
    verify = add_verb("verify", "read every file of finished steps once, and compare it with its checksum")
    verify.add_argument("run", metavar="RUN", help="directory of the run, or of a step")
    verify.add_argument("--step", type=non_negative, metavar="N", help="only this step")
    diff = add_verb("diff", "arrays of two checkpoints that differ, the largest difference first")
    diff.add_argument("a", metavar="A", help="directory of a run (its newest undamaged step), or of a step")
    diff.add_argument("b", metavar="B", help="another one, or the same run at another step")
    diff.add_argument("--step_a", type=non_negative, metavar="N", help="step of A")
    diff.add_argument("--step_b", type=non_negative, metavar="N", help="step of B")
    diff.add_argument("--json", action="store_true", help="print JSON; an infinite difference is null")
    prune = add_verb("prune", "delete older finished steps, and remains of interrupted saves")
    prune.add_argument("run", metavar="RUN", help="directory of a run that is not training now")
    prune.add_argument(
        "--keep",
        type=positive,
        required=True,
        metavar="K",
        help="keep the newest K finished steps; the newest undamaged one always stays",
    )
    prune.add_argument("--dry_run", action="store_true", help="only print what would be deleted")
    export = add_verb("export", "write the weights in another format; short for t5x-like convert --export")
    export.add_argument("run", metavar="RUN", help="directory of the run")
    export.add_argument("--to", required=True, metavar="DIR", help="what to write; new or empty")
    export.add_argument(
        "--format", choices=["hf", "gguf", "peft"], default="hf", help="as --export of convert (hf)"
    )
    export.add_argument("--step", type=non_negative, metavar="N", help="the step to export (the newest)")


def run(arguments: argparse.Namespace) -> int:
    """Run the given sub-verb."""
    verbs = {"list": _list, "verify": _verify, "diff": _diff, "prune": _prune, "export": _export}
    return verbs[arguments.what](arguments) or 0


def _directory_of_steps(run: str) -> tuple[epath.Path, int | None]:
    """Return the directory with the steps of a run, and the step if ``run`` is one.

    Raises:
      UserError: There is no step.
    """
    directory, step = find_checkpoints(absolute(run))
    if not list_steps(directory):
        raise UserError(
            f"{run} has no checkpoints" if directory.exists() else f"there is no directory {run}",
            hint="give the directory of a run, that train was given as MODEL_DIR",
        )
    return directory, step


def _list(arguments: argparse.Namespace) -> None:
    directory, _ = _directory_of_steps(arguments.run)
    steps = saved_steps(directory)
    newest = max((each.step for each in steps if each.state == "finished"), default=None)
    if arguments.json:
        listed = [each._asdict() | {"saved": iso_time(each.saved)} for each in steps]
        print(json.dumps({"directory": os.fspath(directory), "newest": newest, "steps": listed}, indent=2))
        return
    rows = [("step", "state", "size", "saved", "")]
    rows += [(*_cells(each), "newest" if each.name == str(newest) else "") for each in steps]
    print(aligned(rows, left=2))


def _cells(step: SavedStep) -> tuple[str, str, str, str]:
    return f"{step.step:,}", step.state, size(step.num_bytes), date_and_time(step.saved)


def _verify(arguments: argparse.Namespace) -> None:
    directory, named = _directory_of_steps(arguments.run)
    step = named if arguments.step is None else arguments.step
    steps = list_steps(directory) if step is None else [step]
    if step is not None and step not in list_steps(directory):
        raise UserError(f"{directory} has no step {step}", hint=f"it has {_numbers(list_steps(directory))}")
    finished = finished_steps(directory)
    damaged = {}
    for saved_step in steps:
        problem = problem_in(directory / str(saved_step))
        print(printable(f"{saved_step}: {problem or 'ok'}"), flush=True)
        # A save that was interrupted leaves no damage, unless this step was asked for.
        if problem is not None and (saved_step in finished or step is not None):
            damaged[saved_step] = problem
    if damaged:
        lines = [f"{directory / str(saved_step)}: {problem}" for saved_step, problem in damaged.items()]
        raise UserError(
            printable(
                "\n  ".join([f"{len(damaged)} of {plural(len(steps), 'step')} can't be used:", *lines])
            ),
            hint="a run that continues, and commands that read it, take the newest undamaged step",
        )


def _numbers(steps: list[int]) -> str:
    return ", ".join(map(str, steps))


def _diff(arguments: argparse.Namespace) -> None:
    from t5x_like.checkpoints.step_differences import ArrayDifference, compare_steps  # imports JAX

    for directory in (arguments.a, arguments.b):
        _directory_of_steps(directory)
    a = whole_step(absolute(arguments.a), arguments.step_a)
    b = whole_step(absolute(arguments.b), arguments.step_b)
    differences = compare_steps(a, b)
    different = [each for each in differences if not each.is_equal]
    if arguments.json:
        arrays = [{name: json_number(value) for name, value in each._asdict().items()} for each in different]
        summary = {"a": os.fspath(a), "b": os.fspath(b), "num_equal": len(differences) - len(different)}
        print(json.dumps(summary | {"different": arrays}, indent=2))
        return
    print(f"A: {a}\nB: {b}")

    def cells(each: ArrayDifference) -> tuple[str, ...]:
        kind = each.a if each.a == each.b else f"{each.a or 'not there'} | {each.b or 'not there'}"
        if each.kind != "values":
            return each.name, kind or "", "", "", ""
        largest = (f"{value:.3g}" for value in (each.largest_absolute, each.largest_relative))
        return each.name, kind or "", f"{each.num_different:,}", *largest

    if different:
        header = ("array", "A | B", "elements", "absolute", "relative")
        print(printable(aligned([header, *map(cells, different)], left=2)))
    print(f"{len(different):,} of {plural(len(differences), 'array')} differ")


def _prune(arguments: argparse.Namespace) -> None:
    directory, named = _directory_of_steps(arguments.run)
    if named is not None:
        raise UserError(f"{arguments.run} is one step", hint="give the directory of its run")
    with exclusive_writer(os.fspath(directory), "run", signed=True):
        kept = steps_to_keep(directory, arguments.keep)
        deleted = [each for each in saved_steps(directory) if each.name.isdecimal() and each.step not in kept]
        for each in deleted:
            step, state, num_bytes, _ = _cells(each)
            print(f"{'would delete' if arguments.dry_run else 'deleting'} step {step} ({state}, {num_bytes})")
        if not arguments.dry_run:
            delete_all_but(kept, directory)
    total = size(sum(each.num_bytes for each in deleted))
    done = "would be deleted" if arguments.dry_run else "deleted"
    print(f"{plural(len(deleted), 'step')} {done}, {total}; kept: {_numbers(kept)}")


def _export(arguments: argparse.Namespace) -> int:
    step = [] if arguments.step is None else [f"--step={arguments.step}"]
    flags = [f"--from={arguments.run}", f"--to={arguments.to}", f"--export={arguments.format}", *step]
    return main(["convert", *flags])
