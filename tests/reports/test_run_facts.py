"""Facts come from what a run left in its directory, and only from there."""

import pytest

from t5x_like.checkpoints.manifest import write_manifest
from t5x_like.io.files import write_json, write_jsonl
from t5x_like.reports.run_facts import run_facts


@pytest.fixture
def run_directory(tmp_path):
    write_jsonl(
        tmp_path / "metrics.jsonl",
        [
            {
                "step": 10,
                "split": "train",
                "compile_seconds": 9.6,
                "steps_per_second": 0.1,
                "tokens_per_second": 50.0,
            },
            {"step": 20, "split": "train", "steps_per_second": 2.0, "tokens_per_second": 1000.0},
            {"step": 20, "split": "validation/psalms", "cross_entropy": 3.0},
            {
                "step": 30,
                "split": "train",
                "goodput": 0.618,
                "steps_per_second": 2.5,
                "tokens_per_second": 1234.5,
            },
        ],
    )
    return tmp_path


def test_a_log_alone_shows_steps_speed_and_training_time(run_directory):
    assert run_facts(run_directory) == {
        "steps": "30",
        "goodput": "62% of the time since the first start",
        "training time": "1 min 49 s",  # 10 / 0.1 + 10 / 2 + 10 / 2.5
        "compilation": "10 s",
        "tokens per second": "1,000",
        "steps per second": "2.00",
    }


def test_the_configuration_shows_seed_batch_and_origin(run_directory):
    config = {"seed": 0, "train.batch_size": 16, "train.inputs_length": 128, "train.targets_length": 32}
    write_json(run_directory / "config.json", config | {"start_from": "runs/pretrain"})
    facts = run_facts(run_directory)
    assert facts["seed"] == "0"
    assert facts["batch"] == "16 rows of 128 + 32 tokens"
    assert facts["started from"] == "runs/pretrain"


def test_the_newest_finished_checkpoint_shows_the_number_of_parameters(run_directory):
    leaves = {
        "params/table": {"shape": [4100, 128]},
        "params/scale": {"shape": [128]},
        "opt_state/step": {"shape": []},
    }
    write_json(run_directory / "30" / "leaves.json", leaves)
    assert "parameters" not in run_facts(run_directory)
    write_manifest(run_directory / "30")
    assert run_facts(run_directory)["parameters"] == "524,928"
