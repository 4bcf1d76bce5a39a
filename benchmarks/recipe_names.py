"""Names of recipes: the path of the gin file and, where it has a table, a row of it: ``bert/glue.gin TASK=cola``."""

from pathlib import Path

from t5x_like.gin_config.configuration import required_macros, tables_in
from t5x_like.gin_config.gin_syntax import Override
from t5x_like.gin_config.statements import Setting
from t5x_like.io.files import shipped_directory

RECIPES = shipped_directory("gin") / "recipes"
_PLACEHOLDERS = {"CHARACTERS": {"en": 9.7e12, "yo": 1.05e8}, "VOCABULARY": "bytes"}


def recipe_names(*patterns: str) -> list[str]:
    """Return the names of the recipes whose paths match, with each row of a table.

    Files called ``tasks`` are included by recipes, and no recipes themselves.

    Args:
      patterns: Such as ``*/pretrain*.gin``; ``**/*.gin`` are all.
    """
    files = {file for pattern in patterns for file in RECIPES.glob(pattern) if file.stem != "tasks"}
    names = []
    for file in sorted(files):
        path = file.relative_to(RECIPES).as_posix()
        rows = [f"{path} {table.key}={row}" for table in tables_in(file) for row in table.rows]
        names += rows or [path]
    return names


def file_and_row(name: str) -> tuple[Path, list[Override]]:
    """Return the file of a recipe's name, and the flag that chooses its row.

    Args:
      name: Such as ``bert/glue.gin TASK=cola``.
    """
    path, _, row = name.partition(" ")
    key, _, text = row.partition("=")
    return RECIPES / path, [Setting(key, text, f"--set {row}")] if row else []


def placeholders(name: str) -> list[Override]:
    """Return values of the macros that a recipe requires, so that it can be built where its files are not.

    Args:
      name: Such as ``bert/glue.gin TASK=cola``.
    """
    path, row = file_and_row(name)
    folder = "{corpus}" if "{corpus}" in path.read_text() else "data/king_james"
    files = {f"{split.upper()}_FILES": f"{folder}/{split}.txt" for split in ("train", "validation")}
    known = _PLACEHOLDERS | files
    return [f"{macro}={known.get(macro, 'somewhere')!r}" for macro in required_macros([str(path)], row)]
