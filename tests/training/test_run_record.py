"""A run's configuration as JSON: it builds the same configuration again, and nothing else."""

import functools
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from t5x_like.ancestors.initial_features import CheckpointFeatures
from t5x_like.io.files import read_json, write_json
from t5x_like.model.zoo.modernbert import ModernBertConfig
from t5x_like.text.objectives.span_corruption import SpanCorruption
from t5x_like.training.experiment import Experiment, describe
from t5x_like.training.hooks import Every, Hook
from t5x_like.training.losses import LossConfig
from t5x_like.training.methods.distillation import Distillation
from t5x_like.training.noisy_tune import NoisyTune
from t5x_like.training.run_config import Intervals, RunConfig
from t5x_like.training.run_directory import refuse_another_run
from t5x_like.training.run_record import (
    from_data,
    read_experiment,
    read_recorded,
    to_data,
    unrecorded_fields,
    write_experiment,
)
from tests.integration.tiny_run import experiment as tiny_experiment
from tests.recipes.test_recipes import as_shipped, each_recipe


@each_recipe()
def test_the_configuration_of_a_recipe_comes_back(name: str, tmp_path: Path) -> None:
    value: Any = as_shipped(name).value
    if not isinstance(value, Experiment):
        assert from_data(json.loads(json.dumps(to_data(value)))) == value
        return
    write_experiment(tmp_path, value)
    assert read_experiment(tmp_path) == value


@pytest.mark.parametrize("value", [math.inf, {"a": 1, "$class": 2}, {1: "one"}, SpanCorruption(), LossConfig])
def test_values_come_back(value: Any) -> None:
    assert from_data(json.loads(json.dumps(to_data(value)))) == value


def test_functions_of_python_itself_are_no_part_of_a_configuration() -> None:
    assert "$unrecorded" in to_data(replace)


def test_a_dataclass_inside_a_function_is_listed_as_not_recorded() -> None:
    @dataclass(frozen=True)
    class Hidden(Hook):
        """A hook that no other process finds."""

    value = tiny_experiment(Path("data"), model_dir="run", total_steps=1, hooks=(Hidden(),))
    assert "$unrecorded" in to_data(Hidden())
    assert unrecorded_fields(value) == ["hooks.0"]


def test_a_function_with_arguments_comes_back() -> None:
    result = from_data(to_data(functools.partial(tiny_experiment, total_steps=3)))
    assert (result.func, result.keywords) == (tiny_experiment, {"total_steps": 3})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"$reference": "os:system"}, "os:system is not a part of a configuration"),
        (
            {"$call": "os:system", "arguments": {"command": "ls"}},
            "os:system is not a part of a configuration",
        ),
        (
            {"$call": "t5x_like.io.files:write_text", "arguments": {"path": "x", "text": ""}},
            "write_text is not a part of a configuration",
        ),
        ({"$call": "t5x_like.training.losses.tokens:LossConfig", "arguments": {}}, "doesn't make a part"),
        ({"$class": "t5x_like.training.hooks:TrainLog"}, "is not a part of a configuration"),
        ({"$class": "t5x_like.no_such_module:Config"}, "there is no t5x_like.no_such_module:Config here"),
        (
            {"$class": "no_such_module:Config"},
            "nor in one of yours that is imported; if you trust it, give module=no_such_module, or in Python import it",
        ),
        ({"$reference": "numpy:save"}, "numpy:save is not in a module of t5x_like, nor in one of yours"),
        ({"$reference": "t5x_like.io.files:write_text"}, "write_text is not a part of a configuration"),
        ({"$partial": "t5x_like.io.files:write_text", "arguments": {}}, "is not a part of a configuration"),
        ({"$reference": "t5x_like.io.files:json.dump"}, "json.dump is not a part of a configuration"),
        (
            {"$class": "t5x_like.training.run_config:Intervals", "log_every_steps": "3"},
            "needs an int, got '3'",
        ),
    ],
)
def test_what_is_no_configuration_is_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_data(data)


