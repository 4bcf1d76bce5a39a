"""The training state: a plain nested dict of arrays, with shapes and shardings that are planned before they exist."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import Mesh
from jaxtyping import PyTree

from t5x_like.model import parameters
from t5x_like.model.families.family import ModelWithMeasures
from t5x_like.model.families.segment_memory import Memory, ModelWithMemory
from t5x_like.model.layers.mixture_of_experts import MixtureOfExperts
from t5x_like.model.layers.modules import modules_of
from t5x_like.model.layers.routing_sums import ROUTING_MEASURES
from t5x_like.model.parameters import ModelConfig, Parameters
from t5x_like.optimizers.optimizers import Optimizer
from t5x_like.optimizers.schedule_free import gradient_weights
from t5x_like.partitioning.shard import batch_sharding, sharding_notes, with_shardings
from t5x_like.training.companions import Companion
from t5x_like.training.expert_balance import ExpertBalance
from t5x_like.training.metrics import zero_totals
from t5x_like.training.microbatches import MODEL, Memories
from t5x_like.training.noisy_tune import NoisyTune
from t5x_like.training.unfreezing import GradualUnfreezing, StagedOptimizer, UnfreezingStage
from t5x_like.training.weight_average import WeightAverage
from t5x_like.weight_patterns import Selection

# "step" [], "skipped" [] (steps in a row that changed nothing), "params" (trained weights), "frozen" (the others),
# "opt_state", "totals"; "memory" if the model has one; "average" if the run averages its weights; "method" if the
# method has numbers that change; and such as "teacher_memory" if a frozen model of the method has a memory.
State = dict[str, Any]
_MEMORY = "memory"


class StateLayout(NamedTuple):
    """Structure, shapes and shardings of the training state, known before an array exists.

    Attributes:
      graphdef: Structure of the model.
      axes: Axis names of every weight, frozen ones included.
      transformation: Optimizer of the trained weights.
      abstract: State with ``jax.ShapeDtypeStruct`` leaves that carry their shardings.
      notes: Weights that the mesh could not split, a line each.
      trained: Weights, and layers of stacked weights, that are trained.
      stages: Stages of gradual unfreezing; empty if all trained weights train from the first step on.
      average: Average of trained weights; ``None`` for none.
    """

    graphdef: Any
    axes: dict[str, Any]
    transformation: optax.GradientTransformation | StagedOptimizer
    abstract: State
    notes: tuple[str, ...]
    trained: Selection
    stages: tuple[UnfreezingStage, ...] = ()
    average: WeightAverage | None = None

    def weights(self, state: State, part: Literal["params", "average"] = "params") -> parameters.Parameters:
        """Return the model's whole weights, for ``parameters.merge(plan.graphdef, weights)``.

        Args:
          state: State of the run.
          part: Current weights, or their average.
        """
        return parameters.combine(state[part], state["frozen"], self.trained)

    def at_gradients(self, state: State) -> State:
        """Return the state with the weights at which gradients are computed: others in schedule-free runs only.

        Args:
          state: State of the run.
        """
        optimizer, params = self.transformation, state["params"]
        if isinstance(optimizer, StagedOptimizer):
            read = optimizer.gradient_weights(state["opt_state"], params)
        else:
            read = gradient_weights(optimizer, state["opt_state"], params)
        if read is params:
            return state
        balance = ExpertBalance.of(self.graphdef, self.weights(self.abstract))
        return state | {"params": balance.keep(read, params)}

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of the model's own losses and means."""
        return _measured(self.graphdef, self.weights(self.abstract))

    def divide(self, params: parameters.Parameters) -> dict[str, parameters.Parameters]:
        """Return the entries of the state that hold a model's whole weights."""
        trained, frozen = parameters.partition(params, self.trained)
        return {"params": trained, "frozen": frozen}


