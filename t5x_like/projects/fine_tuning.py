"""Fine-tuning on a user's table by one call."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from t5x_like.evaluation.run_predictor import row_predictor
from t5x_like.evaluation.saved_runs import RunEvaluation, evaluate_run
from t5x_like.evaluation.table_predictions import predict_rows
from t5x_like.gin_config.configuration import load
from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import PathLike, write_jsonl
from t5x_like.nested_values import one_or_several
from t5x_like.projects.column_guess import Kind
from t5x_like.projects.kinds_by_name import read_rows_of
from t5x_like.projects.project import TableChoices, project_of_table
from t5x_like.projects.project_folder import check_folder, new_folder
from t5x_like.projects.recipe_text import TRAIN_FILE, VALIDATION_FILE
from t5x_like.projects.table import UserTable
from t5x_like.projects.table_file import read_table
from t5x_like.projects.task_kinds import TaskKind
from t5x_like.text.tasks.row_files import names_table
from t5x_like.text.tasks.rows import RawRow
from t5x_like.training.evaluate import evaluate, own_evaluation, own_prediction
from t5x_like.training.experiment import Experiment
from t5x_like.training.run_record import read_recorded
from t5x_like.training.train import train as train_experiment


@dataclass(frozen=True, kw_only=True)
class FineTunedModel:
    """A model that was fine-tuned on a table.

    Attributes:
      run: Directory of the run, for ``t5x-like evaluate``, ``predict``, ``convert`` and ``from_pretrained``.
      project: Folder with the recipe, the rows of both splits and a README.
      task: Name of the task, for ``t5x-like predict --task``.
      kind: Kind of the task, with the columns of its rows.
      report: Lines about the table and what was guessed.
    """

    run: str
    project: str
    task: str
    kind: TaskKind
    report: Sequence[str]

    def predict(
        self,
        texts: PathLike | Mapping[str, Any] | Iterable[str | Mapping[str, Any]],
        *,
        scores: bool = False,
        columns: str | Sequence[str] = (),
    ) -> Any:
        """Return the prediction of ``t5x-like predict`` for each text or row, or the one for a single text or row.

        Classes and texts are strings, numbers are floats, and tags are lists.

        >>> model.predict(["a fine film", "two lost hours"])
        ['good', 'bad']
        >>> model.predict([{"id": 7, "text": "a fine film"}])
        ['good']

        Args:
          texts: Texts, or rows by the columns of the training table, or the path of a table.
          scores: Return objects with ``prediction``, ``probability`` and ``scores`` of all classes.
          columns: Names of the columns of a CSV or TSV file without a line of names.

        Raises:
          UserError: There is no such table, it lacks a column, a row has another form, or ``columns`` are given without
            a table.
          ValueError: A row has nothing to predict, or there are no probabilities.
        """
        if isinstance(texts, Mapping) or (isinstance(texts, str) and not names_table(texts)):
            return self.predict([cast("Any", texts)], scores=scores, columns=columns)[0]
        needed = self.kind.columns.texts
        if isinstance(texts, str | os.PathLike):
            table = self._table(os.fspath(texts), needed, columns)
            read = [RawRow(dict.fromkeys(needed, "") | row.cells, row.location) for row in table.rows]
            rows = [*table.bad_rows, *read]
        else:
            _refuse_columns(columns)
            rows = [self._row(row, f"row {number}") for number, row in enumerate(texts, start=1)]
        predictor = row_predictor(own_prediction(self.run, self.task))
        # A task of plain text has another name for its only column.
        names = dict(zip(predictor.input_columns, needed, strict=False)) if len(needed) == 1 else {}
        predictions = predict_rows(predictor, rows, columns=names, with_scores=scores)
        return predictions if scores else [each.prediction for each in predictions]

    def evaluate(
        self, data: PathLike | None = None, *, columns: str | Sequence[str] = ()
    ) -> dict[str, float]:
        """Return the scores of the task's metrics.

        Predictions are written to ``evaluation`` in the run's directory, or to ``evaluation_NAME`` for a file.

        Args:
          data: Table with the columns of the training table; None for the validation rows.
          columns: Names of the columns of a CSV or TSV file without a line of names.

        Raises:
          UserError: The table lacks columns, a row can't be used, or ``columns`` are given without a table.
        """
        if data is None:
            _refuse_columns(columns)
            return evaluate(self.run)[self.task].scores
        table = self._table(os.fspath(data), self.kind.columns.read, columns)
        (definition,) = read_recorded(self.run, "tasks")
        rows, unusable = read_rows_of(self.kind, table.rows)
        if labels := getattr(definition, "labels", ()):
            unusable += [
                f"{row.location}: {self.kind.columns.label!r} has {label!r}, which is not in training: "
                f"{', '.join(labels)}"
                for row in rows
                if (label := next((each for each in row.strata if each not in labels), None)) is not None
            ]
        unusable = [*map(str, table.bad_rows), *unusable]
        if unusable:
            raise UserError(
                f"{len(unusable)} of {len(table.rows) + len(table.bad_rows)} rows can't be scored; {unusable[0]}",
                hint="correct them, or leave them out of the table",
            )
        stem = Path(os.fspath(data)).name.split(".")[0]
        file = f"{self.run}/evaluation_{stem}/rows.jsonl"
        write_jsonl(file, (row.cells for row in rows))
        name = f"{self.task}_on_{stem}"
        (evaluation,) = read_recorded(self.run, "evaluations") or (own_evaluation(self.run),)
        results = evaluate_run(
            RunEvaluation(
                checkpoint=self.run,
                evaluations=(replace(evaluation, mixture=name, split="test", limit=None),),
                output_dir=os.path.dirname(file),
                tasks=(replace(definition, name=name, files={**definition.files, "test": file}),),
            )
        )
        return results[name].scores

    def _table(self, file: str, needed: Sequence[str], columns: str | Sequence[str]) -> UserTable:
        table = read_table(file, columns=one_or_several(columns), named=needed)
        for column in needed:
            table.column(column, "column of data")
        return table

    def _row(self, row: object, location: str) -> RawRow:
        if isinstance(row, Mapping):
            return RawRow(row, location)
        columns = self.kind.columns.texts
        if isinstance(row, str) and len(columns) == 1:
            return RawRow({columns[0]: row}, location)
        raise UserError(
            f"{location} is {type(row).__name__}, and the model reads {', '.join(map(repr, columns))}",
            hint=f"give a {'text or a ' * (len(columns) == 1)}dictionary with the cells by column",
        )


def _refuse_columns(columns: Sequence[str]) -> None:
    if columns:
        raise UserError("columns are names for a table, and none is given", hint="leave columns out")


def fine_tune(
    checkpoint: PathLike | None,
    *,
    train: PathLike,
    columns: str | Sequence[str] = (),
    text: str | Sequence[str] = (),
    label: str | None = None,
    validation: PathLike | None = None,
    group: str | None = None,
    task: Kind | None = None,
    directory: PathLike | None = None,
    settings: Mapping[str, object] = {},
) -> FineTunedModel:
    """Fine-tune a model on a table, with the guesses and the recipe of ``t5x-like new --data``.

    >>> model = t5x_like.fine_tune("path/to/bert-base-uncased", train="rows.csv", text="text", label="label")
    >>> model.predict(["a fine film"])
    ['good']
    >>> model.evaluate("test.csv")
    {'accuracy': 91.0, 'mean_2class_f1': 88.5}
    >>> model.run
    '/home/me/rows/run'

    Args:
      checkpoint: Hugging Face directory, name on the Hub, or run to begin with; None for a small model with fresh
        weights.
      train: CSV, TSV, JSONL, parquet or Arrow file.
      columns: Names of the columns of CSV and TSV files without a line of names.
      text: Column with the texts, or two columns of a pair; guessed by default.
      label: Column to learn; guessed by default.
      validation: File with validation rows; by default some of ``train`` are set apart.
      group: Column whose rows with equal cells stay in one split.
      task: Kind of the task, as in ``t5x-like new --task``; guessed by default.
      directory: New folder of the project, with the run in ``run``; by default named after ``train``.
      settings: Macros of the recipe with other values, such as ``{"TRAIN_STEPS": 200}``.

    Raises:
      UserError: The table, a column or the checkpoint can't be used, or the folder exists.
    """
    folder = Path(
        os.path.abspath(Path(os.fspath(train)).name.split(".")[0] if directory is None else directory)
    )
    check_folder(folder)
    choices = TableChoices(
        data=os.fspath(train),
        validation=None if validation is None else os.fspath(validation),
        texts=one_or_several(text),
        label=label,
        group=group,
        kind=task,
        checkpoint=None if checkpoint is None else os.fspath(checkpoint),
        columns=one_or_several(columns),
    )
    project = project_of_table(folder.name, choices)
    sys.stdout.write("\n".join((*project.report, "")))
    with new_folder(folder) as temporary:
        project.write(temporary)
    run = str(folder / "run")
    macros = {
        "TRAIN_FILES": str(folder / TRAIN_FILE),
        "VALIDATION_FILES": str(folder / VALIDATION_FILE),
        "MODEL_DIR": run,
        **settings,
    }
    loaded = load(
        [str(folder / "recipe.gin")],
        [f"{name}={value!r}" for name, value in macros.items()],
        roots=(Experiment,),
    )
    train_experiment(loaded.value, config_text=loaded.text)
    return FineTunedModel(
        run=run, project=str(folder), task=folder.name, kind=project.kind, report=project.report
    )
