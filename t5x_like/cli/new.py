"""Start a project: a folder with a commented recipe, a little data to try it on, and the commands to run.

t5x-like new my_project --task classify     texts and their classes
t5x-like new my_project --task text         text in, text out
t5x-like new my_project --task pretrain     plain text
"""

import argparse
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import shipped_directory

_TASKS = {
    "text": "reads a text and writes another (T5)",
    "classify": "assigns a text to a class (an encoder with a head, BERT)",
    "pretrain": "learns from plain text (T5's span corruption)",
}
_TEMPLATE_NAME = "my_task"
_SPLIT_ROWS = {"train": 5000, "validation": 500, "test": 500}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like new``."""
    parser.add_argument("directory", metavar="DIR", help="the folder to make; its name is the task's")
    parser.add_argument(
        "--task",
        choices=list(_TASKS),
        required=True,
        help="; ".join(f"{name}: {line}" for name, line in _TASKS.items()),
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the project and print its commands.

    Raises:
      UserError: The folder exists and is not empty, or its name can't be a task's.
    """
    folder = Path(arguments.directory)
    name = folder.absolute().name
    if not re.fullmatch(r"[A-Za-z]\w*", name, flags=re.ASCII):
        raise UserError(
            f"{name!r} can't be the name of a task",
            hint="take letters, digits and underscores, and begin with a letter: my_project",
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists already; nothing was written", hint="give a new or an empty folder")
    recipe = (shipped_directory("gin") / "projects" / f"{arguments.task}.gin").read_text(encoding="utf-8")
    recipe = recipe.replace(_TEMPLATE_NAME, name)
    (folder / "data").mkdir(parents=True, exist_ok=True)
    (folder / "recipe.gin").write_text(recipe, encoding="utf-8")
    files = dict(_data_files(arguments.task))
    for file, lines in files.items():
        (folder / "data" / file).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    commands = re.findall(r"^#   (t5x-like .*)$", recipe, flags=re.MULTILINE)
    (folder / "README.md").write_text(_readme(name, _TASKS[arguments.task], commands), encoding="utf-8")
    print(f"{folder}: recipe.gin, README.md and {', '.join(f'data/{file}' for file in files)}\n\nNext:")
    print("\n".join(f"  {command}" for command in (f"cd {folder}", *commands)))
    return 0


def _data_files(task: str) -> Iterator[tuple[str, list[str]]]:
    """Yield names of data files and their lines: the first rows of the data that come with t5x-like."""
    data = shipped_directory("data")
    if task == "pretrain":
        for split, number in (("train", 150), ("validation", 15)):
            yield f"{split}.txt", _first_lines(data / "king_james" / f"{split}.txt", number)
        return
    source, header = (
        ("cmudict", "input\toutput") if task == "text" else ("wordnet_definitions", "text\tlabel")
    )
    for split, number in _SPLIT_ROWS.items():
        if task == "text" or split != "test":
            rows = _first_lines(data / source / f"{split}.tsv", number + 1)[1:]
            yield f"{split}.tsv", [header, *(row.partition("\t")[2] for row in rows)]


def _first_lines(file: Path, number: int) -> list[str]:
    with file.open(encoding="utf-8") as lines:
        return [line.rstrip("\n") for line in islice(lines, number)]


def _readme(name: str, about: str, commands: list[str]) -> str:
    listed = "\n".join(commands)
    return (
        f"# {name}\n\nA model that {about}. In this folder:\n\n```\n{listed}\n```\n\n"
        "The rows in `data/` come with t5x-like; put yours in their place, and change the columns, labels and lengths "
        "in `recipe.gin`. `t5x-like config validate` finds what doesn't fit before anything is trained. The same "
        "`t5x-like train` again continues a run that was stopped.\n"
    )
