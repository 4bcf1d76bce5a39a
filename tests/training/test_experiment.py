"""Wrong types are refused at once; some fields may change between a run and its continuation."""

import re
from pathlib import Path

import numpy as np
import pytest

from t5x_like.config_class import ConfigTypeError
from t5x_like.optimizers.lion import Lion
from t5x_like.optimizers.optimizers import Adafactor, AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.training.experiment import Intervals, differences
from tests.integration.tiny_run import experiment

RUN = {
    "tasks.0.rates.maximum": 100,
    "tasks.0.tasks.0": "a",
    "train.num_workers": 0,
    "train.seed": 0,
    "total_steps": 10,
    "total_steps_of_schedule": 10,
}


def test_how_tasks_are_mixed_and_how_batches_are_made_may_change() -> None:
    now = RUN | {
        "tasks.0.rates.maximum": 5,
        "train.num_workers": 3,
        "train.cache": "cache",
        "total_steps": 20,
    }
    assert differences(RUN, now) == []


def test_what_decides_the_losses_may_not() -> None:
    now = RUN | {"tasks.0.tasks.0": "b", "train.seed": 1, "total_steps_of_schedule": 20}
    assert [line.partition(":")[0] for line in differences(RUN, now)] == [
        "tasks.0.tasks.0",
        "total_steps_of_schedule",
        "train.seed",
    ]


def test_hardware_may_change_and_the_compute_type_when_it_is_allowed() -> None:
    old = RUN | {
        "num_microbatches": 1,
        "mesh.data": 8,
        "model.remat": "none",
        "model.compute_dtype": "float32",
    }
    new = old | {"num_microbatches": 4, "mesh.data": 2, "model.remat": "full"}
    assert differences(old, new) == []
    new["model.compute_dtype"] = "bfloat16"
    (line,) = differences(old, new)
    assert (
        "model.compute_dtype: the run has 'float32', you ask for 'bfloat16'; allow_compute_dtype_change"
        in line
    )
    assert differences(old, new | {"allow_compute_dtype_change": True}) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"total_steps": "3"}, "Experiment.total_steps needs an int, got '3' (text); drop the quotes"),
        (
            {"optimizer": AdamW},
            "Experiment.optimizer needs an Optimizer or a GradientTransformation, got AdamW itself",
        ),
        (
            {"optimizer": 0.001},
            "Experiment.optimizer needs an Optimizer or a GradientTransformation, got 0.001 (a float)",
        ),
        ({"tasks": "counting"}, "Experiment.tasks needs a tuple"),
        ({"hooks": (print,)}, "Experiment.hooks item 0 needs a Hook"),
        (
            {"intervals": {"log_every_steps": 1}},
            "Experiment.intervals needs an Intervals, got {'log_every_steps': 1}",
        ),
    ],
)
def test_a_wrong_type_is_refused_when_it_is_given(tmp_path: Path, changes: dict, message: str) -> None:
    with pytest.raises(ConfigTypeError, match=re.escape(message)):
        experiment(tmp_path, model_dir="run", **({"total_steps": 3} | changes))


def test_a_path_and_numbers_of_numpy_are_taken(tmp_path: Path) -> None:
    given = experiment(tmp_path, model_dir=tmp_path / "run", total_steps=np.int64(3))
    assert given.model_dir == str(tmp_path / "run")
    assert type(given.total_steps) is int
    assert Intervals(profile_steps=[2, 3]).profile_steps == (2, 3)


@pytest.mark.parametrize("optimizer", [Adafactor, AdamW, Lion])
def test_a_number_is_a_constant_learning_rate(optimizer) -> None:
    assert optimizer(learning_rate=1e-3) == optimizer(learning_rate=Constant(value=1e-3))
    assert optimizer(learning_rate=1) == optimizer(learning_rate=Constant(value=1.0))
    with pytest.raises(ConfigTypeError, match=r"learning_rate needs .* got 'fast'"):
        optimizer(learning_rate="fast")
