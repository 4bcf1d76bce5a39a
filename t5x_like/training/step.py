"""One optimizer step, and the measures of held-out data: pure functions of (state, batch), compiled once."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.families.family import predict
from t5x_like.model.families.segment_memory import Memory
from t5x_like.training import losses
from t5x_like.training.losses import LossConfig
from t5x_like.training.metrics import Totals, add
from t5x_like.training.microbatches import Part, accumulate
from t5x_like.training.state import State, StatePlan


def train_step(
    plan: StatePlan, loss: LossConfig, *, seed: int, num_microbatches: int = 1
) -> Callable[[State, Batch], State]:
    """Return the function ``(state, batch) -> state``.

    A state with a memory passes it on to the rows that continue those of the batch before.

    Args:
      plan: the state's structure, and the optimizer.
      loss: options of the loss over target tokens.
      seed: dropout is drawn from (``seed``, step, microbatch), so that a resumed run repeats an uninterrupted one.
      num_microbatches: parts of a batch whose gradients are summed. The loss is normalized over the whole batch, so
        the step is the one of the undivided batch.
    """

    def step(state: State, batch: Batch) -> State:
        batch = losses.with_targets(batch, loss)
        weights, normalizers = losses.normalize(batch, loss, num_parts=num_microbatches)
        num_tasks = state["totals"].task_loss.shape[0]

        def objective(trained: Any, part: Part, dropout_key: jax.Array) -> Any:
            model = parameters.merge(plan.graphdef, plan.weights(state | {"params": trained}))
            predictions = predict(model, part.batch, dropout_key=dropout_key, memory=part.memory)
            total, totals = losses.total(
                predictions,
                part.batch,
                loss,
                weights=part.weights,
                normalizers=normalizers,
                num_tasks=num_tasks,
            )
            return total, (totals, predictions.memory)

        gradients, totals, memory = accumulate(
            jax.grad(objective, has_aux=True),
            state["params"],
            Part(batch, weights, _memory_for(batch, state.get("memory"))),
            jax.random.fold_in(jax.random.key(seed), state["step"]),
            num_parts=num_microbatches,
        )
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
    """Return the function that adds a batch's teacher-forced loss, without dropout.

    ``(params, batch, totals, memory) -> (totals, memory)``, where only some models have a memory.
    """

    def step(
        params: Any, batch: Batch, totals: Totals, memory: Memory | None
    ) -> tuple[Totals, Memory | None]:
        batch = losses.with_targets(batch, loss)
        model = parameters.merge(plan.graphdef, params)
        predictions = predict(model, batch, memory=_memory_for(batch, memory))
        measured = losses.measure(predictions, batch, loss, totals.task_loss.shape[0])
        return add(totals, measured), memory if predictions.memory is None else predictions.memory

    return step


def _memory_for(batch: Batch, memory: Memory | None) -> Memory | None:
    """Return the memory to call the model with: none if the batch doesn't say which rows continue."""
    return None if batch.continues is None else memory
