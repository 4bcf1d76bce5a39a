"""One optimizer step, and one look at held-out data: pure functions of (state, batch), compiled once."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.training.losses import LossConfig, batch_losses, normalizing_factor
from t5x_like.training.metrics import Totals, add, zero_totals
from t5x_like.training.state import State, StatePlan


def train_step(
    plan: StatePlan, loss: LossConfig, *, seed: int, num_microbatches: int = 1
) -> Callable[[State, Batch], State]:
    """The function ``(state, batch) -> state``.

    Dropout is drawn from (``seed``, step, microbatch), so a resumed run draws what an uninterrupted one would have.
    With microbatches the gradients of the parts are summed; the loss is normalised over the whole batch, so the
    step is the one of the undivided batch.
    """

    def step(state: State, batch: Batch) -> State:
        factor = normalizing_factor(loss, batch)
        num_tasks = state["totals"].task_loss.shape[0]
        key = jax.random.fold_in(jax.random.key(seed), state["step"])

        def objective(params: Any, part: Batch, dropout_key: jax.Array) -> tuple[jax.Array, Totals]:
            totals = _measure(parameters.merge(plan.graphdef, params), part, loss, num_tasks, dropout_key)
            return totals.loss / factor, totals

        gradient = jax.grad(objective, has_aux=True)
        gradients, totals = _accumulate(gradient, state["params"], batch, key, num_microbatches, num_tasks)
        updates, opt_state = plan.transformation.update(gradients, state["opt_state"], state["params"])
        totals = totals._replace(
            gradient_norm=optax.global_norm(gradients).astype(jnp.float32), steps=jnp.ones((), jnp.float32)
        )
        return {
            "step": state["step"] + 1,
            "params": optax.apply_updates(state["params"], updates),
            "opt_state": opt_state,
            "totals": add(state["totals"], totals),
        }

    return step


def validation_step(plan: StatePlan, loss: LossConfig) -> Callable[[Any, Batch, Totals], Totals]:
    """The function ``(params, batch, totals) -> totals`` that adds a batch's teacher-forced loss, without dropout."""

    def step(params: Any, batch: Batch, totals: Totals) -> Totals:
        model = parameters.merge(plan.graphdef, params)
        return add(totals, _measure(model, batch, loss, totals.task_loss.shape[0], None))

    return step


def _measure(model: Any, batch: Batch, loss: LossConfig, num_tasks: int, dropout_key: jax.Array | None) -> Totals:
    logits = model(batch, dropout_key=dropout_key).logits
    losses = batch_losses(logits, batch, loss)
    weights = batch.loss_weights
    tasks = jnp.zeros_like(batch.target_tokens) if batch.task_ids is None else batch.task_ids
    by_task = jax.nn.one_hot(tasks, num_tasks, dtype=jnp.float32) * weights[..., None]
    return zero_totals(num_tasks)._replace(
        loss=jnp.sum(losses.loss * weights),
        cross_entropy=jnp.sum(losses.cross_entropy * weights),
        z_loss=jnp.sum(losses.z_loss * weights),
        correct=jnp.sum((jnp.argmax(logits, -1) == batch.target_tokens) * weights),
        target_tokens=jnp.sum(weights),
        tokens=_real_tokens(batch),
        task_loss=jnp.einsum("bl,blt->t", losses.cross_entropy, by_task),
        task_tokens=jnp.sum(by_task, axis=(0, 1)),
    )


def _real_tokens(batch: Batch) -> jax.Array:
    streams = ((batch.encoder_input_tokens, batch.encoder_segment_ids), (batch.decoder_input_tokens, batch.decoder_segment_ids))
    counts = [
        jnp.size(tokens) if segments is None else jnp.count_nonzero(segments)
        for tokens, segments in streams
        if tokens is not None
    ]
    return jnp.asarray(sum(counts), jnp.float32)


def _accumulate(
    gradient: Callable[..., Any], params: Any, batch: Batch, key: jax.Array, num_microbatches: int, num_tasks: int
) -> tuple[Any, Totals]:
    if num_microbatches == 1:
        return gradient(params, batch, key)

    def split(rows: jax.Array) -> jax.Array:
        # Every part takes each k-th row, so that the rows of a part stay spread over the devices of the mesh.
        return jnp.swapaxes(rows.reshape(-1, num_microbatches, *rows.shape[1:]), 0, 1)

    def body(carry: tuple[Any, Totals], part: tuple[Batch, jax.Array]) -> tuple[tuple[Any, Totals], None]:
        return jax.tree.map(jnp.add, carry, gradient(params, *part)), None

    nothing = (jax.tree.map(jnp.zeros_like, params), zero_totals(num_tasks))
    parts = (jax.tree.map(split, batch), jax.random.split(key, num_microbatches))
    (gradients, totals), _ = jax.lax.scan(body, nothing, parts)
    return gradients, totals
