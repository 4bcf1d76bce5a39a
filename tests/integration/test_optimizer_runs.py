"""Whole runs by optimizers with averages of their own: to the bit where they were stopped, and read as evaluated."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from t5x_like.io.files import read_jsonl
from t5x_like.model import parameters
from t5x_like.optimizers.muon import Muon
from t5x_like.optimizers.optimizers import Adafactor, AdamW
from t5x_like.optimizers.schedule_free import ScheduleFreeAdamW
from t5x_like.optimizers.stable_adamw import StableAdamW
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.training.run_config import Intervals
from tests.integration import tiny_run
from tests.integration.programs import losses

EVERY_SECOND = Intervals(log_every_steps=1, evaluate_every_steps=2, save_every_steps=2, keep_checkpoints=2)


def weights(directory, **options) -> dict[str, Any]:
    return {
        path: np.asarray(each)
        for path, each in parameters.flatten(open_checkpoint(directory, **options).params).items()
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "optimizer",
    [
        ScheduleFreeAdamW(learning_rate=0.02),
        StableAdamW(learning_rate=0.01),
        AdamW(learning_rate=0.02, multiply_by_parameter_scale=True),
        Muon(learning_rate=0.01),
    ],
    ids=["schedule_free", "stable", "scaled", "muon"],
)
def test_a_stopped_run_continues_with_the_same_bits(directory, optimizer, request):
    options: dict[str, Any] = {"optimizer": optimizer, "intervals": EVERY_SECOND}
    name = request.node.callspec.id
    whole, parts = (str(directory / f"{name}_{kind}") for kind in ("whole", "parts"))
    tiny_run.run(directory, model_dir=whole, total_steps=4, **options)
    for steps in (2, 4):
        tiny_run.run(directory, model_dir=parts, total_steps=steps, **options)
    assert losses(directory / f"{name}_whole") == losses(directory / f"{name}_parts")
    expected = weights(whole)
    for path, result in weights(parts).items():
        np.testing.assert_array_equal(result, expected[path])


@pytest.mark.slow
def test_the_saved_weights_of_a_schedule_free_run_have_the_validation_loss_that_it_logged(directory):
    data = tiny_run.experiment(directory, model_dir="", total_steps=1).data.train
    options: dict[str, Any] = {
        "intervals": EVERY_SECOND,
        "validations": (replace(data, split="validation", repeat=False, shuffle=False),),
    }
    first, second = str(directory / "free"), str(directory / "free_again")
    tiny_run.run(
        directory, model_dir=first, total_steps=4, optimizer=ScheduleFreeAdamW(learning_rate=0.05), **options
    )
    still = Adafactor(learning_rate=0.0)
    tiny_run.run(directory, model_dir=second, total_steps=2, optimizer=still, start_from=first, **options)
    logged, again = (
        [
            line["loss"]
            for line in read_jsonl(f"{run}/metrics.jsonl")
            if line["split"].startswith("validation/")
        ]
        for run in (first, second)
    )
    assert logged[-1] == pytest.approx(again[-1], rel=1e-6)
    assert logged[-1] != logged[0]
