"""Token losses of encoders, whose logits are computed where there are targets."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model.families.family import predict
from t5x_like.model.heads import defer_logits
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.training.losses.tokens import LossConfig, measure_targets, measure_tokens
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.metrics import zero_totals
from t5x_like.training.state import plan_state
from t5x_like.training.step import train_step
from t5x_like.training.validation import validation_step
from tests.model.zoo.tiny_models import LENGTH, TINY
from tests.training.losses.test_logits_in_chunks import LOSS, assert_same, gradient_of
from tests.training.test_every_architecture import batch_for

CONFIG = replace(TINY["bert"], task="masked_lm", dropout_rate=0.0)


def few_targets(num_rows=8):
    """Rows with 0 to 3 targets each, at different positions."""
    weights = np.zeros((num_rows, LENGTH), np.float32)
    for row in range(num_rows):
        weights[row, np.random.default_rng(row).permutation(LENGTH)[: row % 4]] = 1.0 + row
    return batch_for(CONFIG, 0)._replace(loss_weights=weights)


def test_targets_give_the_loss_and_gradients_of_whole_logits():
    batch = few_targets()
    expected = gradient_of(CONFIG, batch, LOSS)
    assert_same(gradient_of(CONFIG, batch, replace(LOSS, logits_chunk_length=2)), expected)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{"fsdp": 2}, {"context": 2}], ids=["fsdp", "context"])
def test_a_mesh_gives_the_same(sizes):
    mesh = MeshConfig(data=2, model=2, **sizes).build()
    expected = gradient_of(CONFIG, few_targets(), LOSS)
    in_chunks = replace(LOSS, logits_chunk_length=2)
    assert_same(gradient_of(CONFIG, few_targets(), in_chunks, mesh=mesh), expected)


def test_chunks_without_a_target_are_left_out():
    model, batch = CONFIG.build(jax.random.key(0)), few_targets()
    whole = measure_tokens(predict(model, batch).logits, batch.target_tokens, LOSS).losses
    defer_logits(model)
    logits = predict(model, batch).logits
    of_targets = measure_targets(logits, batch.target_tokens, jnp.asarray(batch.loss_weights), LOSS).losses
    is_target = batch.loss_weights > 0
    np.testing.assert_allclose(of_targets[is_target], whole[is_target], rtol=1e-5)
    # Chunks are of 2 positions, and no row has more than 3 targets: two chunks are computed.
    np.testing.assert_array_equal(np.count_nonzero(of_targets, axis=1), 4)
    none = measure_targets(logits, batch.target_tokens, jnp.zeros_like(whole), LOSS)
    assert not np.any(none.losses)
    assert not np.any(none.is_correct)


def test_training_and_validation_steps_of_an_encoder_have_no_array_of_all_logits():
    mesh = MeshConfig().build(jax.devices()[:1])
    plan = plan_state(CONFIG, AdamW(learning_rate=Constant(value=0.01)), mesh, num_tasks=1)
    all_logits = f"f32[8,{LENGTH},128]"  # the vocabulary is padded
    method = Supervised(loss=LossConfig())

    for in_parts in (True, False):
        train = train_step(plan, method, seed=0, in_parts=in_parts)
        assert (all_logits in str(jax.make_jaxpr(train)(plan.abstract, few_targets()))) != in_parts
    validate = validation_step(plan, method)
    measured = jax.make_jaxpr(lambda *arguments: validate(*arguments)[0])(
        plan.weights(plan.abstract), few_targets(), zero_totals(1), None
    )
    assert all_logits not in str(measured)


class OwnTotal(Supervised):
    """A method that reads logits as an array."""

    def total(self, predictions, microbatch, context, **options):
        assert predictions.logits.shape == (*microbatch.batch.target_tokens.shape, 128)
        return super().total(predictions, microbatch, context, **options)


def test_a_method_with_a_loss_of_its_own_gets_whole_logits():
    mesh = MeshConfig().build(jax.devices()[:1])
    plan = plan_state(CONFIG, AdamW(learning_rate=Constant(value=0.01)), mesh, num_tasks=1)
    jax.eval_shape(train_step(plan, OwnTotal(loss=LossConfig()), seed=0), plan.abstract, few_targets())
