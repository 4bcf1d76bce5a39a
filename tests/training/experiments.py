"""Experiments from fields of all their parts, which tests change one by one."""

import dataclasses
from typing import Any

from t5x_like.ancestors.pretrained_inputs import PretrainedInputs, initial_inputs
from t5x_like.training.experiment import Experiment
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.run_config import RunConfig
from t5x_like.training.start.pretrained_weights import PretrainedWeights
from t5x_like.training.start.starts import start_from
from t5x_like.training.training_data import TrainingData


def experiment_of(**fields: Any) -> Experiment:
    """Return the experiment whose parts have these fields; ``loss`` is that of a supervised run."""

    def take(owner: type) -> dict[str, Any]:
        names = {each.name for each in dataclasses.fields(owner)}
        return {name: fields.pop(name) for name in names & fields.keys()}

    data, run = TrainingData(**take(TrainingData)), RunConfig(**take(RunConfig))
    options = take(PretrainedWeights)
    start = start_from(
        options.pop("start_from", None), **options, inputs=initial_inputs(**take(PretrainedInputs))
    )
    method = fields.pop("method", None) or Supervised()
    method = dataclasses.replace(method, **take(Supervised))
    return Experiment(**({"data": data, "run": run, "start": start, "method": method} | fields))
