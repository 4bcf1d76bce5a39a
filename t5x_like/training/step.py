"""One optimizer step: a pure function of (state, batch), compiled once."""

from collections.abc import Callable
from typing import Any

import jax
import optax

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.families.family import Predictions, predict
from t5x_like.model.families.segment_memory import memory_for
from t5x_like.model.heads import defer_logits
from t5x_like.training import losses
from t5x_like.training.batch_ramp import RampSchedule
from t5x_like.training.finite_guard import keep_if_finite
from t5x_like.training.learned_weights import LearnedWeights
from t5x_like.training.losses import LossConfig
from t5x_like.training.losses.distillation import with_teacher
from t5x_like.training.microbatches import Memories, Part, accumulate
from t5x_like.training.state import State, StatePlan
from t5x_like.training.teacher import Teacher


def train_step(
    plan: StatePlan,
    loss: LossConfig,
    *,
    seed: int,
    num_microbatches: int = 1,
    stage: int = -1,
    ramp: RampSchedule | None = None,
    teacher: Teacher | None = None,
) -> Callable[..., State]:
    """Return the function ``(state, batch) -> state``; with a teacher it takes its weights or its predictions, too.

    A step that is not finite changes nothing (see ``keep_if_finite``). A state with a memory passes it on to the rows
    that continue those of the batch before.

    Args:
      plan: the state's structure, and the optimizer.
      loss: options of the loss over target tokens.
      seed: dropout is drawn from (``seed``, step, microbatch), so that a resumed run repeats an uninterrupted one.
      num_microbatches: parts of a batch whose gradients are summed. The loss is normalized over the whole batch, so
        the step is the one of the undivided batch.
      stage: number of the stage of gradual unfreezing; the last one if not given.
      ramp: microbatches of each step, of batches that grow; the others are empty.
      teacher: adds the losses against its predictions. Its weights are the argument ``teacher_params`` of the step, so
        that they are no constants of the compiled program; or its predictions are the argument ``recorded``.
    """
    if teacher is not None and loss.logits_chunk_length is not None:
        raise ValueError(
            "logits_chunk_length with a teacher, whose logits are compared whole; set logits_chunk_length=None"
        )
    learning = LearnedWeights(plan, stage)
    label_weight = 1.0 if teacher is None else teacher.distillation.own_loss_weight

    def step(
        state: State, batch: Batch, teacher_params: Any = None, recorded: Predictions | None = None
    ) -> State:
        batch = losses.with_targets(batch, loss)
        num_filled = None if ramp is None else ramp.traced_parts_of(state["step"])
        num_parts = num_microbatches if num_filled is None else num_filled
        weights, normalizers = losses.normalize(batch, loss, num_parts=num_parts)
        num_tasks = state["totals"].task_loss.shape[0]
        trained, others = learning.divide(state)

        def objective(trained: Any, part: Part, dropout_key: jax.Array) -> Any:
            model = learning.model(trained, others)
            if loss.logits_chunk_length is not None:
                defer_logits(model)
            predictions = predict(model, part.batch, dropout_key=dropout_key, memory=part.memories.own)
            memories = Memories(own=predictions.memory)
            if teacher is not None:
                taught = part.recorded or predict(
                    parameters.merge(teacher.graphdef, teacher_params),
                    part.batch,
                    memory=part.memories.teacher,
                )
                memories = memories._replace(teacher=taught.memory)
                predictions = with_teacher(
                    predictions,
                    taught,
                    part.batch,
                    teacher.distillation,
                    weights=part.weights,
                    normalizers=normalizers,
                )
            total, totals = losses.total(
                predictions,
                part.batch,
                loss,
                weights=part.weights,
                normalizers=normalizers,
                num_tasks=num_tasks,
                label_weight=label_weight,
            )
            return total, (totals, memories)

        before = Memories(state.get("memory"), state.get("teacher_memory"))
        gradients, totals, memories = accumulate(
            jax.grad(objective, has_aux=True),
            trained,
            Part(batch, weights, Memories(*(memory_for(batch, memory) for memory in before)), recorded),
            jax.random.fold_in(jax.random.key(seed), state["step"]),
            num_parts=num_microbatches,
            num_filled=num_filled,
        )
        updates, opt_state = learning.update(gradients, state["opt_state"], trained)
        learned: Any = optax.apply_updates(trained, updates)
        number, params = state["step"] + 1, learning.params(learned, others)
        changed = {"step": number, "params": params, "opt_state": opt_state}
        if plan.average is not None:
            changed["average"] = plan.average.update(state["average"], params, number)
        named = {"memory": memories.own, "teacher_memory": memories.teacher}
        after = state | changed | {name: memory for name, memory in named.items() if memory is not None}
        return keep_if_finite(state, after, totals, gradients=gradients, updates=updates)

    return step
