"""Twenty steps of training from T5X's weights on T5X's batches, against what T5X itself computed."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.zoo.t5 import T5Config, t5x_weights
from t5x_like.model.zoo.weights import read_weights, source_of, write_weights
from t5x_like.optimizers.optimizers import Adafactor
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.training.losses import LossConfig, token_losses
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.metrics import zero_totals
from t5x_like.training.state import plan_state, state_from_params
from t5x_like.training.step import train_step
from tests.references import read_arrays

MODEL = T5Config(
    vocab_size=512,
    model_dim=128,
    mlp_dim=256,
    num_heads=4,
    head_dim=32,
    num_encoder_layers=2,
    num_decoder_layers=2,
)
SUM = LossConfig(z_loss=1e-4, normalize_by="sum")
SMOOTH = LossConfig(z_loss=1e-2, label_smoothing=0.1, normalize_by="target_tokens")
STEPS = 20


@pytest.fixture(scope="module")
def reference(golden):
    return read_arrays(golden / "training" / "t5x_small.npz")


@pytest.fixture(scope="module")
def plan():
    return plan_state(MODEL, Adafactor(), MeshConfig().build(jax.devices()[:1]), num_tasks=1)


@pytest.fixture(scope="module")
def compile_step(plan):
    """Plain and packed batches share one compiled step."""
    return functools.cache(
        lambda loss, parts: jax.jit(train_step(plan, Supervised(loss=loss), seed=0, num_microbatches=parts))
    )


@pytest.fixture(scope="module")
def differentiate(plan):
    """The gradients and logits of one batch."""

    def objective(params, batch):
        logits = parameters.merge(plan.graphdef, params)(batch).logits
        return (token_losses(logits, batch.target_tokens, SUM)[0] * batch.loss_weights).sum(), logits

    return jax.jit(jax.grad(objective, has_aux=True))


def read_group(reference, group, like):
    """A group of arrays of the file as our parameters' tree."""
    expected = {
        name.removeprefix(f"{group}/"): reference[name] for name in reference if name.startswith(f"{group}/")
    }
    source = source_of(expected, group)
    return read_weights(
        t5x_weights(MODEL), like, source, place=lambda _, unread: jnp.asarray(np.asarray(unread))
    )


def read_batches(reference, kind) -> Batch:
    """All batches, steps leading. Plain ones get segment ids: T5X takes id 0 for padding there."""
    stored = {
        name: reference[f"batch_{kind}/{name}"] for name in ("encoder_input_tokens", "decoder_input_tokens")
    }
    targets = reference[f"batch_{kind}/decoder_target_tokens"]
    if kind == "packed":
        segments = {
            name: reference[f"batch_packed/{name}"] for name in ("encoder_segment_ids", "decoder_segment_ids")
        }
    else:
        segments = {
            "encoder_segment_ids": (stored["encoder_input_tokens"] > 0).astype(np.int32),
            "decoder_segment_ids": (targets > 0).astype(np.int32),
        }
    weights = reference[f"batch_{kind}/decoder_loss_weights"]
    return Batch(**stored, **segments, target_tokens=targets, loss_weights=weights)


def one_batch(batches, step):
    return jax.tree.map(lambda array: jnp.asarray(array[step]), batches)


def train(step, plan, reference, kind, *, normalized=False):
    """The losses that T5X reports, how many tokens were right, and the final weights."""
    batches = read_batches(reference, kind)
    state = state_from_params(plan, read_group(reference, "init", plan.abstract["params"]))
    losses, correct = [], []
    for index in range(STEPS):
        state = step({**state, "totals": zero_totals(1)}, one_batch(batches, index))
        totals = state["totals"]
        losses.append(float(totals.loss) / (float(totals.target_tokens) if normalized else 1.0))
        correct.append(float(totals.correct))
    return losses, correct, state["params"]


def squared_differences(params, reference, group, start=None):
    """The squared norms, by T5X's names, of the difference and of T5X's array, or of its change since ``start``.

    The reference may hold every 16th value of a large array.
    """
    errors = {}
    for name, array in write_weights(t5x_weights(MODEL), params):
        expected = reference[f"{group}/{name}"].reshape(-1)
        origin = np.zeros(array.size) if start is None else reference[f"{start}/{name}"].reshape(-1)
        actual, origin = (
            values if expected.size == array.size else values[::16]
            for values in (np.asarray(array).reshape(-1), origin)
        )
        errors[name] = (np.sum((actual - expected) ** 2), np.sum((expected - origin) ** 2))
    return errors


@pytest.mark.parametrize(
    ("name", "kind"), [("default", "plain"), pytest.param("packed", "packed", marks=pytest.mark.slow)]
)
def test_twenty_steps_give_t5xs_losses_and_weights(compile_step, plan, reference, name, kind):
    losses, correct, params = train(compile_step(SUM, 1), plan, reference, kind)
    np.testing.assert_allclose(losses, reference[f"{name}/loss"], rtol=1e-5)
    np.testing.assert_array_equal(correct, reference[f"{name}/correct"])
    differences, changes = zip(
        *squared_differences(params, reference, f"{name}/final", start="init").values(), strict=True
    )
    assert (sum(differences) / sum(changes)) ** 0.5 < 1e-4


@pytest.mark.slow
def test_smoothed_and_normalized_losses_are_t5xs(compile_step, plan, reference):
    losses, correct, _ = train(compile_step(SMOOTH, 1), plan, reference, "plain", normalized=True)
    np.testing.assert_allclose(losses, reference["smooth/loss"], rtol=1e-5)
    np.testing.assert_array_equal(correct, reference["smooth/correct"])


@pytest.mark.slow
def test_microbatches_give_the_same_losses(compile_step, plan, reference):
    losses, _, _ = train(compile_step(SUM, 4), plan, reference, "plain")
    np.testing.assert_allclose(losses, reference["default/loss"], rtol=1e-5)


@pytest.mark.parametrize(("name", "kind"), [("default", "plain"), ("packed", "packed")])
def test_the_first_gradients_and_logits_are_t5xs(differentiate, plan, reference, name, kind):
    batch = one_batch(read_batches(reference, kind), 0)
    gradients, logits = differentiate(read_group(reference, "init", plan.abstract["params"]), batch)
    real = np.asarray(batch.decoder_segment_ids[:2] > 0)
    np.testing.assert_allclose(logits[:2][real], reference[f"{name}/logits0"][real], atol=2e-5)
    for path, (difference, size) in squared_differences(gradients, reference, f"{name}/grad0").items():
        assert (difference / size) ** 0.5 < 2e-5, path


def test_the_learning_rates_are_t5xs(reference):
    rates = [float(Adafactor().learning_rate(step)) for step in range(STEPS)]
    np.testing.assert_allclose(rates, reference["default/lr"], rtol=1e-7)
