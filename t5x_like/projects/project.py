"""A project: a recipe, its rows and a report, made from a user's table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import write_jsonl
from t5x_like.projects.base_model import BaseModel, base_model
from t5x_like.projects.column_guess import Kind, guess_columns
from t5x_like.projects.kinds_by_name import KINDS, read_rows_of
from t5x_like.projects.project_folder import commands_of, readme
from t5x_like.projects.project_rows import (
    ProjectRow,
    count_of,
    find_repetitions,
    listed,
    rare_label_lines,
    shown,
)
from t5x_like.projects.recipe_text import TRAIN_FILE, VALIDATION_FILE, recipe_text
from t5x_like.projects.row_split import split_rows, without_rows_of
from t5x_like.projects.table import UserTable
from t5x_like.projects.table_file import is_separated, read_table
from t5x_like.projects.task_kinds import TaskKind

_MOSTLY = 0.5  # share of empty cells that is reported


@dataclass(frozen=True, kw_only=True)
class TableChoices:
    """Choices of a user for a table; what is left out is guessed.

    Attributes:
      data: File with the rows.
      validation: File with the rows of the validation split; None sets rows of ``data`` apart.
      texts: Columns with the texts.
      label: Column with the labels.
      group: Column whose rows with equal cells stay in one split.
      kind: Kind of the task.
      checkpoint: Weights to begin with; None for fresh ones.
      columns: Names of the columns of CSV and TSV files without a line of names.
      naming: Call or command that gives ``columns``, for the report.
    """

    data: str
    validation: str | None = None
    texts: Sequence[str] = ()
    label: str | None = None
    group: str | None = None
    kind: Kind | None = None
    checkpoint: str | None = None
    columns: Sequence[str] = ()
    naming: str = "fine_tune(…, columns=('NAME', 'NAME', …))"


@dataclass(frozen=True, kw_only=True)
class Project:
    """Contents of a project's folder; nothing is written yet.

    Attributes:
      name: Name of the task.
      kind: Kind of the task.
      base: Model to begin with.
      train: Rows of training.
      validation: Rows of validation.
      report: Lines about the table and what was guessed.
      recipe: Text of the gin file.
    """

    name: str
    kind: TaskKind
    base: BaseModel
    train: Sequence[ProjectRow]
    validation: Sequence[ProjectRow]
    report: Sequence[str]
    recipe: str

    @property
    def commands(self) -> list[str]:
        """Commands that use the recipe, in the project's folder."""
        return commands_of(self.recipe)

    def write(self, folder: Path) -> None:
        """Write the recipe, the rows and a README into ``folder``.

        Raises:
          OSError: The disk is full, or the folder can't be written.
        """
        (folder / "data").mkdir()
        for file, rows in ((TRAIN_FILE, self.train), (VALIDATION_FILE, self.validation)):
            write_jsonl(folder / file, (row.cells for row in rows))
        (folder / "recipe.gin").write_text(self.recipe, encoding="utf-8")
        report = "\n".join(self.report)
        about = f"{self.kind.about}. Its rows:\n\n```\n{report}\n```"
        (folder / "README.md").write_text(readme(self.name, about, self.commands), encoding="utf-8")


def project_of_table(name: str, choices: TableChoices) -> Project:
    """Read a table, guess what isn't said, and make a project.

    Args:
      name: Name of the task.
      choices: What the user said.

    Raises:
      UserError: The file, a column or the checkpoint can't be used, or there is too little to learn from.
    """
    named = [name for name in (*choices.texts, choices.label, choices.group) if name]
    table = read_table(choices.data, columns=choices.columns, named=named)
    columns = guess_columns(
        table, kind=choices.kind, texts=choices.texts, label=choices.label, group=choices.group
    )
    kind = KINDS[columns.kind](columns=columns)
    rows, left_out = read_rows_of(kind, table.rows)
    report = [*table.lines(choices.naming), *_text_column_lines(table, columns.texts)]
    bad_rows = [*table.bad_rows]
    if choices.validation is None:
        _require_rows(rows, left_out)
        kind.check(rows)
        train, validation = split_rows(rows)
        split = f"split: {count_of(len(train), 'row')} of training, {len(validation):,} of validation"
        split += f", by the groups of column {columns.group!r}" if columns.group is not None else ""
    else:
        names = choices.columns if is_separated(choices.validation) else ()
        validation_table = read_table(choices.validation, columns=names, named=columns.read)
        report += validation_table.lines(choices.naming)
        bad_rows += validation_table.bad_rows
        for column in columns.read:
            validation_table.column(column, "column of validation")
        validation, also_left_out = read_rows_of(kind, validation_table.rows)
        left_out += also_left_out
        _require_rows(rows, left_out)
        _require_rows(validation, also_left_out)
        train, common = without_rows_of(rows, validation)
        split = (
            f"split: {count_of(len(train), 'row')} of training, {len(validation):,} of {choices.validation}"
        )
        if common:
            split += (
                f"; {count_of(len(common), 'row')} of training left out, whose texts or groups are in both"
            )
        _require_rows(train, left_out)
        kind.check(train)
    everything = [*train, *validation]
    base = base_model(choices.checkpoint, [text for row in train for text in kind.texts_of(row)])
    recipe = recipe_text(name, kind, base, train=train, rows=everything)
    report += [recipe.lengths.line(columns.texts), base.vocabulary_line, *kind.lines(everything)]
    report += rare_label_lines(train, validation)
    if left_out or bad_rows:
        reasons = [*map(str, bad_rows), *left_out]
        report.append(f"left out: {count_of(len(reasons), 'row')}")
        report += [f"  {reason}" for reason in reasons[:3]]
    report += [*find_repetitions(everything).lines(), split]
    return Project(
        name=name,
        kind=kind,
        base=base,
        train=train,
        validation=validation,
        report=report,
        recipe=recipe.with_report(report),
    )


def _text_column_lines(table: UserTable, texts: Sequence[str]) -> Iterator[str]:
    """Yield lines on columns of texts that say little.

    Raises:
      UserError: All of them have one text.
    """
    constant = [name for name in texts if table.columns[name].num_distinct == 1]
    if constant == list(texts) and len(table.rows) > 1:
        raise UserError(
            f"column {texts[0]!r} has no text but {shown(str(table.columns[texts[0]].cells[0]))}, so nothing can be "
            "learned from it",
            hint="give another text=COLUMN",
        )
    for name in constant:
        cell = shown(str(table.columns[name].cells[0]))
        yield f"column {name!r} has no text but {cell}, so the model learns nothing from it"
    for name in texts:
        share = 1 - len(table.columns[name].cells) / len(table.rows)
        if share > _MOSTLY:
            yield f"column {name!r} is empty in {share:.1%} of the rows, which are left out; is it the right text?"


def _require_rows(rows: Sequence[ProjectRow], left_out: Sequence[str]) -> None:
    if not rows:
        raise UserError(f"no row can be used; {listed(left_out, 1) or 'there is none'}")
