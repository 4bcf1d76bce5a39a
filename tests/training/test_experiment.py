"""Wrong types are refused at once; some fields may change between a run and its continuation."""

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t5x_like.ancestors.pretrained_inputs import PretrainedInputs
from t5x_like.config_class import ConfigTypeError, config_class
from t5x_like.model.heads import HeadsConfig, LMHeadConfig
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.optimizers.lion import Lion
from t5x_like.optimizers.optimizers import Adafactor, AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.text.tasks.mixtures import Proportional
from t5x_like.training.batch_ramp import BatchSizeRamp
from t5x_like.training.early_stopping import EarlyStopping
from t5x_like.training.experiment import Experiment, describe, differences
from t5x_like.training.methods.distillation import Distillation
from t5x_like.training.methods.method import TrainingMethod
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.run_config import Intervals, RunConfig
from t5x_like.training.start.pretrained_weights import PretrainedWeights
from t5x_like.training.training_data import TrainingData
from tests.integration.tiny_run import MODEL, experiment


def changed(tmp_path: Path, allowed: bool = False, **changes: Any) -> list[str]:
    """Return the names of fields that a continuation changes and may not."""
    run = experiment(tmp_path, model_dir="run", total_steps=3)
    continued = run.with_fields(**changes, allow_compute_dtype_change=allowed)
    return [line.partition(":")[0] for line in differences(describe(run), continued)]


def test_length_logging_and_hardware_may_change(tmp_path: Path) -> None:
    run = experiment(tmp_path, model_dir="run", total_steps=3)
    model = replace(MODEL, remat="full", scan_layers=False)
    train = replace(run.data.train, num_workers=3, cache="cache")
    hooks = (EarlyStopping(metric="validation/counting/loss"),)
    assert (
        changed(tmp_path, total_steps=20, hooks=hooks, intervals=Intervals(), mesh=MeshConfig(data=2)) == []
    )
    assert changed(tmp_path, model=model, train=train, num_microbatches=4, validations=(train,)) == []


def test_rates_of_a_mixture_may_change_and_its_tasks_may_not(tmp_path: Path) -> None:
    *tasks, mixture = experiment(tmp_path, model_dir="run", total_steps=3).data.tasks
    rated = replace(mixture, rates=Proportional(maximum=5))
    assert changed(tmp_path, tasks=(*tasks, rated)) == []
    assert changed(tmp_path, tasks=(*tasks, replace(mixture, tasks=("capitals", "counting")))) == [
        "tasks.2.tasks.0",
        "tasks.2.tasks.1",
    ]


def test_what_decides_the_losses_may_not(tmp_path: Path) -> None:
    run = experiment(tmp_path, model_dir="run", total_steps=3)
    assert changed(tmp_path, train=replace(run.data.train, seed=1), seed=6) == ["seed", "train.seed"]
    assert changed(tmp_path, start=PretrainedWeights(start_from="other")) == ["start.is", "start_from"]
    assert "method.is" in changed(tmp_path, method=Distillation(teacher="large"))
    ramp = BatchSizeRamp(initial_batch_size=2, over_rows=16)
    grown = run.with_fields(num_microbatches=4, batch_size_ramp=ramp)
    assert differences(describe(grown), grown.with_fields(num_microbatches=8))


def test_the_compute_type_may_change_when_it_is_allowed(tmp_path: Path) -> None:
    model = replace(MODEL, compute_dtype="bfloat16")
    assert changed(tmp_path, model=model) == ["model.compute_dtype"]
    assert changed(tmp_path, allowed=True, model=model) == []


def test_runs_of_earlier_versions_are_compared_field_by_field(tmp_path: Path) -> None:
    run = experiment(tmp_path, model_dir="run", total_steps=3)
    plain = describe(run)
    for name in ("start.is", "method.is"):
        del plain[name]
    earlier = plain | dict.fromkeys(("start_from", "noisy_tune", "word_vectors", "features", "distillation"))
    assert differences(earlier, run) == []
    taught = run.with_fields(method=Distillation(teacher="large", temperature=3.0, loss=run.method.loss))
    of_teacher = {
        f"distillation.{each.name}": getattr(taught.method, each.name)
        for each in fields(Distillation)
        if each.name != "loss"
    }
    earlier = plain | of_teacher | {"distillation.is": "Distillation"}
    assert differences(earlier, taught) == []
    (line,) = differences(earlier, taught.with_fields(method=replace(taught.method, temperature=2.0)))
    assert line.startswith("temperature: the run has 3.0, you ask for 2.0")


@config_class
class TwoHeaded(T5Config):
    """A model whose record has heads of its own."""

    second: HeadsConfig = HeadsConfig(lm_head=LMHeadConfig(tie_word_embeddings=True))


