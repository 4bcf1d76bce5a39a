"""Fine-tuning on a user's table by one call."""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from t5x_like.evaluation.saved_runs import RunEvaluation, RunPrediction, evaluate_run, predict
from t5x_like.gin_config.configuration import load
from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import PathLike, write_jsonl
from t5x_like.projects.column_guess import Kind
from t5x_like.projects.kinds_by_name import read_rows_of
from t5x_like.projects.project import TRAIN_FILE, VALIDATION_FILE, TableChoices, project_of_table
from t5x_like.projects.project_folder import check_folder, new_folder
from t5x_like.projects.table import read_table
from t5x_like.projects.task_kinds import TaskKind
from t5x_like.training.evaluate import evaluate, own_evaluation
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

    def predict(self, texts: str | Iterable[str | Mapping[str, str]]) -> Any:
        """Return the prediction for each text, or the one for a single text.

        >>> model.predict(["a fine film", "two lost hours"])
        ['good', 'bad']

        Args:
          texts: Texts; for tasks with two columns, such as pairs, mappings with these columns.
        """
        lines = [
            text if isinstance(text, str) else json.dumps(dict(text), ensure_ascii=False)
            for text in ([texts] if isinstance(texts, str) else texts)
        ]
        training = read_recorded(self.run, "train")
        settings: dict[str, Any] = {"inputs_length": training.source_length}
        evaluation: Any = next(iter(read_recorded(self.run, "evaluations")), own_evaluation(self.run))
        if hasattr(evaluation, "generation"):
            settings["generation"] = evaluation.generation
        request = RunPrediction(
            checkpoint=self.run, task=self.task, tasks=read_recorded(self.run, "tasks"), **settings
        )
        found = [each.prediction for each in predict(request, lines)]
        return found[0] if isinstance(texts, str) else found

    def evaluate(self, data: PathLike | None = None) -> dict[str, float]:
        """Return the scores of the task's metrics.

        Predictions are written to ``evaluation`` in the run's directory, or to ``evaluation_NAME`` for a file.

        Args:
          data: Table with the columns of the training table; None for the validation rows.

        Raises:
          UserError: The table lacks columns, or a row can't be used.
        """
        if data is None:
            return evaluate(self.run)[self.task].scores
        table = read_table(os.fspath(data))
        for column in self.kind.columns.read:
            table.column(column, "column of data")
        rows, unusable = read_rows_of(self.kind, table.rows)
        unusable = [*map(str, table.bad_rows), *unusable]
        if unusable:
            raise UserError(
                f"{len(unusable)} of {len(rows) + len(unusable)} rows can't be scored; {unusable[0]}",
                hint="correct them, or leave them out of the table",
            )
        stem = Path(os.fspath(data)).name.split(".")[0]
        file = f"{self.run}/evaluation_{stem}/rows.jsonl"
        write_jsonl(file, (row.cells for row in rows))
        (definition,) = read_recorded(self.run, "tasks")
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


def fine_tune(
    checkpoint: PathLike | None,
    *,
    train: PathLike,
    text: str | Sequence[str] = (),
    label: str | None = None,
    validation: PathLike | None = None,
    group: str | None = None,
    task: Kind | None = None,
    directory: PathLike | None = None,
    settings: Mapping[str, Any] = {},
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
        texts=(text,) if isinstance(text, str) else tuple(text),
        label=label,
        group=group,
        kind=task,
        checkpoint=None if checkpoint is None else os.fspath(checkpoint),
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
