"""One optimizer step: the same on any mesh, in any number of parts, and it learns."""

from dataclasses import dataclass, replace

import jax
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.optimizers.optimizers import Adafactor
from t5x_like.optimizers.schedules import Constant
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.shard import place
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.metrics import summarize
from t5x_like.training.state import new_state, plan_state, shardings_of
from t5x_like.training.step import train_step
from t5x_like.training.validation import validation_step

MODEL = T5Config(
    vocab_size=64,
    model_dim=32,
    mlp_dim=64,
    num_heads=4,
    head_dim=8,
    num_encoder_layers=2,
    num_decoder_layers=2,
    dropout_rate=0.1,
)
# Small weights are factored too, so that rows and columns of the second moments are sharded as well.
OPTIMIZER = Adafactor(learning_rate=Constant(value=0.01), min_dim_size_to_factor=8)


def random_batch(seed: int, rows: int = 8) -> Batch:
    """Packed rows of two tasks, with padding at the end of each."""
    rng = np.random.default_rng(seed)
    segments = np.repeat([[1, 1, 1, 1, 2, 2, 2, 2, 2, 0, 0, 0]], rows, axis=0).astype(np.int32)
    tokens = (rng.integers(3, 64, segments.shape) * (segments > 0)).astype(np.int32)
    return Batch(
        encoder_input_tokens=tokens,
        encoder_segment_ids=segments,
        decoder_input_tokens=np.roll(tokens, 1, axis=1),
        decoder_segment_ids=segments,
        target_tokens=tokens,
        loss_weights=(segments > 0).astype(np.float32),
        task_ids=(segments == 2).astype(np.int32),
    )


@dataclass
class Run:
    losses: list[float]
    params: dict


def run(mesh_config: MeshConfig, *, num_devices: int, steps: int = 4, model=MODEL, **options) -> Run:
    mesh = mesh_config.build(jax.devices()[:num_devices])
    plan = plan_state(model, OPTIMIZER, mesh, num_tasks=2)
    step = jax.jit(
        train_step(plan, Supervised(), seed=1, **options),
        donate_argnums=0,
        out_shardings=shardings_of(plan.abstract),
    )
    state = new_state(plan, model, seed=0)
    losses, before = [], 0.0
    with jax.set_mesh(mesh):
        for index in range(steps):
            state = step(state, place(random_batch(index), mesh))
            total = float(state["totals"].loss)
            losses.append(total - before)
            before = total
    return Run(losses, jax.tree.map(np.asarray, state["params"]))


@pytest.fixture(scope="module")
def on_one_device() -> Run:
    return run(MeshConfig(), num_devices=1)


def test_eight_devices_on_three_axes_give_the_losses_of_one(on_one_device):
    on_eight = run(MeshConfig(data=2, fsdp=2, model=2), num_devices=8)
    np.testing.assert_allclose(on_eight.losses, on_one_device.losses, rtol=1e-5)


def test_every_part_of_the_state_is_cut_like_its_weights():
    mesh = MeshConfig(data=2, fsdp=2, model=2).build(jax.devices()[:8])
    plan = plan_state(MODEL, OPTIMIZER, mesh, num_tasks=1)
    kernel = plan.abstract["params"]["encoder"]["layers"]["0"]["feed_forward"]["up"]["kernel"]
    rows = plan.abstract["opt_state"].v_row["encoder"]["layers"]["0"]["feed_forward"]["up"]["kernel"]
    columns = plan.abstract["opt_state"].v_col["encoder"]["layers"]["0"]["feed_forward"]["up"]["kernel"]
    assert kernel.sharding.spec == jax.P(None, "fsdp", "model")
    assert rows.sharding.spec == jax.P(None, "fsdp")
    assert columns.sharding.spec == jax.P(None, "model")


def test_a_batch_in_parts_gives_the_step_of_the_whole_batch():
    model = T5Config(**{**MODEL.__dict__, "dropout_rate": 0.0})
    whole = run(MeshConfig(), num_devices=1, steps=2, model=model)
    in_parts = run(MeshConfig(), num_devices=1, steps=2, model=model, num_microbatches=4)
    np.testing.assert_allclose(in_parts.losses, whole.losses, rtol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), in_parts.params, whole.params
    )


def test_the_same_seed_gives_the_same_bits(on_one_device):
    assert run(MeshConfig(), num_devices=1).losses == on_one_device.losses


def test_validation_sums_each_task_and_draws_no_dropout():
    mesh = MeshConfig().build(jax.devices()[:1])
    plan = plan_state(MODEL, OPTIMIZER, mesh, num_tasks=2)
    state = new_state(plan, MODEL, seed=0)
    step = jax.jit(validation_step(plan, Supervised()))
    nothing = jax.tree.map(lambda leaf: jax.numpy.zeros(leaf.shape, leaf.dtype), plan.abstract["totals"])
    totals, _ = step(state["params"], random_batch(0), nothing, None)
    again, _ = step(state["params"], random_batch(0), nothing, None)
    assert float(totals.loss) == float(again.loss)
    summary = summarize(totals, ("words", "glosses"))
    tokens = np.asarray(totals.task_tokens)
    assert tokens.tolist() == [32.0, 40.0]
    mixed = (summary["cross_entropy/words"] * 32 + summary["cross_entropy/glosses"] * 40) / 72
    assert summary["cross_entropy"] == pytest.approx(mixed, rel=1e-6)


def test_the_program_of_deep_models_is_not_longer():
    """Layers run under scans, so compiling takes about as long for 48 as for 12."""

    def num_operations(num_layers: int) -> int:
        model = replace(MODEL, num_encoder_layers=num_layers, num_decoder_layers=num_layers)
        mesh = MeshConfig().build(jax.devices()[:1])
        plan = plan_state(model, OPTIMIZER, mesh, num_tasks=2)
        batch = jax.tree.map(lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype), random_batch(0))
        return (
            jax.jit(train_step(plan, Supervised(), seed=1)).lower(plan.abstract, batch).as_text().count("\n")
        )

    assert num_operations(48) == num_operations(12)
