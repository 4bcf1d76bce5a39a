"""One optimizer step, and one look at held-out data: pure functions of (state, batch), compiled once."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from t5x_like.batch import Batch
from t5x_like.model import multiple_choice, parameters
from t5x_like.model.families.family import Measure, Predictions
from t5x_like.model.families.segment_memory import Memory
from t5x_like.training.head_losses import labelled, measure_sequences
from t5x_like.training.losses import LossConfig, token_losses, weigh_tokens
from t5x_like.training.metrics import Totals, add, zero_totals
from t5x_like.training.state import State, StatePlan


def train_step(
    plan: StatePlan, loss: LossConfig, *, seed: int, num_microbatches: int = 1
) -> Callable[[State, Batch], State]:
    """The function ``(state, batch) -> state``.

    Dropout is drawn from (``seed``, step, microbatch), so a resumed run draws what an uninterrupted one would have.
    With microbatches the gradients of the parts are summed; the loss is normalised over the whole batch, so the
    step is the one of the undivided batch.

    Where the state has a memory and the batch says which rows go on, they see what the batch before left in it.
    """

    def step(state: State, batch: Batch) -> State:
        batch = with_targets(batch)
        weights, divisor = _weigh(batch, loss)
        memory = _memory_for(batch, state.get("memory"))
        num_tasks = state["totals"].task_loss.shape[0]
        key = jax.random.fold_in(jax.random.key(seed), state["step"])

        def objective(
            params: Any, part: Batch, weights: jax.Array, memory: Memory | None, dropout_key: jax.Array
        ) -> Any:
            model = parameters.merge(plan.graphdef, params)
            losses, totals, predictions = _measure(model, part, loss, num_tasks, dropout_key, memory)
            # Beside the tokens: means over the whole batch's sequences, and over microbatches.
            of_sequences = totals.sequence_loss / _not_zero(labelled(batch))
            balance = totals.balance_loss / num_microbatches
            total = jnp.sum(losses * weights.reshape(losses.shape)) / divisor + of_sequences + balance
            for extra in (predictions.extra_losses or {}).values():
                total = total + extra.weight * extra.total / _not_zero(_real_targets(batch))
            return total, (totals, predictions.memory)

        gradient = jax.grad(objective, has_aux=True)
        rows = batch, weights, memory
        gradients, totals, memory = _accumulate(gradient, state["params"], rows, key, num_microbatches)
        updates, opt_state = plan.transformation.update(gradients, state["opt_state"], state["params"])
        totals = totals._replace(
            gradient_norm=optax.tree.norm(gradients).astype(jnp.float32), steps=jnp.ones((), jnp.float32)
        )
        return state | {
            "step": state["step"] + 1,
            "params": optax.apply_updates(state["params"], updates),
            "opt_state": opt_state,
            "totals": add(state["totals"], totals),
            **({} if memory is None else {"memory": memory}),
        }

    return step


def validation_step(
    plan: StatePlan, loss: LossConfig
) -> Callable[[Any, Batch, Totals, Memory | None], tuple[Totals, Memory | None]]:
    """The function that adds a batch's teacher-forced loss, without dropout.

    ``(params, batch, totals, memory) -> (totals, memory)``, where only some models have a memory.
    """

    def step(
        params: Any, batch: Batch, totals: Totals, memory: Memory | None
    ) -> tuple[Totals, Memory | None]:
        batch, num_tasks = with_targets(batch), totals.task_loss.shape[0]
        model = parameters.merge(plan.graphdef, params)
        _, measured, predictions = _measure(model, batch, loss, num_tasks, None, _memory_for(batch, memory))
        renewed = memory if predictions.memory is None else predictions.memory
        return add(totals, measured), renewed

    return step


def _memory_for(batch: Batch, memory: Memory | None) -> Memory | None:
    """What the model is to be called with: nothing where the batch doesn't say which rows go on."""
    return None if batch.continues is None else memory


def _measure(
    model: Any,
    batch: Batch,
    loss: LossConfig,
    num_tasks: int,
    dropout_key: jax.Array | None,
    memory: Memory | None,
) -> tuple[jax.Array, Totals, Predictions]:
    remembering = {} if memory is None else {"memory": memory}
    num_choices, batch = multiple_choice.num_choices(batch), multiple_choice.as_rows(batch)
    predictions: Predictions = model(batch, dropout_key=dropout_key, **remembering)
    logits = token_scores(predictions, batch)
    losses, z_losses = token_losses(logits, batch.target_tokens, loss)
    if (
        predictions.heads and "span_boundary" in predictions.heads
    ):  # the second loss of each word (SpanBERT, §3.3)
        losses = losses + token_losses(predictions.heads["span_boundary"], batch.target_tokens, loss)[0]
    weights = batch.loss_weights
    cross_entropies = losses - z_losses
    tasks = jnp.zeros_like(batch.target_tokens) if batch.task_ids is None else batch.task_ids
    by_task = jax.nn.one_hot(tasks, num_tasks, dtype=jnp.float32) * weights[..., None]
    totals = zero_totals(num_tasks)._replace(
        loss=jnp.sum(losses * weights),
        cross_entropy=jnp.sum(cross_entropies * weights),
        z_loss=jnp.sum(z_losses * weights),
        correct=jnp.sum((jnp.argmax(logits, -1) == batch.target_tokens) * weights),
        target_tokens=jnp.sum(weights),
        tokens=_real_tokens(batch),
        **_measure_sequences(batch, predictions.heads, num_choices),
        **({} if predictions.balance_loss is None else {"balance_loss": predictions.balance_loss}),
        task_loss=jnp.einsum("bl,blt->t", cross_entropies, by_task),
        task_tokens=jnp.sum(by_task, axis=(0, 1)),
        measures=_measures(batch, predictions),
    )
    return losses, totals, predictions