def test_a_record_imports_no_module_that_nobody_trusts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "traps.py").write_text("raise SystemExit('the record ran this')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="give module=traps, or in Python import it"):
        from_data({"$class": "traps:Trap"})


def test_a_function_of_a_library_is_recorded_and_asks_for_trust_when_it_is_read() -> None:
    data = to_data(pytest.importorskip)
    with pytest.raises(ValueError, match=r"if you trust it, give module=_pytest\."):
        from_data(data)


def test_a_run_with_an_option_that_is_refused_today_continues_without_it(tmp_path: Path) -> None:
    model = ModernBertConfig(
        vocab_size=8, model_dim=8, mlp_dim=8, num_heads=2, num_layers=2, global_attn_every_n_layers=1
    )
    recorded = replace(tiny_experiment(tmp_path, model_dir=str(tmp_path), total_steps=3), model=model)
    write_experiment(tmp_path, recorded)
    fields = read_json(tmp_path / "experiment.json")
    fields["model"]["local_attention"] = 4
    write_json(tmp_path / "experiment.json", fields)
    write_json(tmp_path / "config.json", describe(recorded) | {"model.local_attention": 4})
    with pytest.warns(UserWarning, match=r"left out: ModernBertConfig\.local_attention=4$"):
        assert read_experiment(tmp_path) == recorded
    with pytest.warns(UserWarning, match="had no effect"):
        refuse_another_run(recorded)
    with (
        pytest.warns(UserWarning, match="had no effect"),
        pytest.raises(ValueError, match=r"holds a run of another configuration(.|\n)*seed"),
    ):
        refuse_another_run(recorded.with_fields(seed=7))


def test_what_cannot_be_recorded_is_needed_by_nobody_else(tmp_path: Path) -> None:
    recorded = tiny_experiment(tmp_path, model_dir="run", total_steps=3)
    write_experiment(tmp_path, recorded.with_fields(hooks=(Every(1, print),)))
    assert read_recorded(tmp_path, "tasks") == recorded.data.tasks
    with pytest.raises(
        ValueError, match=r"experiment.json, hooks: it was <.*Every.*>, which can't be recorded"
    ):
        read_experiment(tmp_path)
    assert read_experiment(tmp_path, hooks=()) == recorded


# Names that no record without parts has.
NOT_YET = ("$class", "vocabulary_transfer", "new_positions")


def flat(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record as versions without parts wrote it."""
    record = dict(record)
    own, method = {}, dict(record.pop("method"))
    for name in ("data", "run", "start"):
        own |= {key: value for key, value in record.pop(name).items() if key not in NOT_YET}
    own["intervals"] |= {"$class": "t5x_like.training.experiment:Intervals"}
    loss, teacher = method.pop("loss"), None
    if "teacher" in method:
        teacher = method | {"$class": "t5x_like.training.losses.distillation:Distillation"}
    absent = dict.fromkeys(("start_from", "noisy_tune", "word_vectors", "features"))
    return record | absent | own | {"loss": loss, "distillation": teacher}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"start_from": "runs/a", "noisy_tune": NoisyTune(seed=3)},
        {"word_vectors": "vectors.txt", "features": CheckpointFeatures(start_from="runs/b")},
        {"method": Distillation(teacher="runs/c", temperature=3.0), "loss": LossConfig(z_loss=0.5)},
    ],
    ids=["fresh", "pretrained", "inputs", "teacher"],
)
def test_records_of_earlier_versions_are_read_into_parts(tmp_path: Path, changes: dict[str, Any]) -> None:
    recorded = tiny_experiment(tmp_path, model_dir="run", total_steps=3, **changes)
    write_experiment(tmp_path, recorded)
    record = flat(read_json(tmp_path / "experiment.json"))
    assert {"train", "total_steps", "loss"} <= record.keys()
    write_json(tmp_path / "experiment.json", record)
    assert read_experiment(tmp_path) == recorded
    assert read_experiment(tmp_path, total_steps=9) == recorded.with_fields(total_steps=9)
    assert read_recorded(tmp_path, "train") == recorded.data.train


def test_a_field_that_no_part_has_is_refused(tmp_path: Path) -> None:
    recorded = tiny_experiment(tmp_path, model_dir="run", total_steps=3)
    write_experiment(tmp_path, recorded)
    with pytest.raises(TypeError, match="no_such_field"):
        read_experiment(tmp_path, no_such_field=1)
    longer = RunConfig(model_dir="other", total_steps=5)
    assert read_experiment(tmp_path, run=longer, total_steps=7).run.total_steps == 7
    with pytest.raises(TypeError, match="an Experiment and its parts have no field no_such_field"):
        recorded.with_fields(no_such_field=1)


def test_a_run_without_a_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"experiment.json is missing: .* is not a run"):
        read_experiment(tmp_path)


def test_a_damaged_record_names_the_field(tmp_path: Path) -> None:
    recorded = tiny_experiment(
        tmp_path, model_dir="run", total_steps=3, intervals=Intervals(log_every_steps=5)
    )
    write_experiment(tmp_path, recorded)
    fields = read_json(tmp_path / "experiment.json")
    fields["run"]["intervals"]["log_every_steps"] = -1
    write_json(tmp_path / "experiment.json", fields)
    with pytest.raises(ValueError, match=r"experiment\.json, intervals: log_every_steps is -1"):
        read_experiment(tmp_path)
