"""Training with a memory: part of the state, on any mesh, in any number of parts, over any interruption."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.rules import BATCH_MESH_AXES
from t5x_like.partitioning.shard import place
from t5x_like.training.losses import LossConfig
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.metrics import zero_totals
from t5x_like.training.state import (
    State,
    StateLayout,
    empty,
    fine_tuning_state,
    new_state,
    plan_memory,
    plan_state,
    shardings_of,
)
from t5x_like.training.step import train_step
from t5x_like.training.validation import validation_step
from tests.model.zoo.tiny_models import TINY, VOCAB_SIZE

ROWS, LENGTH, STEPS = 8, 6, 4
TEXT = np.random.default_rng(3).integers(1, VOCAB_SIZE, (ROWS, LENGTH * STEPS)).astype(np.int32)
TRANSFO_XL = replace(TINY["transfo_xl"], memory_length=LENGTH * STEPS, init_stddev=0.2)
XLNET = replace(TINY["xlnet"], memory_length=8, reuse_length=4)
AWD_LSTM = replace(
    TINY["awd_lstm"],
    **dict.fromkeys(
        (f"{place}dropout_rate" for place in ("", "input_", "layer_", "embedding_", "weight_")), 0.0
    ),
)
LOSS = LossConfig(z_loss=0.0)


def batch_at(step: int, model: Any) -> Batch:
    """Each row goes on with its own text; some start anew on the way."""
    tokens = TEXT[:, step * LENGTH : (step + 1) * LENGTH]
    starts = (np.arange(ROWS) % 4 == step) | (step == 0)
    batch = Batch(
        target_tokens=tokens,
        loss_weights=np.ones(tokens.shape, np.float32),
        continues=(~starts).astype(np.int32),
    )
    if model is XLNET:
        ranks = np.tile([0, 2, 0, 1, 3, 0], (ROWS, 1)).astype(np.int32)
        return batch._replace(
            encoder_input_tokens=tokens, ranks=ranks, loss_weights=(ranks > 0).astype(np.float32)
        )
    return batch._replace(decoder_input_tokens=np.roll(TEXT, 1, axis=1)[:, step * LENGTH :][:, :LENGTH])


class Run:
    """A model on its mesh."""

    def __init__(
        self, model: Any, *, num_devices: int = 1, num_microbatches: int = 1, mesh: MeshConfig | None = None
    ):
        self.model = model
        self.mesh = (mesh or MeshConfig()).build(jax.devices()[:num_devices])
        optimizer = AdamW(learning_rate=Constant(value=0.01))
        self.plan: StateLayout = plan_state(model, optimizer, self.mesh, num_tasks=1, batch_size=ROWS)
        self.step: Callable[[State, Batch], State] = jax.jit(
            train_step(self.plan, Supervised(loss=LOSS), seed=1, num_microbatches=num_microbatches),
            out_shardings=shardings_of(self.plan.abstract),
        )

    def go(
        self, state: State | None = None, *, first: int = 0, last: int = STEPS
    ) -> tuple[State, list[float]]:
        state = new_state(self.plan, self.model, seed=0) if state is None else state
        losses, before = [], float(state["totals"].loss)
        with jax.set_mesh(self.mesh):
            for index in range(first, last):
                state = self.step(state, place(batch_at(index, self.model), self.mesh))
                losses.append(float(state["totals"].loss) - before)
                before = float(state["totals"].loss)
        return state, losses


def close(left: Any, right: Any, atol: float = 1e-5) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=atol), left, right)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [pytest.param(TRANSFO_XL, id="transfo_xl"), pytest.param(XLNET, id="xlnet", marks=pytest.mark.slow)],
)
def test_eight_devices_remember_as_one(model: Any) -> None:
    runs = Run(model), Run(model, num_devices=8, mesh=MeshConfig(data=2, fsdp=2, model=2))
    assert runs[1].plan.abstract["memory"].states.sharding.spec == jax.P(None, BATCH_MESH_AXES)
    # Later memories differ by what Adam makes of rounding; what losses they lead to shows that they are read alike.
    (one, _), (eight, _) = (run.go(last=1) for run in runs)
    close(eight["memory"].states, one["memory"].states)
    (one, one_losses), (eight, eight_losses) = (
        run.go(state, first=1) for run, state in zip(runs, (one, eight), strict=True)
    )
    np.testing.assert_allclose(eight_losses, one_losses, rtol=5e-5)
    np.testing.assert_array_equal(eight["memory"].real, one["memory"].real)
    assert np.asarray(one["memory"].real).any()


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(
            replace(TRANSFO_XL, dropout_rate=0.0, attention_dropout_rate=0.0),
            id="transfo_xl",
            marks=pytest.mark.slow,
        ),
        pytest.param(AWD_LSTM, id="awd_lstm"),
    ],
)
def test_rows_keep_their_memory_when_a_batch_is_cut_into_parts(model: Any) -> None:
    whole, whole_losses = Run(model).go()
    parts, parts_losses = Run(model, num_microbatches=4).go()
    np.testing.assert_allclose(parts_losses, whole_losses, rtol=1e-5)
    close(parts["memory"].states, whole["memory"].states, atol=1e-4)
    np.testing.assert_array_equal(parts["memory"].real, whole["memory"].real)


def test_a_resumed_run_remembers_to_the_bit(tmp_path: Path) -> None:
    run = Run(TRANSFO_XL)
    wanted, wanted_losses = run.go()
    state, losses = run.go(last=2)
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(2, state)
        restored = checkpoints.restore(run.plan.abstract).state
    state, more = run.go(restored, first=2)
    assert losses + more == wanted_losses
    jax.tree.map(np.testing.assert_array_equal, state, wanted)


@pytest.mark.slow
def test_the_memory_matters_to_the_losses() -> None:
    run = Run(TRANSFO_XL)
    state, losses = run.go()
    fresh = fine_tuning_state(run.plan, new_state(run.plan, run.model, seed=0)["params"])
    jax.tree.map(np.testing.assert_array_equal, fresh["memory"], empty(run.plan.abstract["memory"]))
    forgetful = run.go(last=1)[0] | {"memory": fresh["memory"]}
    assert run.go(forgetful, first=1, last=2)[1][0] != pytest.approx(losses[1], abs=1e-4)
    assert state["memory"].states.shape == (2, ROWS, LENGTH * STEPS, 32)


@pytest.mark.slow
def test_a_batch_that_says_nothing_of_its_rows_leaves_the_memory_alone() -> None:
    run = Run(TRANSFO_XL)
    state, _ = run.go(last=2)
    after = run.step(state, batch_at(2, TRANSFO_XL)._replace(continues=None))
    jax.tree.map(np.testing.assert_array_equal, after["memory"], state["memory"])


@pytest.mark.slow
def test_validation_of_segments_is_that_of_the_long_text() -> None:
    run = Run(TRANSFO_XL)
    params = new_state(run.plan, run.model, seed=0)["params"]
    step = jax.jit(validation_step(run.plan, Supervised(loss=LOSS)))
    whole = Batch(
        decoder_input_tokens=np.roll(TEXT, 1, axis=1),
        target_tokens=TEXT,
        loss_weights=np.ones(TEXT.shape, np.float32),
    )
    memory = empty(plan_memory(run.plan.graphdef, run.plan.abstract["params"], run.mesh, num_rows=ROWS))
    wanted, kept = step(params, whole, zero_totals(1), memory)
    jax.tree.map(np.testing.assert_array_equal, kept, memory)
    totals, without = zero_totals(1), zero_totals(1)
    for index in range(STEPS):
        goes_on = np.full(ROWS, int(index > 0), np.int32)
        batch = batch_at(index, TRANSFO_XL)._replace(continues=goes_on)
        totals, memory = step(params, batch, totals, memory)
        without, _ = step(params, batch._replace(continues=None), without, None)
    assert float(totals.loss) == pytest.approx(float(wanted.loss), rel=1e-5)
    assert float(without.loss) != pytest.approx(float(wanted.loss), rel=1e-3)


def test_a_state_carried_over_gives_the_loss_of_the_long_text() -> None:
    run = Run(AWD_LSTM)
    params = new_state(run.plan, AWD_LSTM, seed=0)["params"]
    step = jax.jit(validation_step(run.plan, Supervised(loss=LOSS)))
    memory = empty(plan_memory(run.plan.graphdef, run.plan.abstract["params"], run.mesh, num_rows=ROWS))
    read = np.roll(TEXT, 1, axis=1)
    ones = np.ones(TEXT.shape, np.float32)
    whole, _ = step(
        params,
        Batch(decoder_input_tokens=read, target_tokens=TEXT, loss_weights=ones),
        zero_totals(1),
        memory,
    )
    totals, forgetful = zero_totals(1), zero_totals(1)
    for index in range(STEPS):
        goes_on = np.full(ROWS, int(index > 0), np.int32)
        batch = batch_at(index, AWD_LSTM)._replace(continues=goes_on)
        totals, memory = step(params, batch, totals, memory)
        forgetful, _ = step(params, batch._replace(continues=None), forgetful, None)
    assert float(totals.loss) == pytest.approx(float(whole.loss), rel=1e-5)
    assert float(forgetful.loss) != pytest.approx(float(whole.loss), rel=1e-4)


def test_models_without_a_memory_have_none_in_their_state() -> None:
    assert "memory" not in Run(TINY["gpt2"]).plan.abstract
    mesh = MeshConfig().build(jax.devices()[:1])
    unsaid = plan_state(TRANSFO_XL, AdamW(learning_rate=Constant(value=0.01)), mesh, num_tasks=1)
    assert "memory" not in unsaid.abstract
