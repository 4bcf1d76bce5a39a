"""The folder of a new project: checked before, and written at once."""

import os
import re
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from t5x_like.gin_config.user_error import UserError

# Sentences of a README about a part of a command.
_AFTER = {
    "config validate": "`t5x-like config validate` finds what doesn't fit before anything is trained.",
    "train": "The same `t5x-like train` again continues a run that was stopped.",
    "--output": "`t5x-like predict --output` writes a table with the predictions as further columns; give it your own.",
    "convert": "`t5x-like convert` writes a directory that transformers opens.",
}


def check_folder(folder: Path) -> None:
    """Check that a project can be written.

    Raises:
      UserError: The folder exists and is not empty, or its name can't be a task's.
    """
    name = folder.absolute().name
    if not re.fullmatch(r"[A-Za-z]\w*", name, flags=re.ASCII):
        raise UserError(
            f"{name!r} can't be the name of a task",
            hint="take letters, digits and underscores, and begin with a letter: my_project",
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists already; nothing was written", hint="give a new or an empty folder")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Give a temporary folder that becomes ``folder`` at the end, and is removed after an error."""
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.parent / f".{folder.name}.{uuid.uuid4().hex[:8]}"
    temporary.mkdir()
    try:
        yield temporary
        if folder.is_dir():
            folder.rmdir()  # it is empty
        os.rename(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def commands_of(recipe: str) -> list[str]:
    """Return the commands in the comment at the top of a recipe."""
    return re.findall(r"^#   (t5x-like .*)$", recipe, flags=re.MULTILINE)


def readme(name: str, about: str, commands: Sequence[str]) -> str:
    """Return the text of a project's README.

    Args:
      name: Name of the task.
      about: Description of the model, which continues "A model that".
      commands: Commands to run in the folder.
    """
    written = "\n".join(commands)
    after = [line for command, line in _AFTER.items() if any(command in each for each in commands)]
    return (
        f"# {name}\n\nA model that {about}\n\nIn this folder:\n\n```\n{written}\n```\n\n{' '.join(after)}\n"
    )
