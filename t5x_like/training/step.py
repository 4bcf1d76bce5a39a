"""One optimizer step: a pure function of (state, batch), compiled once."""

from collections.abc import Callable, Mapping

import jax
import optax
from jaxtyping import PyTree

from t5x_like.batch import Batch
from t5x_like.model.families.segment_memory import memory_for
from t5x_like.model.heads import defer_logits
from t5x_like.text.objectives.objective import LabelLoss
from t5x_like.training import losses
from t5x_like.training.batch_ramp import RampSchedule
from t5x_like.training.companions import NO_INPUTS, Companion, CompanionInputs, frozen_models
from t5x_like.training.finite_guard import keep_if_finite
from t5x_like.training.learned_weights import LearnedWeights
from t5x_like.training.methods.method import LossContext, TrainingMethod
from t5x_like.training.microbatches import Microbatch
from t5x_like.training.state import State, StateLayout, memories_of, memory_entries


def train_step(
    plan: StateLayout,
    method: TrainingMethod,
    *,
    seed: int,
    num_microbatches: int = 1,
    stage: int = -1,
    ramp: RampSchedule | None = None,
    companions: Mapping[str, Companion] = {},
    label_loss: LabelLoss | None = None,
    in_parts: bool = True,
) -> Callable[..., State]:
    """Return the function ``(state, batch, companion_inputs) -> state``; without companions it takes two arguments.

    A step that is not finite changes nothing (see ``keep_if_finite``). A state with a memory passes it on to the rows
    that continue those of the batch before.

    Args:
      plan: Structure of the state, and the optimizer.
      method: Loss to minimize.
      seed: Seed of dropout, which is drawn from (``seed``, step, microbatch), so that a resumed run repeats an
        uninterrupted one.
      num_microbatches: Parts of a batch whose gradients are summed. The loss is normalized over the whole batch, so the
        step is the one of the undivided batch.
      stage: Number of the stage of gradual unfreezing; the last one if not given.
      ramp: Microbatches of each step, of batches that grow; the others are empty.
      companions: Frozen models of the method. The step takes their weights as an argument, so that they are no
        constants of the compiled program.
      label_loss: Loss of the labels in the batches; None for batches without labels.
      in_parts: Methods may compute logits in parts, and again in the backward pass. ``False`` is for counts of FLOPs.
    """
    learning = LearnedWeights(plan, stage)

    def step(state: State, batch: Batch, inputs: CompanionInputs = NO_INPUTS) -> State:
        batch = losses.with_targets(batch, method.loss)
        num_filled = None if ramp is None else ramp.traced_parts_of(state["step"])
        num_parts = num_microbatches if num_filled is None else num_filled
        weights, normalizers = losses.normalize(batch, method.loss, label_loss, num_parts=num_parts)
        num_tasks = state["totals"].task_loss.shape[0]
        trained, others = learning.divide(plan.at_gradients(state))
        frozen = frozen_models(companions, inputs.params, plan.weights(state))

        def of_weights(part: Callable[..., PyTree]) -> Callable[..., PyTree]:
            def call(trained: PyTree, microbatch: Microbatch, dropout_key: jax.Array) -> PyTree:
                model = learning.model(trained, others)
                if in_parts and method.defers_logits(model, microbatch.batch):
                    defer_logits(model)
                context = LossContext(normalizers, num_tasks, dropout_key, frozen, label_loss, state["step"])
                return part(model, microbatch, context)

            return call

        memories = {name: memory_for(batch, memory) for name, memory in memories_of(state).items()}
        gradients, totals, memories = method.gradients(
            of_weights,
            trained,
            Microbatch(batch, weights, memories, inputs.outputs),
            jax.random.fold_in(jax.random.key(seed), state["step"]),
            num_parts=num_microbatches,
            num_filled=num_filled,
        )
        weights_before, _ = learning.divide(state)
        gradients, excess = learning.balance.divide(gradients)
        updates, opt_state = learning.update(gradients, state["opt_state"], weights_before)
        updates = learning.balance.update(updates, excess)
        learned: PyTree = optax.apply_updates(weights_before, updates)
        new_step, params = state["step"] + 1, learning.params(learned, others)
        changed = {"step": new_step, "params": params, "opt_state": opt_state}
        if plan.average is not None:
            changed["average"] = plan.average.update(state["average"], params, new_step)
        after = state | changed | memory_entries(memories)
        return keep_if_finite(state, after, totals, gradients=gradients, updates=updates)

    return step
