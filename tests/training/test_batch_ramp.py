"""Batches grow with the rows seen; a step is that of its batch alone."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.training.batch_ramp import BatchSizeRamp, BatchSizeStages, RampLoader, RampSchedule
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.state import new_state, plan_state
from t5x_like.training.step import train_step
from tests.integration import tiny_run
from tests.training.test_step import MODEL, OPTIMIZER, random_batch


def schedule(initial: int, over_rows: int, batch_size: int = 32, parts: int = 8) -> RampSchedule:
    ramp = BatchSizeRamp(initial_batch_size=initial, over_rows=over_rows)
    return RampSchedule(ramp, batch_size=batch_size, num_microbatches=parts)


@pytest.mark.parametrize(("initial", "over_rows"), [(4, 500), (8, 97), (28, 1), (4, 10_000)])
def test_batches_grow_linearly_with_the_rows_seen(initial, over_rows):
    result, seen, traced = (
        schedule(initial, over_rows),
        0,
        jax.jit(schedule(initial, over_rows).traced_parts_of),
    )
    for step in range(40):
        wanted = (initial + (32 - initial) * min(seen / over_rows, 1.0)) // 4
        assert result.parts_of(step) == wanted
        assert int(traced(step)) == wanted
        seen += 4 * result.parts_of(step)


def test_gpt3s_ramp_ends_at_the_full_size():
    # 32 thousand tokens to 3.2 million over 12 billion, rows of 2,048 tokens, microbatches of 16 rows.
    ramp = BatchSizeRamp(initial_batch_size=16, over_rows=12_000_000_000 // 2048)
    grows = ramp.growing_steps(1600, 100)
    assert len(grows) == 99
    assert list(grows) == sorted(grows)
    rows = 16 * sum(np.diff((0, *grows)) * np.arange(1, 100))
    assert rows == pytest.approx(ramp.over_rows, rel=1e-3)


def test_batches_of_stages_jump_once_their_rows_are_seen():
    stages = BatchSizeStages(batch_sizes=(4, 12), until_rows=(10, 30))
    stages.check(24, 6)
    ramp_schedule = RampSchedule(stages, batch_size=24, num_microbatches=6)
    sizes = [4 * ramp_schedule.parts_of(step) for step in range(7)]
    assert sizes == [4, 4, 4, 12, 12, 24, 24], "3 batches of 4 reach 10 rows, and 2 of 12 reach 30"
    traced = jax.jit(ramp_schedule.traced_parts_of)
    assert [4 * int(traced(step)) for step in range(7)] == sizes


@pytest.mark.parametrize(
    ("batch_sizes", "until_rows", "message"),
    [
        ((4, 12), (10,), "must have a number for each stage before the last"),
        ((), (), "must have a number for each stage before the last"),
        ((6, 12), (10, 30), "by multiples of a microbatch's 4 rows"),
        ((12, 4), (10, 30), r"batch_sizes=\(12, 4\) must ascend to batch_size=24"),
        ((4, 24), (10, 30), "must ascend to batch_size=24"),
        ((4, 12), (30, 30), r"until_rows=\(30, 30\) must ascend"),
    ],
)
def test_stages_that_do_not_grow_are_refused(batch_sizes, until_rows, message):
    stages = BatchSizeStages(batch_sizes=batch_sizes, until_rows=until_rows)
    with pytest.raises(ValueError, match=message):
        stages.check(24, 6)


def test_an_experiment_checks_its_stages(tmp_path):
    stages = BatchSizeStages(batch_sizes=(3,), until_rows=(10,))
    with pytest.raises(ValueError, match="by multiples of a microbatch's 2 rows"):
        tiny_run.experiment(
            tmp_path, model_dir="run", total_steps=2, num_microbatches=4, batch_size_ramp=stages
        )


@pytest.mark.slow
def test_a_step_is_that_of_the_rows_which_its_batch_has():
    """Three of four microbatches are filled: the same weights as from a batch of three."""
    model = replace(MODEL, dropout_rate=0.0)
    plan = plan_state(model, OPTIMIZER, MeshConfig().build(jax.devices()[:1]), num_tasks=2)
    batch, result = random_batch(0), []
    padded = Batch(*(None if rows is None else np.concatenate([rows[:6], 0 * rows[:2]]) for rows in batch))
    order = np.arange(8).reshape(4, 2).T.reshape(-1)  # part k of 4 has rows k and k + 4
    padded = Batch(*(None if rows is None else rows[order] for rows in padded))
    small = Batch(*(None if rows is None else rows[:6] for rows in batch))
    for rows, options in ((padded, {"num_microbatches": 4, "ramp": schedule(6, 10**6, 8, 4)}), (small, {})):
        step = jax.jit(train_step(plan, Supervised(), seed=1, **options))
        result.append(step(new_state(plan, model, seed=0), rows))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5),
        result[0]["params"],
        result[1]["params"],
    )
    np.testing.assert_allclose(result[0]["totals"].tokens, result[1]["totals"].tokens)
    np.testing.assert_allclose(result[0]["totals"].loss, result[1]["totals"].loss, rtol=1e-5)


def test_one_program_runs_only_the_filled_microbatches():
    plan = plan_state(MODEL, OPTIMIZER, MeshConfig().build(jax.devices()[:1]), num_tasks=2)
    step = train_step(plan, Supervised(), seed=1, num_microbatches=4, ramp=schedule(2, 8, 8, 4))
    jaxpr = jax.make_jaxpr(step)(plan.abstract, random_batch(0))
    assert [equation.primitive.name for equation in jaxpr.eqns].count("while") == 1


class Counting:
    """A loader of microbatches of two rows, numbered from 1."""

    head = None

    def __init__(self) -> None:
        self.position = 0

    def __next__(self) -> Batch:
        self.position += 1
        return Batch(target_tokens=np.array([[2 * self.position - 1], [2 * self.position]]))

    def padding(self) -> Batch:
        return Batch(target_tokens=np.zeros((2, 1), int))

    def state(self):
        return self.position

    def restore(self, state):
        self.position = state


def test_parts_take_every_nth_row_and_the_position_is_that_after_the_step():
    loader = RampLoader(Counting(), schedule(4, 5, 8, 4))  # pyright: ignore[reportArgumentType]
    batches = [next(loader).target_tokens.ravel().tolist()]
    kept = loader.state()
    batches += [next(loader).target_tokens.ravel().tolist(), next(loader).target_tokens.ravel().tolist()]
    assert batches == [[1, 3, 0, 0, 2, 4, 0, 0], [5, 7, 9, 0, 6, 8, 10, 0], [11, 13, 15, 17, 12, 14, 16, 18]]
    loader.restore(kept)
    assert next(loader).target_tokens.ravel().tolist() == batches[1]


@pytest.mark.parametrize(
    ("initial", "over_rows", "message"),
    [
        (3, 10, "initial_batch_size=3 must be a multiple of a microbatch's 2 rows"),
        (8, 10, "smaller than batch_size"),
        (2, 0, "over_rows is 0; give the rows"),
    ],
)
def test_batches_that_can_not_grow_are_refused(tmp_path, initial, over_rows, message):
    ramp = BatchSizeRamp(initial_batch_size=initial, over_rows=over_rows)
    with pytest.raises(ValueError, match=message):
        tiny_run.experiment(
            tmp_path, model_dir="run", total_steps=2, num_microbatches=4, batch_size_ramp=ramp
        )


def test_batches_that_grow_have_no_turns(tmp_path):
    ramp = BatchSizeRamp(initial_batch_size=2, over_rows=10)
    grown = tiny_run.experiment(
        tmp_path, model_dir="run", total_steps=2, num_microbatches=4, batch_size_ramp=ramp
    )
    with pytest.raises(
        ValueError, match="alternate_tasks gives each batch examples of one task, and with batch"
    ):
        grown.with_fields(train=replace(grown.data.train, alternate_tasks=True))
