"""Training a model with a loss of its own: weighed, logged, and the same however the batch is cut."""

import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.zoo.electra_pretraining import ElectraPretrainingConfig
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.shard import place
from t5x_like.training.losses import LossConfig
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.metrics import summarize, zero_totals
from t5x_like.training.state import State, empty, new_state, plan_state, shardings_of
from t5x_like.training.step import train_step
from t5x_like.training.validation import validation_step

VOCAB_SIZE, LENGTH, MASK = 24, 12, 1
MODEL = ElectraPretrainingConfig(
    vocab_size=VOCAB_SIZE,
    embed_dim=16,
    model_dim=32,
    mlp_dim=64,
    num_heads=4,
    num_layers=2,
    max_position_embeddings=LENGTH,
    generator_divisor=2,
)
LOSS = LossConfig(z_loss=0.0)


def repeated(seed: int, rows: int = 16) -> Batch:
    """Rows of different lengths, each of one number; it is hidden at some places."""
    rng = np.random.default_rng(seed)
    segments = (np.arange(LENGTH) < rng.integers(8, LENGTH + 1, (rows, 1))).astype(np.int32)
    text = (rng.integers(4, VOCAB_SIZE, (rows, 1)) * segments).astype(np.int32)
    hidden = (rng.random((rows, LENGTH)) < 0.25) & (segments > 0)
    batch = Batch(
        encoder_input_tokens=np.where(hidden, MASK, text).astype(np.int32),
        encoder_segment_ids=segments,
        target_tokens=text,
        loss_weights=hidden.astype(np.float32),
    )
    return jax.tree.map(jnp.asarray, batch)


def trained(
    model: Any = MODEL,
    *,
    steps: int,
    mesh: MeshConfig | None = None,
    num_devices: int = 1,
    num_microbatches: int = 1,
    last: int = 10,
    determined: bool = False,
) -> tuple[State, dict[str, Any]]:
    """The state at the end, and what would be logged of the ``last`` steps."""
    built = (mesh or MeshConfig()).build(jax.devices()[:num_devices])
    plan = plan_state(model, AdamW(learning_rate=Constant(value=0.003)), built, num_tasks=1)
    step = jax.jit(
        train_step(plan, Supervised(loss=LOSS), seed=1, num_microbatches=num_microbatches),
        out_shardings=shardings_of(plan.abstract),
    )
    state = new_state(plan, model, seed=0)
    if determined:
        bias = state["params"]["generator_heads"]["lm_head"]["bias"]
        state["params"]["generator_heads"]["lm_head"]["bias"] = bias.at[5].set(1e4)
    with jax.set_mesh(built):
        for index in range(steps):
            if index == steps - last:
                state["totals"] = empty(plan.abstract["totals"])
            state = step(state, place(repeated(index), built))
    return state, summarize(state["totals"])


@pytest.fixture(scope="module")
def learned() -> tuple[State, dict[str, Any]]:
    return trained(steps=300, last=50)  # losses of single steps jump


@pytest.mark.slow
def test_a_tiny_one_learns_to_fill_and_to_detect(learned: tuple[State, dict[str, Any]]) -> None:
    _, line = learned
    assert line["cross_entropy"] < 0.8 * math.log(20)
    # Who says of every token how many are replaced, and no more, pays the entropy of that share.
    share = line["replaced_share"] * 0.25
    chance = -share * math.log(share) - (1 - share) * math.log(1 - share)
    assert line["discriminator_loss"] < 0.5 * chance
    assert line["discriminator_precision"] > 0.8
    assert line["discriminator_recall"] > 0.7


@pytest.mark.slow
def test_validation_measures_the_same_without_chance(learned: tuple[State, dict[str, Any]]) -> None:
    state, line = learned
    plan = plan_state(
        MODEL, AdamW(learning_rate=Constant(value=0.1)), MeshConfig().build(jax.devices()[:1]), num_tasks=1
    )
    step = jax.jit(validation_step(plan, Supervised(loss=LOSS)))
    nothing = zero_totals(1, plan.abstract["totals"].measures)
    first, again = (step(state["params"], repeated(5), nothing, None)[0] for _ in range(2))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert set(summarize(first)) - {"gradient_norm"} == set(line) - {"gradient_norm"}


@pytest.mark.slow
def test_the_gradient_is_that_of_both_losses_weighed() -> None:
    mesh = MeshConfig().build(jax.devices()[:1])
    plan = plan_state(MODEL, AdamW(learning_rate=Constant(value=0.1)), mesh, num_tasks=1)
    state, batch = new_state(plan, MODEL, seed=0), repeated(0)

    def both(params: Any) -> jax.Array:
        result = parameters.merge(plan.graphdef, params)(
            batch, dropout_key=jax.random.fold_in(jax.random.key(1), 0)
        )
        chosen = jnp.take_along_axis(
            jax.nn.log_softmax(result.logits), batch.target_tokens[..., None], axis=-1
        )[..., 0]
        words = -jnp.sum(chosen * batch.loss_weights) / batch.loss_weights.sum()
        discriminator_loss = result.extra_losses["discriminator_loss"].total / batch.encoder_segment_ids.sum()
        return words + 50 * discriminator_loss

    after = jax.jit(train_step(plan, Supervised(loss=LOSS), seed=1))(state, batch)
    wanted = optax.tree.norm(jax.jit(jax.grad(both))(state["params"]))
    assert float(after["totals"].gradient_norm) == pytest.approx(float(wanted), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("num_devices", [1, 8])
def test_parts_with_unequal_padding_give_the_step_of_the_whole(num_devices: int) -> None:
    # What is drawn differs by part, so this generator draws one word only.
    model = replace(MODEL, num_layers=1)
    whole, whole_line = trained(model, steps=2, last=2, determined=True)
    mesh = MeshConfig(data=2, fsdp=2, model=2) if num_devices == 8 else None
    cut, cut_line = trained(
        model, steps=2, last=2, determined=True, num_microbatches=4, num_devices=num_devices, mesh=mesh
    )
    assert cut_line == pytest.approx(whole_line, rel=1e-4)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-4), cut["params"], whole["params"])


@pytest.mark.slow
def test_eight_devices_draw_as_one() -> None:
    model = replace(MODEL, dropout_rate=0.1)
    _, one = trained(model, steps=2, last=2)
    _, eight = trained(model, steps=2, last=2, num_devices=8, mesh=MeshConfig(data=2, fsdp=2, model=2))
    assert eight == pytest.approx(one, rel=1e-4)
