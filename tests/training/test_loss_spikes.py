"""A loss that jumps is reported; a run may return to before the jump and skip the batches that led there."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.io.files import read_jsonl
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.training.hooks import Every, RunProgress
from t5x_like.training.loop import Loop
from t5x_like.training.loss_spikes import LossSpikes, WatchLossSpikes
from t5x_like.training.saving import Save
from t5x_like.training.writers import Writers
from tests.training.test_hooks import Counting

POISON, STRENGTH = 45, 100_000.0


@jax.jit
def step(state, batch):
    number = batch.target_tokens.sum()
    params = {"sum": state["params"]["sum"] + number + jnp.where(number == POISON, STRENGTH, 0.0)}
    return state | {"step": state["step"] + 1, "params": params}


def log(run: RunProgress) -> None:
    """The weights are bad after the batch that poisons them."""
    is_bad = float(run.state["params"]["sum"]) >= STRENGTH
    run.log("train", {"loss": 3.0 + 0.01 * (run.step % 7) + 5.0 * is_bad})


def train(directory, *, log_every: int, save_every: int, **settings) -> tuple[float, list[str]]:
    state = {"step": jnp.int32(0), "params": {"sum": jnp.float32(0)}, "frozen": {}}
    plan = SimpleNamespace(abstract=jax.eval_shape(lambda: state))
    said: list[str] = []
    sums = []
    with (
        Checkpoints(directory, keep=1) as checkpoints,
        Writers(str(directory), total_steps=60, start_step=0) as writers,
    ):
        writers.say = said.append
        hooks = [
            Every(log_every, log),
            WatchLossSpikes(LossSpikes(window=20, **settings), checkpoints, plan),  # pyright: ignore
            Save(checkpoints, save_every),
            Every(0, lambda run: sums.append(float(run.state["params"]["sum"]))),
        ]
        mesh = MeshConfig().build(jax.devices()[:1])
        loop = Loop(
            step,
            Counting(),
            mesh=mesh,
            total_steps=60,
            hooks=hooks,
            writers=writers,
            model_dir=str(directory),
        )
        loop.run(state)
    return sums[0], said


def test_a_spike_is_reported_and_training_continues(tmp_path):
    total, said = train(tmp_path, log_every=1, save_every=3)
    assert total == sum(range(1, 61)) + STRENGTH
    assert said[0].startswith("step 45: loss 8.03 is ")
    assert "robust standard deviations above the median of 20 log lines before it, 3.03" in said[0]


def test_a_run_returns_to_before_the_spike_and_skips_the_batches_since(tmp_path):
    total, said = train(tmp_path, log_every=1, save_every=10, action="return")
    assert said[1] == "returned to step 40; the batches of steps 41 to 45 are skipped"
    assert total == sum(range(1, 41)) + sum(range(46, 66))
    lines = list(read_jsonl(tmp_path / "metrics.jsonl"))
    assert [line["step"] for line in lines if line["split"] == "train"] == list(range(1, 61))
    assert [line for line in lines if line["split"] == "events"] == [
        {"step": 40, "split": "events", "returned_from_step": 45}
    ]


def test_the_last_good_checkpoint_is_kept_while_bad_ones_are_saved(tmp_path):
    # Logged at 44 and 48, saved at each step: steps 45 to 47 have bad weights, and only the newest step is kept.
    total, said = train(tmp_path, log_every=4, save_every=1, action="return")
    returned = int(said[1].removeprefix("returned to step ").partition(";")[0])
    assert 42 <= returned <= 44, "the newest one that was complete when step 44 was logged"
    assert total == sum(range(1, returned + 1)) + sum(range(49, 49 + 60 - returned))


def test_a_run_does_not_return_for_ever(tmp_path):
    _, said = train(tmp_path, log_every=1, save_every=10, action="return", max_returns=0)
    assert said[1] == "step 45: the run continues from here, because the run has returned 0 times"


def test_a_run_without_an_older_checkpoint_continues(tmp_path):
    _, said = train(tmp_path, log_every=1, save_every=0, action="return")
    assert said[1] == "step 45: the run continues from here, because no checkpoint is older"


def test_what_can_not_work_is_refused():
    plan = SimpleNamespace(abstract={"memory": 1})
    with pytest.raises(ValueError, match="this model has a memory of earlier segments"):
        WatchLossSpikes(LossSpikes(action="return"), None, plan)  # pyright: ignore
    with pytest.raises(ValueError, match="window is 3; give 10 or more"):
        LossSpikes(window=3)
    with pytest.raises(ValueError, match="threshold is 0; give a number above 0"):
        LossSpikes(threshold=0)