def plan_state(
    model_config: Any,
    optimizer: Optimizer,
    mesh: Mesh,
    *,
    num_tasks: int,
    batch_size: int | None = None,
    trainable: Sequence[str] = ("*",),
    unfreezing: GradualUnfreezing | None = None,
    total_steps: int = 0,
    average: WeightAverage | None = None,
    measures: Sequence[str] = (),
    method_numbers: Sequence[str] = (),
    companions: Mapping[str, Companion] = {},
) -> StateLayout:
    """Plan shapes and shardings of the whole state, using no memory.

    Args:
      model_config: Configuration of the model.
      optimizer: Optimizer whose state is sharded like the weights.
      mesh: Devices.
      num_tasks: Number of tasks of the mixture, whose losses are logged apart.
      batch_size: Rows of a batch; a model with segment memory has it only if this is given.
      trainable: Patterns of the paths of trained weights (``parameters.select``); the others are frozen.
      unfreezing: Steps at which groups of them begin to train; ``None`` for all at once.
      total_steps: Last step, before which all groups must thaw.
      average: Average of trained weights that the state has; ``None`` for none.
      measures: Names of the method's own means, which are logged.
      method_numbers: Names of the method's numbers that change during the run; at first they are 0.
      companions: Frozen models of the method, whose segment memory is kept.

    Raises:
      ValueError: a pattern that matches no weight, or stages of unfreezing that can't be.
    """
    graphdef, params, axes = parameters.abstract(model_config)
    selection = parameters.select(params, trainable)
    trained, frozen = parameters.partition(params, selection)
    trained_axes, frozen_axes = parameters.partition(axes, selection)
    factors = optimizer.rate_factors(params)
    stages: tuple[UnfreezingStage, ...] = ()
    if unfreezing is None:
        transformation = optimizer.build(trained_axes, parameters.partition(factors, selection)[0])
        opt_state = jax.eval_shape(transformation.init, trained)
        opt_state_axes = optimizer.state_axes(opt_state, trained_axes)
    else:
        stages = unfreezing.stages(params, selection, total_steps)
        transformation = StagedOptimizer(optimizer, stages, axes, factors, selection)
        opt_state = jax.eval_shape(transformation.init, trained)
        opt_state_axes = transformation.state_axes(opt_state)
    measured = (*_measured(graphdef, params), *measures)
    shapes: State = {
        "step": jax.ShapeDtypeStruct((), jnp.int32),
        "skipped": jax.ShapeDtypeStruct((), jnp.int32),
        "params": trained,
        "frozen": frozen,
        "opt_state": opt_state,
        "totals": jax.eval_shape(lambda: zero_totals(num_tasks, measured)),
    }
    names = {
        "step": (),
        "skipped": (),
        "params": trained_axes,
        "frozen": frozen_axes,
        "opt_state": opt_state_axes,
        "totals": jax.tree.map(lambda _: (), shapes["totals"]),
    }
    if method_numbers:
        shapes["method"] = {name: jax.ShapeDtypeStruct((), jnp.float32) for name in method_numbers}
        names["method"] = dict.fromkeys(method_numbers, ())
    if average is not None:
        shapes["average"] = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, jnp.float32), trained)
        names["average"] = trained_axes
    abstract = with_shardings(names, shapes, mesh)
    if batch_size:
        models = {MODEL: (graphdef, params)}
        models |= {name: (each.graphdef, each.params) for name, each in companions.items()}
        abstract |= memory_entries(
            {name: plan_memory(*each, mesh, num_rows=batch_size) for name, each in models.items()}
        )
    notes = tuple(sharding_notes(axes, params, mesh))
    return StateLayout(graphdef, axes, transformation, abstract, notes, selection, stages, average)


def memories_of(state: State) -> Memories:
    """Return the memories that a state holds, by model; see ``memory_entries``."""
    names = {name: name.removesuffix(_MEMORY).removesuffix("_") for name in state if name.endswith(_MEMORY)}
    return {model or MODEL: state[name] for name, model in names.items()}


def has_memory(state: State) -> bool:
    """Return whether a state, or its shapes, has a memory of the batch before."""
    return bool(memories_of(state))


