"""Contrastive steps in microbatches and on several devices: the loss and the gradients are those of one large batch."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.optimizers.optax_optimizer import as_optimizer
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.shard import place
from t5x_like.training.losses import LossConfig, normalize, with_targets
from t5x_like.training.methods.contrastive_learning import Contrastive
from t5x_like.training.methods.method import LossContext
from t5x_like.training.microbatches import Microbatch, join_rows, split_rows
from t5x_like.training.state import new_state, plan_state, shardings_of
from t5x_like.training.step import train_step

MODEL = BertConfig(
    vocab_size=64,
    model_dim=16,
    mlp_dim=32,
    num_heads=2,
    num_layers=1,
    max_position_embeddings=8,
    dropout_rate=0.1,
    task="encoding",
)
METHOD = Contrastive(across_microbatches=True)


def batch_of() -> Batch:
    generator = np.random.default_rng(0)
    tokens = generator.integers(1, 64, size=(8, 2, 8)).astype(np.int32)
    segments = (np.arange(8) < generator.integers(3, 9, size=(8, 2, 1))).astype(np.int32)
    segments[-1] = 0  # a row that fills up the batch
    return Batch(encoder_input_tokens=tokens, encoder_segment_ids=segments)


@functools.cache
def stepped(
    *, across_microbatches: bool = True, num_microbatches: int = 1, num_devices: int = 1
) -> tuple[dict, float]:
    """Returns the gradient of one step without dropout, as the change by plain gradient descent, and the loss."""
    config = dataclasses.replace(MODEL, dropout_rate=0.0)
    method = Contrastive(across_microbatches=across_microbatches)
    mesh = MeshConfig(data=num_devices).build(jax.devices()[:num_devices])
    optimizer = as_optimizer(optax.sgd(1.0))
    plan = plan_state(config, optimizer, mesh, num_tasks=1, measures=method.measures)
    step = jax.jit(
        train_step(plan, method, seed=1, num_microbatches=num_microbatches),
        out_shardings=shardings_of(plan.abstract),
    )
    state = new_state(plan, config, seed=0)
    with jax.set_mesh(mesh):
        after = step(state, place(batch_of(), mesh))
    changes = jax.tree.map(lambda new, old: np.asarray(old - new), after["params"], state["params"])
    loss = after["totals"].measures["loss"]
    return parameters.flatten(changes), float(loss.total / loss.count)


def assert_same(left: dict, right: dict) -> None:
    """Compares gradients, relative to the largest of all."""
    largest = max(np.abs(change).max() for change in right.values())
    for path, change in right.items():
        np.testing.assert_allclose(left[path] / largest, change / largest, atol=1e-6, err_msg=path)


def test_microbatches_step_as_one_batch() -> None:
    whole, loss = stepped()
    parts, same = stepped(num_microbatches=4)
    assert_same(parts, whole)
    assert same == pytest.approx(loss, rel=1e-6)


def test_without_the_cache_microbatches_have_fewer_negatives() -> None:
    whole, loss = stepped()
    parts, lower = stepped(num_microbatches=4, across_microbatches=False)
    assert any(np.abs(parts[path] - change).max() > 1e-3 for path, change in whole.items())
    assert lower < loss


def test_with_dropout_both_passes_of_a_microbatch_are_the_same() -> None:
    """The gradient is that of a loss over all vectors, each microbatch's computed with the dropout of its own key."""
    graphdef, params = parameters.split(MODEL.build(jax.random.key(0)))
    batch = jax.tree.map(jnp.asarray, batch_of())
    whole = Microbatch(batch, jnp.zeros(batch.encoder_input_tokens.shape), {})
    key, normalizers = jax.random.key(3), _normalizers(num_parts=2)

    def of_weights(part: Any) -> Any:
        def call(trained: Any, microbatch: Microbatch, dropout_key: jax.Array) -> Any:
            context = LossContext(normalizers, 1, dropout_key, {})
            return part(parameters.merge(graphdef, trained), microbatch, context)

        return call

    def directly(trained: Any) -> jax.Array:
        rows = []
        for part, part_key in enumerate(jax.random.split(key, 2)):
            cut = jax.tree.map(lambda array, part=part: split_rows(array, num_parts=2)[part], whole.batch)
            microbatch = Microbatch(cut, whole.weights, {})
            rows.append(of_weights(METHOD.represent)(trained, microbatch, part_key).rows)
        joined = join_rows(jnp.stack(rows))
        compare = of_weights(lambda _, microbatch, context: METHOD.compare(joined, microbatch, context)[0])
        return compare(trained, whole, key)

    gradients, totals, _ = jax.jit(
        lambda params: METHOD.gradients(of_weights, params, whole, key, num_parts=2)
    )(params)
    loss, expected = jax.jit(jax.value_and_grad(directly))(params)
    assert_same(parameters.flatten(gradients), parameters.flatten(expected))
    assert totals.measures["loss"].total / totals.measures["loss"].count == pytest.approx(
        float(loss), rel=1e-6
    )


def _normalizers(*, num_parts: int) -> Any:
    batch = with_targets(batch_of(), LossConfig())
    return normalize(batch, LossConfig(), num_parts=num_parts)[1]


@pytest.mark.parametrize(("num_devices", "num_microbatches"), [(4, 1), (2, 2)])
def test_devices_share_their_negatives(num_devices: int, num_microbatches: int) -> None:
    one, loss = stepped()
    several, same = stepped(num_devices=num_devices, num_microbatches=num_microbatches)
    assert same == pytest.approx(loss, rel=1e-6)
    assert_same(several, one)
