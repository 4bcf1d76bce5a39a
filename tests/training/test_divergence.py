"""Numbers that are not finite change no weight, end a run after some steps, and are explained."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.checkpoints.checkpoints import Checkpoints, restore_step
from t5x_like.io.files import read_jsonl
from t5x_like.optimizers.optimizers import Adafactor
from t5x_like.optimizers.schedules import Constant
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.shard import place
from t5x_like.training.divergence import first_not_finite
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.metrics import summarize
from t5x_like.training.state import new_state, plan_state
from t5x_like.training.step import train_step
from tests.integration import tiny_run
from tests.training.test_step import MODEL, OPTIMIZER, random_batch


@pytest.fixture(scope="module")
def plan():
    return plan_state(MODEL, OPTIMIZER, MeshConfig().build(jax.devices()[:1]), num_tasks=2)


def copied(tree):
    return jax.tree.map(np.array, tree)


@pytest.mark.slow
def test_a_step_that_is_not_finite_changes_nothing_but_its_number(plan):
    step = jax.jit(train_step(plan, Supervised(), seed=1))
    state = step(new_state(plan, MODEL, seed=0), random_batch(0))
    assert int(state["skipped"]) == 0
    bad = random_batch(1)
    bad = bad._replace(loss_weights=np.where(np.arange(12) == 3, np.nan, bad.loss_weights).astype(np.float32))
    after = step(step(state, bad), bad)
    for name in ("params", "opt_state"):
        jax.tree.map(np.testing.assert_array_equal, copied(after[name]), copied(state[name]))
    assert (int(after["step"]), int(after["skipped"])) == (3, 2)
    logged = summarize(after["totals"])
    assert logged["skipped_steps"] == 2
    assert logged["loss"] == summarize(state["totals"])["loss"]
    assert logged["gradient_norm"] == summarize(state["totals"])["gradient_norm"]
    good = step(after, random_batch(2))
    assert int(good["skipped"]) == 0
    changes = jax.tree.map(lambda new, old: jnp.abs(new - old).max(), good["params"], after["params"])
    assert min(map(float, jax.tree.leaves(changes))) > 0


def test_the_first_layer_that_breaks_is_named(plan):
    state = new_state(plan, MODEL, seed=0)
    batch = place(random_batch(0), MeshConfig().build(jax.devices()[:1]))
    assert first_not_finite(plan, state, batch).startswith("all layers' outputs are finite")

    def last_layer_times(factor):
        def scaled(path, leaf):
            is_inner = "decoder" in jax.tree_util.keystr(path) and "feed_forward'" in jax.tree_util.keystr(
                path
            )
            return leaf.at[-1].multiply(factor) if is_inner else leaf

        return state | {"params": jax.tree_util.tree_map_with_path(scaled, state["params"])}

    words = first_not_finite(plan, last_layer_times(1e30), batch)
    assert words == "the output of layer 1 of the decoder is the first that is not finite"
    words = first_not_finite(plan, last_layer_times(np.nan), batch)
    assert words == "the weight decoder/layers/0/feed_forward/down/kernel is not finite"


def test_a_run_whose_numbers_break_stops_and_keeps_finite_weights(tmp_path, capfd):
    tiny_run.write_data(tmp_path)
    run = tmp_path / "run"
    finished = tiny_run.run(
        tmp_path,
        model_dir=str(run),
        total_steps=60,
        optimizer=Adafactor(learning_rate=Constant(value=1e15)),
        max_skipped_steps=5,
    )
    assert finished.diverged
    assert finished.step < 30
    assert "5 steps in a row had no finite loss, gradients and update" in (finished.stop_reason or "")
    assert "is the first that is not finite" in (finished.stop_reason or "")
    assert "not finite; weights stay as they were" in capfd.readouterr().err
    logged = [line for line in read_jsonl(run / "metrics.jsonl") if line["split"] == "train"]
    assert sum(line.get("skipped_steps", 0) for line in logged) == 5
    with Checkpoints(run) as checkpoints:
        assert checkpoints.all_steps()[-1] == finished.step
    like = new_state_like()
    for leaf in jax.tree.leaves(restore_step(run, like)[1]):
        assert np.isfinite(leaf).all()


def new_state_like():
    plan = plan_state(tiny_run.MODEL, OPTIMIZER, MeshConfig().build(jax.devices()[:1]), num_tasks=2)
    return plan.abstract["params"]
