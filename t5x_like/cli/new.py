"""Start a project: a folder with a commented recipe, a little data to try it on, and the commands to run.

t5x-like new my_project --task classify     texts and their classes
t5x-like new my_project --task text         text in, text out
t5x-like new my_project --task pretrain     plain text
t5x-like new my_project --data reviews.csv  your own table: columns, labels, lengths and steps are guessed from it
"""

import argparse
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import shipped_directory
from t5x_like.projects.column_guess import KINDS_ABOUT, Kind
from t5x_like.projects.project_folder import check_folder, commands_of, new_folder, readme

_WITH_ROWS: tuple[Kind, ...] = ("text", "classify", "pretrain")  # kinds whose rows come with t5x-like
_TEMPLATE_NAME = "my_task"
_SPLIT_ROWS = {"train": 5000, "validation": 500, "test": 500}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like new``."""
    parser.add_argument("directory", metavar="DIR", help="the folder to make; its name is the task's")
    parser.add_argument(
        "--task",
        choices=sorted(KINDS_ABOUT),
        help="what the model does (guessed from --data). "
        + "; ".join(f"{kind}: {about}" for kind, about in KINDS_ABOUT.items()),
    )
    table = parser.add_argument_group("your own table")
    table.add_argument("--data", metavar="FILE", help="CSV, TSV, JSONL, parquet or Arrow")
    table.add_argument(
        "--columns",
        nargs="+",
        default=[],
        metavar="NAME",
        help="names of the columns of CSV or TSV without a line of names",
    )
    table.add_argument("--text", nargs="+", default=[], metavar="COLUMN", help="the text, or two for a pair")
    table.add_argument("--label", metavar="COLUMN", help="what the model learns")
    table.add_argument("--group", metavar="COLUMN", help="rows with the same cell stay in one split")
    table.add_argument(
        "--validation", metavar="FILE", help="rows to validate on; else some of --data are set apart"
    )
    table.add_argument(
        "--checkpoint", metavar="DIR", help="begin with its weights: a Hugging Face directory or a run"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the project and print its commands.

    Raises:
      UserError: The folder exists and is not empty, its name can't be a task's, or the table can't be used.
    """
    folder = Path(arguments.directory)
    check_folder(folder)
    commands = _from_table(folder, arguments) if arguments.data else _from_shipped_rows(folder, arguments)
    print("\nNext:")
    print("\n".join(f"  {command}" for command in (f"cd {folder}", *commands)))
    return 0


def _from_table(folder: Path, arguments: argparse.Namespace) -> Sequence[str]:
    # It imports JAX.
    from t5x_like.projects.project import TableChoices, project_of_table

    choices = TableChoices(
        data=arguments.data,
        validation=arguments.validation,
        texts=arguments.text,
        label=arguments.label,
        group=arguments.group,
        kind=arguments.task,
        checkpoint=arguments.checkpoint,
        columns=arguments.columns,
        naming="t5x-like new … --columns NAME NAME …",
    )
    project = project_of_table(folder.absolute().name, choices)
    print("\n".join(project.report))
    with new_folder(folder) as temporary:
        project.write(temporary)
    print(f"\n{folder}: recipe.gin, README.md, data/train.jsonl and data/validation.jsonl")
    return project.commands


def _from_shipped_rows(folder: Path, arguments: argparse.Namespace) -> Sequence[str]:
    for flag in ("columns", "text", "label", "group", "validation", "checkpoint"):
        if getattr(arguments, flag):
            raise UserError(f"--{flag} is for your own table; name it by --data FILE")
    if arguments.task not in _WITH_ROWS:
        raise UserError(
            "t5x-like new: give your table by --data FILE, or --task for a project with rows that come with t5x-like",
            hint=f"--task is one of {', '.join(_WITH_ROWS)}",
        )
    name = folder.absolute().name
    recipe = (shipped_directory("gin") / "projects" / f"{arguments.task}.gin").read_text(encoding="utf-8")
    recipe = recipe.replace(_TEMPLATE_NAME, name)
    commands = commands_of(recipe)
    files = dict(_data_files(arguments.task))
    with new_folder(folder) as temporary:
        (temporary / "data").mkdir()
        (temporary / "recipe.gin").write_text(recipe, encoding="utf-8")
        for file, lines in files.items():
            (temporary / "data" / file).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        about = (
            f"{KINDS_ABOUT[arguments.task]}. The rows in `data/` come with t5x-like; put yours in their place, and "
            "change the columns, labels and lengths in `recipe.gin`."
        )
        (temporary / "README.md").write_text(readme(name, about, commands), encoding="utf-8")
    print(f"{folder}: recipe.gin, README.md and {', '.join(f'data/{file}' for file in files)}")
    return commands


def _data_files(task: str) -> Iterator[tuple[str, list[str]]]:
    """Yield names of data files and their lines: the first rows of the data that come with t5x-like."""
    data = shipped_directory("data")
    if task == "pretrain":
        for split, num_rows in (("train", 150), ("validation", 15)):
            yield f"{split}.txt", _first_lines(data / "king_james" / f"{split}.txt", num_rows)
        return
    source, header = (
        ("cmudict", "input\toutput") if task == "text" else ("wordnet_definitions", "text\tlabel")
    )
    for split, num_rows in _SPLIT_ROWS.items():
        if task == "text" or split != "test":
            rows = _first_lines(data / source / f"{split}.tsv", num_rows + 1)[1:]
            yield f"{split}.tsv", [header, *(row.partition("\t")[2] for row in rows)]


def _first_lines(file: Path, num_lines: int) -> list[str]:
    with file.open(encoding="utf-8") as lines:
        return [line.rstrip("\n") for line in islice(lines, num_lines)]
