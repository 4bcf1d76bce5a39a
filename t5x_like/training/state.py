"""The training state: one plain nested dict of arrays, where each leaf lives on the mesh, and how it is born."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from t5x_like.model import parameters
from t5x_like.model.families.family import Measuring
from t5x_like.model.families.segment_memory import Memory, Remembering
from t5x_like.partitioning.shard import batch_sharding, sharding_notes, with_shardings
from t5x_like.training.metrics import zero_totals

State = dict[str, Any]  # "step" [], "params", "opt_state", "totals"; "memory" if the model has one


class StatePlan(NamedTuple):
    """Everything about the state that is known before an array exists."""

    graphdef: Any
    axes: dict[str, Any]  # axis names of every parameter
    transformation: optax.GradientTransformation
    abstract: State  # jax.ShapeDtypeStruct leaves that carry their shardings
    notes: tuple[str, ...]  # what the mesh could not split


def plan_state(
    model_config: Any, optimizer: Any, mesh: Mesh, *, num_tasks: int, batch_size: int | None = None
) -> StatePlan:
    """Shapes and shardings of the whole state, with no memory used. The optimizer is sharded like its weights.

    A model that remembers the batch before does so only if the rows of a batch, ``batch_size``, are known.
    """
    graphdef, params, axes = parameters.abstract(model_config)
    transformation = optimizer.build(axes)
    opt_state = jax.eval_shape(transformation.init, params)
    shapes: State = {
        "step": jax.ShapeDtypeStruct((), jnp.int32),
        "params": params,
        "opt_state": opt_state,
        "totals": jax.eval_shape(lambda: zero_totals(num_tasks, _measured(graphdef, params))),
    }
    names = {
        "step": (),
        "params": axes,
        "opt_state": optimizer.state_axes(opt_state, axes),
        "totals": jax.tree.map(lambda _: (), shapes["totals"]),
    }
    abstract = with_shardings(names, shapes, mesh)
    memory = batch_size and plan_memory(graphdef, params, mesh, num_rows=batch_size)
    if memory:
        abstract["memory"] = memory
    return StatePlan(graphdef, axes, transformation, abstract, tuple(sharding_notes(axes, params, mesh)))


def plan_memory(graphdef: Any, params: Any, mesh: Mesh, *, num_rows: int) -> Memory | None:
    """Shapes and shardings of what the model remembers of ``num_rows``, cut like the batch; ``None`` if nothing."""

    def begin(params: Any) -> Memory | None:
        model = parameters.merge(graphdef, params)
        return model.new_memory(num_rows) if isinstance(model, Remembering) else None

    shapes = jax.eval_shape(begin, params)
    if shapes is None:
        return None

    def placed(leaf: Any, *, rows: int) -> Any:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=batch_sharding(mesh, axis=rows))

    return Memory(states=placed(shapes.states, rows=1), real=placed(shapes.real, rows=0))


def empty(abstract: Any) -> Any:
    """Zeros of those shapes, each where its sharding says."""
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype, device=leaf.sharding), abstract)


def shardings_of(abstract: Any) -> Any:
    """The shardings that a tree of shapes carries."""
    return jax.tree.map(lambda leaf: leaf.sharding, abstract)


def new_state(plan: StatePlan, model_config: Any, *, seed: int) -> State:
    """Step 0: fresh weights drawn from ``seed``, each born where it will live."""

    def initialise(key: jax.Array) -> State:
        _, params = parameters.split(model_config.build(key))
        return state_from_params(plan, params)

    return jax.jit(initialise, out_shardings=shardings_of(plan.abstract))(jax.random.key(seed))


def state_from_params(plan: StatePlan, params: Any) -> State:
    """Step 0 with given weights and a fresh optimizer."""
    state: State = {
        "step": jnp.zeros((), jnp.int32),
        "params": params,
        "opt_state": plan.transformation.init(params),
    }
    begun = {name: leaf for name, leaf in plan.abstract.items() if name not in state}  # totals, a memory
    return state | jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), begun)


def fine_tuning_state(plan: StatePlan, params: Any) -> State:
    """``state_from_params`` compiled for the mesh, so that the optimizer state is born sharded."""
    return jax.jit(lambda params: state_from_params(plan, params), out_shardings=shardings_of(plan.abstract))(
        params
    )


def _measured(graphdef: Any, params: Any) -> tuple[str, ...]:
    model = parameters.merge(graphdef, params)
    return model.measured if isinstance(model, Measuring) else ()