def test_a_run_with_the_output_layers_earlier_name_continues(tmp_path: Path) -> None:
    model = TwoHeaded(**{each.name: getattr(MODEL, each.name) for each in fields(MODEL)})
    run = experiment(tmp_path, model_dir="run", total_steps=3).with_fields(model=model)
    earlier = {key.replace("second.lm_head", "second.words"): value for key, value in describe(run).items()}
    assert "model.second.words.tie_word_embeddings" in earlier
    assert differences(earlier, run) == []
    earlier["model.second.words.tie_word_embeddings"] = False
    (line,) = differences(earlier, run)
    assert line.startswith("model.second.lm_head.tie_word_embeddings: the run has False, you ask for True")


@config_class
class WeightedTasks(TrainingMethod):
    """A method whose weights may be 0."""

    task_weights: tuple[float, ...]


@config_class
class Flipped(TrainingMethod):
    """A method without fields of its own."""


@config_class
class Nested(TrainingMethod):
    """A method with another one in it."""

    distillation: Distillation


@config_class
class Seeded(TrainingMethod):
    """A method with a field that the run has, too."""

    seed: int = 0


def test_a_number_of_0_that_comes_or_goes_is_a_difference(tmp_path: Path) -> None:
    run = experiment(tmp_path, model_dir="run", total_steps=3, method=WeightedTasks(task_weights=(1.0, 0.0)))
    shorter = run.with_fields(task_weights=(1.0,))
    assert differences(describe(run), shorter)
    assert differences(describe(shorter), run)


def test_a_method_without_fields_is_another_method_than_that_of_an_earlier_run(tmp_path: Path) -> None:
    run = experiment(tmp_path, model_dir="run", total_steps=3)
    earlier = {key: value for key, value in describe(run).items() if key not in ("method.is", "start.is")}
    assert differences(earlier, run) == []
    (line,) = differences(earlier, run.with_fields(method=Flipped(loss=run.method.loss)))
    assert line.startswith("method.is: the run has 'Supervised', you ask for 'Flipped'")


def test_a_method_with_a_distillation_in_it_equals_its_own_record(tmp_path: Path) -> None:
    method = Nested(distillation=Distillation(teacher="large"))
    run = experiment(tmp_path, model_dir="run", total_steps=3, method=method)
    assert differences(describe(run), run) == []


def test_a_field_that_two_parts_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Seeded\.seed has the name of a field of .*; rename it"):
        experiment(tmp_path, model_dir="run", total_steps=3, method=Seeded())


def test_fields_of_earlier_versions_are_answered_by_the_part_that_has_them_now(tmp_path: Path) -> None:
    run = experiment(tmp_path, model_dir="run", total_steps=3)
    with pytest.raises(TypeError, match=r"no field start_from; give start=PretrainedWeights\(start_from=…\)"):
        run.with_fields(start_from="runs/a")
    with pytest.raises(TypeError, match=r"no field distillation; give method=Distillation"):
        run.with_fields(distillation=None)


def test_parts_have_no_two_fields_of_one_name() -> None:
    parts = (TrainingData, RunConfig, PretrainedWeights, PretrainedInputs, Supervised)
    names = [each.name for part in (*parts, Experiment) for each in fields(part)]
    assert len(set(names)) == len(names)
    own = {each.name for part in parts[:2] for each in fields(part)}
    assert not own & {each.name for each in fields(Distillation)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"total_steps": "3"}, "RunConfig.total_steps needs an int, got '3' (text); drop the quotes"),
        (
            {"optimizer": AdamW},
            "Experiment.optimizer needs an Optimizer or a GradientTransformation, got AdamW itself",
        ),
        (
            {"optimizer": 0.001},
            "Experiment.optimizer needs an Optimizer or a GradientTransformation, got 0.001 (a float)",
        ),
        ({"tasks": "counting"}, "TrainingData.tasks needs a tuple"),
        ({"hooks": (print,)}, "RunConfig.hooks item 0 needs a Hook"),
        (
            {"intervals": {"log_every_steps": 1}},
            "RunConfig.intervals needs an Intervals, got {'log_every_steps': 1}",
        ),
    ],
)
def test_a_wrong_type_is_refused_when_it_is_given(tmp_path: Path, changes: dict, message: str) -> None:
    with pytest.raises(ConfigTypeError, match=re.escape(message)):
        experiment(tmp_path, model_dir="run", **({"total_steps": 3} | changes))


def test_a_path_and_numbers_of_numpy_are_taken(tmp_path: Path) -> None:
    run_experiment = experiment(tmp_path, model_dir=tmp_path / "run", total_steps=np.int64(3))
    assert run_experiment.run.model_dir == str(tmp_path / "run")
    assert type(run_experiment.run.total_steps) is int
    assert Intervals(profile_steps=[2, 3]).profile_steps == (2, 3)


@pytest.mark.parametrize("optimizer", [Adafactor, AdamW, Lion])
def test_a_number_is_a_constant_learning_rate(optimizer) -> None:
    assert optimizer(learning_rate=1e-3) == optimizer(learning_rate=Constant(value=1e-3))
    assert optimizer(learning_rate=1) == optimizer(learning_rate=Constant(value=1.0))
    with pytest.raises(ConfigTypeError, match=r"learning_rate needs .* got 'fast'"):
        optimizer(learning_rate="fast")
