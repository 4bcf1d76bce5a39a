"""Token losses whose logits are computed a few positions at a time."""

import contextlib
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.adapters import LoRA
from t5x_like.model.families.family import predict
from t5x_like.model.heads import defer_logits
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.training import losses
from t5x_like.training.losses import LossConfig
from t5x_like.training.methods.distillation import Distillation
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.metrics import zero_totals
from t5x_like.training.state import plan_state
from t5x_like.training.step import train_step
from t5x_like.training.validation import validation_step
from tests.model.zoo.tiny_models import LENGTH, TINY
from tests.training.test_every_architecture import batch_for
from tests.training.test_replaced_tokens import MODEL as ELECTRA
from tests.training.test_replaced_tokens import repeated

SCORES_WORDS = [name for name in TINY if name not in ("transfo_xl", "electra_discriminator")]
ALWAYS = ("gemma2",)  # tied, with a soft cap
ARCHITECTURES = [
    pytest.param(name, marks=() if name in ALWAYS else pytest.mark.slow) for name in SCORES_WORDS
]
LOSS = LossConfig(z_loss=1e-3, label_smoothing=0.1)


def masked_lm(config):
    """The configuration with a head over the vocabulary, which encoders have for this task alone."""
    return replace(config, task="masked_lm") if config.task == "encoding" else config


def gradient_of(config, batch, loss, *, mesh=None):
    """The loss, the sums to log, and the gradient of every weight."""
    graphdef, params = parameters.split(config.build(jax.random.key(0)))

    def objective(params, batch):
        model = parameters.merge(graphdef, params)
        if loss.logits_chunk_length is not None:
            defer_logits(model)
        label_loss = None if batch.sequence_labels is None else "sentence_pairs"
        weights, normalizers = losses.normalize(batch, loss, label_loss)
        options = {"weights": weights, "normalizers": normalizers, "num_tasks": 1, "label_loss": label_loss}
        predictions = predict(model, batch, dropout_key=jax.random.key(1))
        return losses.total(predictions, batch, loss, **options)

    # ELMo's table of characters has no gradient.
    compute = jax.jit(jax.value_and_grad(objective, has_aux=True, allow_int=True))
    with jax.set_mesh(mesh) if mesh else contextlib.nullcontext():
        values, gradients = compute(params, batch)
    return values, [leaf for leaf in jax.tree.leaves(gradients) if leaf.dtype != jax.dtypes.float0]


def assert_same(result, expected):
    (loss, totals), gradients = result
    (expected_loss, expected_totals), expected_gradients = expected
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-6)
    for name in ("cross_entropy", "z_loss"):
        np.testing.assert_allclose(getattr(totals, name), getattr(expected_totals, name), rtol=2e-6)
    assert totals.correct == expected_totals.correct
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, atol=2e-5, rtol=2e-5),
        gradients,
        expected_gradients,
    )


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_chunks_give_the_loss_and_gradients_of_whole_logits(name):
    config = masked_lm(TINY[name])
    batch = batch_for(config, 0)
    expected = gradient_of(config, batch, LOSS)
    assert expected[0][1].z_loss > 0
    assert_same(gradient_of(config, batch, replace(LOSS, logits_chunk_length=5)), expected)  # 12 = 5 + 5 + 2


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{"fsdp": 2}, {"context": 2}], ids=["fsdp", "context"])
def test_chunks_on_a_mesh_give_the_same(sizes):
    batch = batch_for(TINY["t5_1_0"], 0)
    mesh = MeshConfig(data=2, model=2, **sizes).build()
    in_chunks = replace(LOSS, logits_chunk_length=4)
    assert_same(
        gradient_of(TINY["t5_1_0"], batch, in_chunks, mesh=mesh), gradient_of(TINY["t5_1_0"], batch, LOSS)
    )


@pytest.mark.slow
def test_an_adapter_in_the_output_layer_is_trained_through_chunks():
    config = replace(TINY["llama"], adapter=LoRA(rank=2, targets=("heads/lm_head/projection",)))
    batch = batch_for(config, 0)
    assert_same(
        gradient_of(config, batch, replace(LOSS, logits_chunk_length=5)), gradient_of(config, batch, LOSS)
    )


def test_no_array_of_all_logits_is_left():
    length, vocab_size = 96, 16_384
    config = replace(TINY["llama"], vocab_size=vocab_size, pad_vocab_to_multiple_of=1)
    batch = jax.tree.map(
        lambda rows: np.tile(rows, (1, length // LENGTH + 1))[:, :length], batch_for(config, 0)
    )
    graphdef, params = parameters.split(config.build(jax.random.key(0)))

    def temporaries(loss):
        def objective(params, batch):
            model = parameters.merge(graphdef, params)
            if loss.logits_chunk_length is not None:
                defer_logits(model)
            return losses.measure(predict(model, batch), batch, loss, 1).loss

        compiled = jax.jit(jax.grad(objective)).lower(params, batch).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    logits = batch.target_tokens.size * vocab_size * 4
    whole, chunks = temporaries(LOSS), temporaries(replace(LOSS, logits_chunk_length=4))
    assert whole > logits > 2 * chunks


def test_chunks_are_refused_where_they_can_not_be():
    with pytest.raises(ValueError, match="logits_chunk_length is 0; give a number of positions"):
        LossConfig(logits_chunk_length=0)
    model = jax.eval_shape(TINY["transfo_xl"].build, jax.random.key(0))
    with pytest.raises(ValueError, match="adaptive softmax"):
        defer_logits(model)


def test_logits_that_a_model_reads_itself_are_whole():
    config = replace(TINY["glm_orig"], task="cloze")
    model = config.build(jax.random.key(0))
    batch = batch_for(config, 0)._replace(block_positions=jnp.ones((8, LENGTH), jnp.int32))
    expected = jax.jit(lambda batch: predict(model, batch).heads["cloze"])(batch)
    defer_logits(model)
    result = jax.jit(lambda batch: predict(model, batch).heads["cloze"])(batch)
    np.testing.assert_array_equal(result, expected)


def test_training_and_validation_steps_have_no_array_of_all_logits():
    config, mesh = TINY["llama"], MeshConfig().build(jax.devices()[:1])
    plan = plan_state(config, AdamW(learning_rate=Constant(value=0.01)), mesh, num_tasks=1)
    batch, totals = batch_for(config, 0), zero_totals(1)
    all_logits = f"f32[8,{LENGTH},128]"  # the vocabulary is padded
    for loss, expected in ((LOSS, True), (replace(LOSS, logits_chunk_length=4), False)):
        step = jax.make_jaxpr(train_step(plan, Supervised(loss=loss), seed=0))(plan.abstract, batch)
        assert (all_logits in str(step)) == expected
        validate = validation_step(plan, Supervised(loss=loss))
        measured = jax.make_jaxpr(lambda *arguments: validate(*arguments)[0])(  # noqa: B023 - called at once
            plan.weights(plan.abstract), batch, totals, None
        )
        assert (all_logits in str(measured)) == expected
    with pytest.raises(ValueError, match="logits_chunk_length with a teacher"):
        Distillation(teacher="runs/large", loss=replace(LOSS, logits_chunk_length=4))


@pytest.mark.slow
def test_electras_generator_draws_from_the_same_logits():
    batch = repeated(0)
    whole, chunks = (
        gradient_of(ELECTRA, batch, replace(LOSS, logits_chunk_length=length)) for length in (None, 5)
    )
    assert_same(chunks, whole)
    assert chunks[0][1].measures["replaced_share"].total == whole[0][1].measures["replaced_share"].total > 0
