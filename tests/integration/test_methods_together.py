"""Methods of tuning in one run: teacher, unfreezing, growing batches, moving average, adapters, kept predictions."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t5x_like.io.files import read_jsonl
from t5x_like.model import parameters
from t5x_like.model.adapters import BottleneckAdapter, LoRA, PrefixTuning, PromptTuning
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.training.batch_ramp import BatchSizeRamp
from t5x_like.training.methods.distillation import Distillation
from t5x_like.training.unfreezing import GradualUnfreezing
from t5x_like.training.weight_average import ExponentialMovingAverage
from tests.integration import tiny_run

UNFREEZING = GradualUnfreezing(at_steps=(2,), groups=(("decoder/*", "heads/*"), ("*",)))


@pytest.fixture(scope="module")
def teacher(directory: Path) -> str:
    """A run of the student's size."""
    run = str(directory / "teacher_of_methods")
    tiny_run.run(directory, model_dir=run, total_steps=2, seed=9)
    return run


def options(directory: Path, teacher: str, adapter: Any = None, **distillation: Any) -> dict[str, Any]:
    loader = tiny_run.experiment(directory, model_dir="", total_steps=1).data.train
    return {
        "model": replace(tiny_run.MODEL, adapter=adapter),
        "train": replace(loader, pack=not isinstance(adapter, PromptTuning)),
        "mesh": MeshConfig(data=2, model=4),
        "num_microbatches": 4,
        "batch_size_ramp": BatchSizeRamp(initial_batch_size=2, over_rows=12),
        "unfreezing": None if isinstance(adapter, PromptTuning) else UNFREEZING,
        "average": ExponentialMovingAverage(decay=0.5),
        "method": Distillation(teacher=teacher, **distillation),
    }


def losses(run: str) -> list[tuple[float, ...]]:
    names = ("loss", "soft_target_loss", "gradient_norm")
    return [
        tuple(line[name] for name in names)
        for line in read_jsonl(f"{run}/metrics.jsonl")
        if line["split"] == "train"
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "adapter",
    [
        pytest.param(None, marks=pytest.mark.slow),
        LoRA(rank=2, alpha=4.0, targets=("*/query", "*/value"), dropout_rate=0.1),
        pytest.param(BottleneckAdapter(inner_dim=4), marks=pytest.mark.slow),
        pytest.param(PrefixTuning(length=2, hidden_dim=None), marks=pytest.mark.slow),
        pytest.param(PromptTuning(length=2), marks=pytest.mark.slow),
    ],
    ids=lambda adapter: type(adapter).__name__,
)
def test_all_methods_in_one_run_that_stops_and_continues_with_the_same_bits(directory, teacher, adapter):
    together = options(directory, teacher, adapter)
    whole, parts = (str(directory / f"{name}_{type(adapter).__name__}") for name in ("whole", "parts"))
    tiny_run.run(directory, model_dir=whole, total_steps=6, **together)
    tiny_run.run(directory, model_dir=parts, total_steps=3, **together)
    tiny_run.run(directory, model_dir=parts, total_steps=6, **together)
    assert losses(parts) == losses(whole)
    assert all(np.isfinite(losses(whole)).ravel())
    for average in (False, True):
        actual, reference = (
            parameters.flatten(open_checkpoint(run, average=average).params) for run in (parts, whole)
        )
        for path, leaf in actual.items():
            np.testing.assert_array_equal(leaf, reference[path], err_msg=path)


@pytest.mark.slow
def test_kept_predictions_of_growing_batches_train_as_computed_ones(directory, teacher):
    computed = options(directory, teacher, hidden_states_weight=0.0)
    kept = computed | {
        "method": replace(
            computed["method"],
            logits_dir=str(directory / "kept_logits"),
            num_logits=tiny_run.MODEL.vocab_size,
        )
    }
    runs = {name: str(directory / f"{name}_predictions") for name in ("computed", "written", "read")}
    for name, run in runs.items():
        tiny_run.run(directory, model_dir=run, total_steps=3, **(computed if name == "computed" else kept))
    assert losses(runs["read"]) == losses(runs["written"])
    np.testing.assert_allclose(losses(runs["written"]), losses(runs["computed"]), rtol=1e-4)
