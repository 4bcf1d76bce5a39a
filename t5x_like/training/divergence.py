"""Ends a run whose steps had to be skipped, and says where numbers break first."""

import jax
import jax.numpy as jnp

from t5x_like.batch import Batch
from t5x_like.model import named_activations, parameters
from t5x_like.model.multiple_choice import flatten_choices
from t5x_like.model.parameters import Parameters
from t5x_like.training.hooks import Hook, RunProgress
from t5x_like.training.state import State, StateLayout

_REMEDIES = (
    "Try a lower LEARNING_RATE, more WARMUP_STEPS, COMPUTE_DTYPE='float32' or other data, in another MODEL_DIR "
    "with INITIAL_CHECKPOINT={run}; the same command continues with the next batches"
)


class StopOnSkippedSteps(Hook):
    """Ends a run after ``limit`` skipped steps in a row (see ``keep_if_finite``), and says where numbers break first.

    The number is read from the device every ``limit // 2`` steps, and at each step once one was skipped.
    """

    def __init__(self, plan: StateLayout, limit: int) -> None:
        self._plan, self._limit = plan, limit
        self._num_skipped = 0

    def start(self, run: RunProgress) -> None:
        """Count a continued run's skipped steps anew: it continues with other batches."""
        run.state = run.state | {"skipped": jnp.zeros_like(run.state["skipped"])}

    def after_step(self, run: RunProgress) -> None:
        """Stop the run if too many steps were skipped."""
        if not self._num_skipped and run.step % max(self._limit // 2, 1) and not run.is_last:
            return
        before, self._num_skipped = self._num_skipped, int(run.state["skipped"])
        if self._num_skipped and not before:
            run.say(
                f"step {run.step}: loss, gradients or update are not finite; weights stay as they were "
                f"({self._num_skipped} in a row)"
            )
        if self._num_skipped >= self._limit and not run.diverged:
            run.diverged = True
            run.stop(
                f"stopped at step {run.step}: {self._num_skipped} steps in a row had no finite loss, gradients and "
                f"update. The weights are those of step {run.step - self._num_skipped}. In the batch of step "
                f"{run.step}, {first_not_finite(self._plan, run.state, run.batch)}. "
                + _REMEDIES.format(run=run.model_dir)
            )


def first_not_finite(plan: StateLayout, state: State, batch: Batch | None) -> str:
    """Return the first part of the forward pass, without dropout, that is not finite, in words.

    Args:
      plan: Layout of the state.
      state: State with weights that may not be finite.
      batch: Batch of the step; None to look at the weights alone.
    """
    weights = plan.weights(state)
    for path, leaf in parameters.flatten(weights).items():
        if not bool(jnp.isfinite(leaf).all()):
            return f"the weight {path} is not finite"

    @jax.jit
    def finite(weights: Parameters, batch: Batch) -> dict[str, jax.Array]:
        with named_activations.record((f"*/{named_activations.HIDDEN_STATES}",)) as captured:
            parameters.merge(plan.graphdef, weights)(flatten_choices(batch))
        return {
            name.removesuffix(f"/{named_activations.HIDDEN_STATES}"): jnp.isfinite(states).all(
                axis=tuple(range(1, states.ndim))
            )
            for name, states in captured.items()
        }

    are_finite = {} if batch is None else finite(weights, batch)
    for stack in sorted(are_finite, key=lambda stack: stack == "decoder"):  # which reads the encoder's output
        for layer, is_finite in enumerate(are_finite[stack].tolist()):
            if not is_finite:
                last = len(are_finite[stack]) - 1
                where = f"the input of layer {layer}" if layer < last else f"the output of layer {last - 1}"
                return f"{where} of the {stack} is the first that is not finite"
    return "all layers' outputs are finite without dropout, so the loss, a gradient or the update is not"
