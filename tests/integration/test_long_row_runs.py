"""A run whose rows are split by length trains, validates, generates, saves, and continues on whole rows."""

from dataclasses import replace

import pytest

from t5x_like.evaluation.evaluator import TaskEvaluation
from t5x_like.inference.generator import GenerationConfig
from t5x_like.io.files import read_jsonl
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.training.run_config import Intervals
from t5x_like.training.train import train
from tests.integration.tiny_run import experiment

PARTS = MeshConfig(data=2, context=2, model=2)


def long_run(directory, name: str, *, total_steps: int, mesh: MeshConfig):
    """Packed rows of 64 and 32 tokens; losses and generated answers every second step."""
    run = experiment(directory, model_dir=str(directory / name), total_steps=total_steps, mesh=mesh)
    validation = replace(run.data.train, split="validation", inputs_length=48, targets_length=33)
    generation = TaskEvaluation(
        mixture="capitals",
        inputs_length=48,
        targets_length=8,
        batch_size=8,
        limit=8,
        generation=GenerationConfig(max_new_tokens=4),
    )
    intervals = Intervals(log_every_steps=1, evaluate_every_steps=2, save_every_steps=2)
    return run.with_fields(validations=(validation,), evaluations=(generation,), intervals=intervals)


@pytest.mark.slow
def test_a_run_on_parts_of_rows_is_the_run_on_whole_ones(directory):
    train(long_run(directory, "long_whole", total_steps=4, mesh=MeshConfig()))
    train(long_run(directory, "long_parts", total_steps=2, mesh=PARTS))
    train(long_run(directory, "long_parts", total_steps=4, mesh=MeshConfig()))
    whole, parts = (
        list(read_jsonl(f"{directory}/{name}/metrics.jsonl")) for name in ("long_whole", "long_parts")
    )
    for result, expected in zip(parts, whole, strict=True):
        assert (result["step"], result["split"]) == (expected["step"], expected["split"])
        for name in ("loss", "accuracy"):
            assert result.get(name, 0.0) == pytest.approx(expected.get(name, 0.0), rel=1e-5)
    # After every second step a validation, and answers that were generated.
    splits = [line["split"].partition("/")[0] for line in parts]
    assert splits == 2 * ["train", "train", "validation", "evaluation"]


def test_lengths_that_do_not_divide_are_refused_before_training(directory):
    run = long_run(directory, "long_refused", total_steps=2, mesh=PARTS)
    with pytest.raises(ValueError, match=r"rows of 62 tokens .* context 2 × model 2 = 4 parts; use 60 or 64"):
        train(run.with_fields(train=replace(run.data.train, inputs_length=62)))
    assert not (directory / "long_refused").exists()