def memory_entries(memories: Memories) -> State:
    """Return a state's entries for memories by model: "memory", and such as "teacher_memory"."""
    return {
        _MEMORY if name == MODEL else f"{name}_{_MEMORY}": memory
        for name, memory in memories.items()
        if memory is not None
    }


def plan_memory(graphdef: nnx.GraphDef, params: Parameters, mesh: Mesh, *, num_rows: int) -> Memory | None:
    """Plan a segment memory that is sharded like the batch; ``None`` for a model without one.

    Args:
      graphdef: Structure of the model.
      params: Weights, or their shapes.
      mesh: Devices.
      num_rows: Rows of the batch.
    """

    def begin(params: Parameters) -> Memory | None:
        model = parameters.merge(graphdef, params)
        return model.new_memory(num_rows) if isinstance(model, ModelWithMemory) else None

    shapes = jax.eval_shape(begin, params)
    if shapes is None:
        return None

    def placed(leaf: jax.Array | jax.ShapeDtypeStruct, *, rows: int) -> PyTree:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=batch_sharding(mesh, axis=rows))

    return Memory(states=placed(shapes.states, rows=1), real=placed(shapes.real, rows=0))


def empty(abstract: PyTree) -> PyTree:
    """Return zeros of the given shapes and shardings."""
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype, device=leaf.sharding), abstract)


def saved_part(state: State) -> State:
    """Return the state without frozen weights, as checkpoints hold it."""
    return {name: part for name, part in state.items() if name != "frozen"}


def shardings_of(abstract: PyTree) -> PyTree:
    """Return the shardings that a tree of shapes carries."""
    return jax.tree.map(lambda leaf: leaf.sharding, abstract)


def new_state(plan: StateLayout, model_config: ModelConfig, *, seed: int) -> State:
    """Return the state at step 0 with fresh weights, each drawn on the devices that hold it.

    Args:
      plan: Shapes and shardings.
      model_config: Configuration of the model.
      seed: Seed of the weights.
    """

    def initialize(key: jax.Array) -> State:
        _, params = parameters.split(model_config.build(key))
        return state_from_params(plan, params)

    return jax.jit(initialize, out_shardings=shardings_of(plan.abstract))(jax.random.key(seed))


def state_from_params(plan: StateLayout, params: Parameters) -> State:
    """Return the state at step 0 with a model's whole weights and a fresh optimizer.

    Args:
      plan: Layout of the state.
      params: The model's whole weights.
    """
    divided = plan.divide(params)
    state: State = {
        "step": jnp.zeros((), jnp.int32),
        **divided,
        "opt_state": plan.transformation.init(divided["params"]),
    }
    if plan.average is not None:
        state["average"] = jax.tree.map(
            lambda leaf: jnp.array(leaf, jnp.float32), divided["params"]
        )  # a copy
    rest = {name: leaf for name, leaf in plan.abstract.items() if name not in state}  # totals, a memory
    return state | jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), rest)


def fine_tuning_state(plan: StateLayout, params: Parameters, noise: NoisyTune | None = None) -> State:
    """Return ``state_from_params`` compiled for the mesh, so that the optimizer state is sharded from the start.

    Args:
      plan: Shapes and shardings.
      params: Whole weights of the model.
      noise: Noise added to trained weights; ``None`` for none.
    """

    def initialize(params: Parameters) -> State:
        if noise is not None:
            trained, frozen = parameters.partition(params, plan.trained)
            trained = noise.perturb(trained, parameters.partition(plan.axes, plan.trained)[0])
            params = parameters.combine(trained, frozen, plan.trained)
        return state_from_params(plan, params)

    return jax.jit(initialize, out_shardings=shardings_of(plan.abstract))(params)


def _measured(graphdef: nnx.GraphDef, params: Parameters) -> tuple[str, ...]:
    model = parameters.merge(graphdef, params)
    own = model.measured if isinstance(model, ModelWithMeasures) else ()
    has_experts = any(modules_of(model, MixtureOfExperts))
    return (*own, *(ROUTING_MEASURES if has_experts else ()))
