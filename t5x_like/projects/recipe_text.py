"""The gin file of a project, from a template of ``gin/projects``."""

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jinja2

from t5x_like.io.files import shipped_directory
from t5x_like.projects.base_model import NUM_SENTINELS, BaseModel
from t5x_like.projects.project_rows import ProjectRow
from t5x_like.projects.run_sizes import TokenLengths
from t5x_like.projects.task_kinds import TaskKind

TRAIN_FILE, VALIDATION_FILE = "data/train.jsonl", "data/validation.jsonl"
_LINE = 110  # characters


@dataclass(frozen=True, kw_only=True)
class RecipeText:
    """Template of a recipe with its values.

    Attributes:
      template: File of ``gin/projects``.
      values: Values of the template.
      lengths: Lengths of the rows.
    """

    template: str
    values: dict[str, Any]
    lengths: TokenLengths

    def with_report(self, report: Sequence[str]) -> str:
        """Return the gin file, with lines of a report in its comment."""
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(shipped_directory("gin") / "projects"),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            autoescape=False,
        )
        environment.filters["literal"] = literal
        lines = [line for each in report for line in each.splitlines()]
        return environment.get_template(self.template).render(**self.values, report=lines)


def recipe_text(
    name: str, kind: TaskKind, base: BaseModel, *, train: Sequence[ProjectRow], rows: Sequence[ProjectRow]
) -> RecipeText:
    """Choose lengths and steps, and prepare the recipe.

    Args:
      name: Name of the task.
      kind: Kind of the task.
      base: Model to begin with.
      train: Rows of training.
      rows: Rows of both splits.
    """
    choices = kind.choose(base, train=train, rows=rows)
    values = {
        "name": name,
        "about": kind.about,
        "commands": _commands(name, kind, train),
        "checkpoint": base.checkpoint,
        "vocabulary": base.vocabulary,
        "num_sentinels": None if base.num_sentinels == NUM_SENTINELS else base.num_sentinels,
        "hardware": "cpu" if jax.default_backend() == "cpu" else "gpu",
        "train_file": TRAIN_FILE,
        "validation_file": VALIDATION_FILE,
        "sizes": choices.sizes,
        "epochs": choices.epochs,
        **choices.values,
    }
    return RecipeText(template=kind.template, values=values, lengths=choices.lengths)


def literal(value: object) -> str:
    """Return a value in gin's syntax; long tuples are divided into lines."""
    text = repr(value)
    if not isinstance(value, tuple) or len(text) <= _LINE:
        return text
    lines, line = [], "   "
    for item in value:
        if len(line) + len(repr(item)) > _LINE:
            lines.append(line)
            line = "   "
        line += f" {item!r},"
    return "(\n" + "\n".join([*lines, line]) + "\n)"


def _commands(name: str, kind: TaskKind, rows: Sequence[ProjectRow]) -> list[str]:
    recipe, run = "--gin_file=recipe.gin", "runs/first"
    commands = [
        f"t5x-like tasks show {name} {recipe}",
        f"t5x-like config validate {recipe} --model_dir {run}",
        f"t5x-like train {recipe} --model_dir {run}",
    ]
    if kind.columns.label:
        # A table keeps its columns, so new ones need names of their own.
        is_free = {"prediction", "probability"}.isdisjoint(rows[0].cells)
        named = [] if is_free else ["--prediction_column", _free_column(rows[0].cells)]
        table = f"t5x-like predict {run} --input {VALIDATION_FILE} --output predicted.jsonl"
        commands += [
            f"t5x-like evaluate --checkpoint {run} --split validation",
            f"t5x-like predict --checkpoint {run} --task {name} --input {kind.input_argument(rows[0])}",
            " ".join([table, *named]),
        ]
    return [*commands, f"t5x-like convert --from {run} --to export --export hf"]


def _free_column(columns: Collection[str]) -> str:
    """Return a name for predictions that isn't a column's, nor is that of their probabilities."""
    names = itertools.chain(["predicted"], (f"prediction_{suffix}" for suffix in itertools.count(2)))
    return next(name for name in names if {name, f"{name}_probability"}.isdisjoint(columns))
