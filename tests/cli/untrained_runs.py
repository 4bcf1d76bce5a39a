"""Runs that predict and are exported as trained ones, without a step, whose program takes seconds to compile."""

from pathlib import Path
from typing import Any

import jax
import pytest

from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.evaluation.row_predictors import RowPredictor
from t5x_like.evaluation.run_predictor import row_predictor
from t5x_like.evaluation.saved_runs import RunPrediction
from t5x_like.gin_config.configuration import load
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.frozen_weights import fresh_params
from t5x_like.projects.fine_tuning import FineTunedModel
from t5x_like.projects.project import TableChoices, project_of_table
from t5x_like.training.experiment import Experiment
from t5x_like.training.resolution import resolve_experiment
from t5x_like.training.run_directory import claim

STEP = 1
# Sizes of models that compile and predict in a moment.
SMALL_MODERNBERT = {
    f"ModernBertConfig.{name}": size
    for name, size in {"model_dim": 16, "mlp_dim": 16, "num_heads": 2, "num_layers": 1}.items()
}
SMALL_T5 = {
    f"T5Config.{name}": size
    for name, size in {
        **dict.fromkeys(("model_dim", "mlp_dim", "head_dim"), 8),
        **dict.fromkeys(("num_heads", "num_encoder_layers", "num_decoder_layers"), 1),
    }.items()
}


def write_run(recipe: Path, run: Path, settings: dict[str, Any]) -> None:
    """Write the run of a recipe with the weights that its training would begin with."""
    macros = {"MODEL_DIR": str(run), **settings}
    loaded = load([str(recipe)], [f"{name}={value!r}" for name, value in macros.items()], roots=(Experiment,))
    tasks = loaded.value.data.resolve().train
    labels = loaded.value.data.train.labels(tasks)
    experiment = resolve_experiment(loaded.value, tasks)
    model: Any = experiment.model
    mesh = MeshConfig(data=1).build(jax.local_devices()[:1])
    start = experiment.start.weights(model, mesh=mesh, seed=0, labels=labels, vocabulary=None)
    params = fresh_params(model, mesh=mesh, seed=0) if start is None else start.params
    with Checkpoints(run) as checkpoints:
        checkpoints.save(STEP, {"params": params})
    task: Any = tasks.only_task()
    claim(experiment, config_text=loaded.text, vocabulary=task.tokenizer, labels=labels)


def project_with_run(folder: Path, choices: TableChoices, settings: dict[str, Any]) -> FineTunedModel:
    """Write a project and its run, as ``fine_tune`` does."""
    project = project_of_table(folder.name, choices)
    folder.mkdir()
    project.write(folder)
    files = {
        f"{split.upper()}_FILES": str(folder / f"data/{split}.jsonl") for split in ("train", "validation")
    }
    write_run(folder / "recipe.gin", folder / "run", {**files, **settings})
    return FineTunedModel(
        run=str(folder / "run"),
        project=str(folder),
        task=folder.name,
        kind=project.kind,
        report=project.report,
    )


def share_predictors(patch: pytest.MonkeyPatch) -> None:
    """Let calls with the same settings share a model and its compiled programs."""
    predictors: dict[str, RowPredictor] = {}

    def shared(run: RunPrediction) -> RowPredictor:
        return predictors.get(str(run)) or predictors.setdefault(str(run), row_predictor(run))

    for module in ("t5x_like.cli.predicted_rows", "t5x_like.projects.fine_tuning"):
        patch.setattr(f"{module}.row_predictor", shared)
