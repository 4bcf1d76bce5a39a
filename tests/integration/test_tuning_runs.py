"""Whole runs with growing batches: they continue to the bit where they were stopped."""

import pytest

from t5x_like.training.batch_ramp import BatchSizeRamp
from tests.integration import tiny_run


def test_no_row_is_skipped_and_a_run_continues_with_the_same_bits(directory):
    options = {"num_microbatches": 4, "batch_size_ramp": BatchSizeRamp(initial_batch_size=2, over_rows=16)}
    whole = tiny_run.run(directory, model_dir=str(directory / "ramp_whole"), total_steps=8, **options)
    tiny_run.run(directory, model_dir=str(directory / "ramp_halves"), total_steps=3, **options)
    halves = tiny_run.run(directory, model_dir=str(directory / "ramp_halves"), total_steps=8, **options)
    assert halves.last["train"]["loss"] == whole.last["train"]["loss"]
    with pytest.raises(ValueError, match="num_microbatches: the run has 4, you ask for 2"):
        tiny_run.run(
            directory,
            model_dir=str(directory / "ramp_halves"),
            total_steps=9,
            **options
            | {"num_microbatches": 2, "batch_size_ramp": BatchSizeRamp(initial_batch_size=4, over_rows=16)},
        )