def with_targets(batch: Batch) -> Batch:
    """The batch with nothing to be learned of its tokens, where it says nothing of them: only sequences have labels."""
    if batch.target_tokens is not None:
        return batch
    tokens = batch.encoder_input_tokens if batch.decoder_input_tokens is None else batch.decoder_input_tokens
    return batch._replace(
        target_tokens=jnp.zeros_like(tokens), loss_weights=jnp.zeros(tokens.shape, jnp.float32)
    )


def token_scores(predictions: Predictions, batch: Batch) -> jax.Array:
    """Of words; or of the classes of a model that scores tokens otherwise, whose targets are then class numbers."""
    if predictions.logits is not None:
        return predictions.logits
    for name in ("token_classification", "replaced_tokens"):
        scores = (predictions.heads or {}).get(name)
        if scores is not None:
            # One score for yes is the same as two, of which the one for no is 0.
            return jnp.pad(scores, ((0, 0), (0, 0), (1, 0))) if scores.shape[-1] == 1 else scores
    return jnp.zeros((*batch.target_tokens.shape, 2))


def target_segment_ids(batch: Batch) -> jax.Array | None:
    """Of the stream that targets belong to: the decoder's where there is one."""
    return batch.encoder_segment_ids if batch.decoder_input_tokens is None else batch.decoder_segment_ids


def _weigh(batch: Batch, loss: LossConfig) -> tuple[jax.Array, jax.Array]:
    """The weight of each target, shaped as they are in the batch, and the number to divide by."""
    rows = multiple_choice.as_rows(batch)
    weights, divisor = weigh_tokens(rows.target_tokens, rows.loss_weights, loss, target_segment_ids(rows))
    return weights.reshape(batch.loss_weights.shape), divisor


def _measure_sequences(
    batch: Batch, heads: dict[str, jax.Array] | None, num_choices: int
) -> dict[str, jax.Array]:
    """The second loss, of the one head that scores whole sequences, where sequences have labels."""
    measured = measure_sequences(batch, heads, num_choices)
    if measured is None:
        return {}
    return {
        "sequence_loss": jnp.sum(measured.losses),
        "sequence_correct": jnp.sum(measured.correct),
        "sequences": jnp.sum(measured.labelled),
    }


def _measures(batch: Batch, predictions: Predictions) -> dict[str, Measure]:
    """The model's own, and its losses as means over real tokens."""
    losses = (predictions.extra_losses or {}).items()
    return {
        **(predictions.measures or {}),
        **{name: Measure(extra.total, _real_targets(batch)) for name, extra in losses},
    }


def _real_targets(batch: Batch) -> jax.Array:
    """How many tokens of the stream that targets belong to are real."""
    segment_ids = target_segment_ids(batch)
    count = jnp.size(batch.target_tokens) if segment_ids is None else jnp.count_nonzero(segment_ids)
    return jnp.asarray(count, jnp.float32)


def _not_zero(count: jax.Array) -> jax.Array:
    return jnp.maximum(count, 1.0)


def _real_tokens(batch: Batch) -> jax.Array:
    streams = (
        (batch.encoder_input_tokens, batch.encoder_segment_ids),
        (batch.decoder_input_tokens, batch.decoder_segment_ids),
    )
    counts = [
        jnp.size(tokens) if segments is None else jnp.count_nonzero(segments)
        for tokens, segments in streams
        if tokens is not None
    ]
    return jnp.asarray(sum(counts), jnp.float32)


def _accumulate(
    gradient: Callable[..., Any],
    params: Any,
    rows: tuple[Batch, jax.Array, Memory | None],
    key: jax.Array,
    num_parts: int,
) -> tuple[Any, Totals, Memory | None]:
    if num_parts == 1:
        gradients, (totals, memory) = gradient(params, *rows, key)
        return gradients, totals, memory

    def split(array: jax.Array, axis: int = 0) -> jax.Array:
        # Every part takes each k-th row, so that the rows of a part stay spread over the devices of the mesh.
        parts = array.reshape(*array.shape[:axis], -1, num_parts, *array.shape[axis + 1 :])
        return jnp.moveaxis(parts, axis + 1, 0)

    def join(parts: jax.Array, axis: int = 0) -> jax.Array:
        array = jnp.moveaxis(parts, 0, axis + 1)
        return array.reshape(*array.shape[:axis], -1, *array.shape[axis + 2 :])

    def of_memory(change: Callable[..., jax.Array], memory: Memory | None) -> Memory | None:
        if memory is None:
            return None
        return Memory(states=change(memory.states, axis=1), real=change(memory.real))

    def body(sums: Any, part: tuple[Any, ...]) -> tuple[Any, Memory | None]:
        gradients, (totals, memory) = gradient(params, *part)
        return jax.tree.map(jnp.add, sums, (gradients, totals)), memory

    batch, weights, memory = rows
    parts = (*jax.tree.map(split, (batch, weights)), of_memory(split, memory))
    parts = (*parts, jax.random.split(key, num_parts))
    first = jax.eval_shape(gradient, params, *jax.tree.map(lambda array: array[0], parts))
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), (first[0], first[1][0]))
    (gradients, totals), memories = jax.lax.scan(body, nothing, parts)
    return gradients, totals, of_memory(join, memories)
